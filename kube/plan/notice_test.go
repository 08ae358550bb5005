package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func TestWhatUsersOfAVolumeAreTold(t *testing.T) {
	nodes := map[string]*adminpb.Node{"n1": {Id: "n1", State: "reachable"}, "n2": {Id: "n2", State: "unreachable"}}
	whole := func(n string) *adminpb.Replica { return &adminpb.Replica{Node: n, State: "present", UpToDate: true} }
	for name, tc := range map[string]struct {
		v      *adminpb.Volume
		reason string
		note   string
	}{
		"nothing is wrong":    {&adminpb.Volume{Phase: "ready", Replicas: []*adminpb.Replica{whole("n1")}}, "", ""},
		"it is being created": {&adminpb.Volume{Phase: "creating", Abnormal: true}, "", ""},
		"a node is away":      {&adminpb.Volume{Phase: "ready", Replicas: []*adminpb.Replica{whole("n1"), whole("n2")}}, ReasonNodeAway, "`kubectl holdfast nodes lost n2`"},
		"a replica is being synchronised": {&adminpb.Volume{Phase: "ready", Replication: &adminpb.Replication{}, Replicas: []*adminpb.Replica{
			whole("n1"), {Node: "n3", State: "present", Connection: "sync_target", Percent: 40}}}, ReasonNotUpToDate, "n3 is being synchronised: do not stop node n1"},
		"a replica is outdated": {&adminpb.Volume{Name: "v", Phase: "ready", Replication: &adminpb.Replication{}, Replicas: []*adminpb.Replica{
			whole("n1"), {Node: "n3", State: "present", Disk: "outdated"}}}, ReasonNotUpToDate, "(outdated): do not stop node n1"},
		"I/O is suspended": {&adminpb.Volume{Name: "v", Phase: "ready", Replicas: []*adminpb.Replica{{Node: "n1", State: "present", Suspended: true}}}, ReasonSuspended, "`kubectl holdfast volumes v`"},
		"something else": {&adminpb.Volume{Name: "v", Phase: "ready", Abnormal: true, Condition: "The device is missing", Claim: &adminpb.Claim{Namespace: "shop", Name: "data"}},
			ReasonAbnormal, "The device is missing: run `kubectl holdfast why -n shop pvc/data` to see what to do"},
		"something else, of no claim": {&adminpb.Volume{Name: "v", Phase: "ready", Abnormal: true, Condition: "The device is missing"}, ReasonAbnormal, "run `kubectl holdfast volumes v`"},
	} {
		got := OfVolume(tc.v, nodes)
		require.Equal(t, tc.reason == "", len(got) == 0, name)
		if tc.reason != "" {
			require.Equal(t, tc.reason, got[0].Reason, name)
			require.Contains(t, got[0].Note, tc.note, name)
		}
	}
}

func TestWhatIsToldOfANode(t *testing.T) {
	pool := func(reserved int64) *adminpb.Pool {
		return &adminpb.Pool{Id: "p", CapacityBytes: 100 << 30, ReservedBytes: reserved << 30, OvercommitPercent: 100}
	}
	require.Empty(t, OfNode(&adminpb.Node{State: "reachable", Pools: []*adminpb.Pool{pool(94)}}))
	full := OfNode(&adminpb.Node{State: "reachable", Pools: []*adminpb.Pool{pool(96)}})
	require.Equal(t, ReasonPoolFull, full[0].Reason)
	require.Contains(t, full[0].Note, "4 GiB left of 100 GiB")
	measured := pool(0)
	measured.Measured, measured.Condition = true, "its metadata are full"
	require.Contains(t, OfNode(&adminpb.Node{Pools: []*adminpb.Pool{measured}})[0].Note, "metadata are full")
	require.Equal(t, ReasonNodeAway, OfNode(&adminpb.Node{Id: "n1", State: "unreachable"})[0].Reason)
}

func TestAClaimIsToldThatNoPoolHasRoom(t *testing.T) {
	node := func(state string, free int64) *adminpb.Node {
		return &adminpb.Node{State: state, Pools: []*adminpb.Pool{{CapacityBytes: free << 30, OvercommitPercent: 100}}}
	}
	nodes := []*adminpb.Node{node("reachable", 10), node("unreachable", 50), node("reachable", 4)}
	_, short := NoCapacity(10<<30, 1, nodes)
	require.False(t, short)
	notice, short := NoCapacity(10<<30, 2, nodes)
	require.True(t, short)
	require.Contains(t, notice.Note, "1 of the 2 nodes that this volume needs have a pool with 10 GiB left (the largest has 10 GiB)")
}

func TestHowManyReplicasAClassAsksFor(t *testing.T) {
	for want, classes := range map[int][]map[string]string{
		1: {nil, {"replicas": "1"}, {"site": "A"}},
		2: {{"replicas": "2"}, {"sites": "default,B"}, {"sites": "default,B", "replicas": "2"}},
	} {
		for _, parameters := range classes {
			require.Equal(t, want, Replicas(parameters), parameters)
		}
	}
}

func TestALostQuorumIsToldInASentence(t *testing.T) {
	const answers = "10.0.0.1:9800: connection refused; 10.0.0.2:9800: it knows no leader"
	for _, why := range []string{answers, "ask the controllers for their nodes: rpc error: code = Unavailable desc = " + answers} {
		notice := NoQuorum(why)
		require.Equal(t, ReasonNoQuorum, notice.Reason)
		require.True(t, strings.HasSuffix(notice.Note, "which `kubectl holdfast doctor` names ("+answers+")"), notice.Note)
		require.NotContains(t, notice.Note, "rpc error")
	}
}

func TestAFailoverThatWaitsIsToldWithACommand(t *testing.T) {
	for _, why := range []string{"volume v: no witness", strings.Repeat("€", 5000)} {
		note := FailoverWaits("n1", why).Bounded().Note
		require.Contains(t, note, "`kubectl holdfast nodes out-of-service n1`")
		require.LessOrEqual(t, len(note), 1024)
	}
}

func TestANoticeFitsIntoAnEvent(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", 5000), strings.Repeat("€", 5000), "short"} {
		require.LessOrEqual(t, len(Notice{Note: text}.Bounded().Note), 1024)
	}
	require.Equal(t, "short", Notice{Note: "short"}.Bounded().Note)
}
