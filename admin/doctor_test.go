package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// wellEnv is a cluster of three members and two hosts in which nothing is to be found.
func wellEnv(t *testing.T) *env {
	w := newReplicatedEnv(t, "n1", "n2")
	for i, name := range []string{"c1", "c2", "c3"} {
		role := "follower"
		if i == 0 {
			role = "leader"
		}
		w.members = append(w.members, Member{Name: name, MemberID: "id-" + name, Address: name + ":9800", Role: role, Voter: true, Term: 1, Applied: 1 << 20, Level: fsm.MaxFeatureLevel, ClockKnown: true})
	}
	w.server.Pools = func(context.Context) map[fsm.PoolID]PoolState {
		return map[fsm.PoolID]PoolState{"pool-n1": {Free: 1 << 39, Capacity: 1 << 40}, "pool-n2": {Free: 1 << 39, Capacity: 1 << 40}}
	}
	reached := []Reached{{Address: "c1:9802"}}
	w.nodeChecks = map[fsm.NodeID]HostCheck{"n1": {Findings: []*adminpb.Diagnosis{{Severity: SeverityOK, Found: "its clock is set"}}, Reached: reached}, "n2": {Reached: reached}}
	w.checks = map[string]HostCheck{"id-c1": {Reached: []Reached{{Address: "c2:9800"}, {Address: "c3:9800"}}}}
	return w
}

func (w *env) doctor() *adminpb.DoctorResponse {
	w.t.Helper()
	resp, err := w.server.Doctor(context.Background(), &adminpb.DoctorRequest{})
	require.NoError(w.t, err)
	return resp
}

func TestTheDoctorFindsNothingInAClusterThatIsWell(t *testing.T) {
	w := wellEnv(t)
	w.replicate(1)
	for range 2 {
		resp := w.doctor()
		require.Empty(t, WithoutFine(resp.GetFindings()))
		require.Equal(t, SeverityOK, WorstOf(resp.GetFindings()))
		require.Equal(t, w.index, resp.GetIndex())
		text := foundText(resp)
		for _, want := range []string{"c1 leads, and 3 of 3 voters answer", "its clock is set", "it reaches 2 other members", "host n1 reaches the controller at c1:9802", "1 replica pair connected", "1 volume in order"} {
			require.Contains(t, text, want)
		}
	}
}

func foundText(resp *adminpb.DoctorResponse) string {
	var out strings.Builder
	for _, d := range resp.GetFindings() {
		out.WriteString(d.GetSeverity() + " " + d.GetSubject() + ": " + d.GetFound() + " | " + d.GetRemedy() + "\n")
	}
	return out.String()
}

func TestTheRulesOfACluster(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *env)
		want   []string // severity, subject and found, and the remedy
	}{
		"no quorum":           {func(w *env) { w.quorum = errNoQuorum }, []string{"error cluster: there is no quorum", "OPERATIONS.md"}},
		"no leader":           {func(w *env) { w.members[0].Role = "follower" }, []string{"warn cluster: no member said that it leads"}},
		"one voter":           {func(w *env) { w.members = w.members[:1] }, []string{"warn cluster: there is one voter only", "holdfast members add"}},
		"two voters":          {func(w *env) { w.members = w.members[:2] }, []string{"warn cluster: 2 voters outlive no more failures than 1 do"}},
		"a member is down":    {func(w *env) { w.members[2].Err = errors.New("refused") }, []string{"error member c3: it does not answer: refused", "holdfast members replace", "error cluster: 2 of 3 voters answer: one more failure"}},
		"a member in trouble": {func(w *env) { w.members[1].Trouble = "its disk is full" }, []string{"error member c2: it does not serve: its disk is full"}},
		"a member behind":     {func(w *env) { w.index += 5000; w.members[1].Applied = w.index - 2000 }, []string{"warn member c2: it is 2000 entries behind"}},
		"a member without vote": {func(w *env) {
			w.members = append(w.members, Member{Name: "c4", MemberID: "id-c4", Applied: 1 << 20, Level: fsm.MaxFeatureLevel})
		},
			[]string{"warn member c4: it has no vote yet"}},
		"states that differ": {func(w *env) { w.members[0].Hash, w.members[1].Hash = []byte{1}, []byte{2} }, []string{"error cluster: the states of c1 and c2 differ at index"}},
		"builds that differ": {func(w *env) {
			w.members[0].Version, w.members[1].Version, w.members[2].Version = "v2", "v1", "v1"
		}, []string{"warn cluster: builds are mixed: ", "v1 on c2 and 1 more", "v2 on c1", "holdfast upgrade status"}},
		"no checkpoint for long": {func(w *env) { w.index += 10000; w.members[0].Applied = w.index }, []string{"warn cluster: no majority has agreed on the state's hash since index 0"}},
		"clocks apart": {func(w *env) {
			w.members[1].ClockAhead, w.members[2].ClockAhead = -time.Second, time.Second
			w.members[2].ClockWithin = 100 * time.Millisecond
		}, []string{"warn pair c2/c3: the clock of c3 is at least 1.9s ahead of that of c2", "chronyc"}},
		"members that do not reach each other": {func(w *env) {
			w.checks["id-c2"] = HostCheck{Reached: []Reached{{Address: "c3:9800", Err: "timed out"}}}
		},
			[]string{"error pair c2/c3: c2 does not reach c3, which this controller reaches: timed out", "firewall"}},
		"a member's host with a finding": {func(w *env) {
			w.checks["id-c2"] = HostCheck{Findings: []*adminpb.Diagnosis{{Severity: SeverityError, Found: "the disk is too slow", Remedy: "replace it"}}}
		}, []string{"error member c2: the disk is too slow | replace it"}},
		"hosts of older builds":     {func(w *env) { w.checkErr = ErrOlderBuild }, []string{"unknown member c1: its host is not known: it runs an older build", "unknown host n1: its host is not known: it runs an older build", "holdfast doctor --host"}},
		"a host that does not look": {func(w *env) { w.unreachable["n1"] = errors.New("its disk is gone") }, []string{"unknown host n1: its host could not be asked: its disk is gone"}},
		"hosts that are not asked":  {func(w *env) { w.server.HostChecks = nil }, []string{"unknown host n1: its host was not asked", "unknown member c1: its host was not asked"}},
		"a host that does not reach a controller": {func(w *env) { w.nodeChecks["n2"] = HostCheck{Reached: []Reached{{Address: "c1:9802", Err: "refused"}}} },
			[]string{"warn pair n2/c1:9802: host n2 does not reach the controller at c1:9802: refused", "firewall"}},
		"a host that is unreachable": {func(w *env) { w.setUnreachable("n2") }, []string{"error host n2: it is unreachable", "holdfast nodes lost n2", "unknown host n2: its host is not known"}},
		"a host that is cordoned": {func(w *env) {
			w.mustApply(&fsmpb.Command{Actor: "admin/alice", Body: &fsmpb.Command_ScheduleNode{ScheduleNode: &fsmpb.ScheduleNode{NodeId: "n1", HostId: "host-n1", Cordoned: true}}})
		}, []string{"warn host n1: it is cordoned", "holdfast nodes undrain n1"}},
		"a host that is fenced": {func(w *env) {
			other := w.registration("n3")
			other.Replication.Address = "198.51.100.7"
			w.mustApply(&fsmpb.Command{Actor: "node/n3", Body: &fsmpb.Command_RegisterNode{RegisterNode: other}})
			w.mustApply(&fsmpb.Command{Actor: "admin/alice", Body: &fsmpb.Command_FenceNetwork{FenceNetwork: &fsmpb.FenceNetwork{Cidrs: []string{"198.51.100.7/32"}}}})
		}, []string{"warn host n3: it is fenced", "holdfast nodes unfence"}},
		"no host":               {func(w *env) { w.state = fsm.New() }, []string{"warn cluster: no storage host is registered"}},
		"a pool that is absent": {poolIs(PoolState{Absent: true}), []string{"error pool pool-n1 on n1: it is absent"}},
		"a pool nearly full":    {poolIs(PoolState{Free: 1 << 37, Capacity: 1 << 40}), []string{"warn pool pool-n1 on n1: it is 88 % full"}},
		"a full pool":           {poolIs(PoolState{Free: 1 << 30, Capacity: 1 << 40}), []string{"error pool pool-n1 on n1: it is 100 % full"}},
		"a pool without facts":  {func(w *env) { w.server.Pools = nil }, []string{"unknown pool pool-n1 on n1: how full it is is not known"}},
		"replicas apart": {func(w *env) {
			id := w.replicate(1)
			w.observeReplica("n1", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
		}, []string{"warn pair n1/n2: 1 of 1 replicated volumes between them are not connected", "nc -z 192.0.2.1"}},
		"a volume with one replica": {func(w *env) {
			w.replicate(1)
			w.mustApply(&fsmpb.Command{Actor: "admin/alice", Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2"}}})
		}, []string{"warn volume pvc-1 (hf-00000000-0000-4000-8000-000000000001): ", "holdfast volumes replicas"}},
		"a volume that is missing": {func(w *env) {
			w.observe(&fsmpb.Observation{VolumeId: string(w.create(7, true)), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
		}, []string{"error volume pvc-7 (hf-00000000-0000-4000-8000-000000000007): a host reported its replica missing", "holdfast audit"}},
		"a kept copy":                 {func(w *env) { w.keepCopy("n1", w.replicate(1)) }, []string{"warn cluster: there is 1 kept copy of what outdated replicas had", "holdfast volumes kept list"}},
		"an operation that runs long": {func(w *env) { w.create(1, false); w.index += 3600 }, []string{"warn operation op-", "create of pvc-1 has run for 1h0m0s", "holdfast operations show op-"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := wellEnv(t)
			tc.change(w)
			for range 2 {
				text := foundText(w.doctor())
				for _, want := range tc.want {
					require.Contains(t, text, want)
				}
			}
		})
	}
}

func TestHostsArePlannedFor(t *testing.T) {
	for range 2 {
		all := nodeDiagnoses(&adminpb.Node{Id: "n1", State: "reachable", NoNewReplicas: true})
		require.Equal(t, "it is in adoption mode, and changes nothing", all[1].GetFound())
		require.Equal(t, "run `holdfast nodes adopt n1`", all[1].GetRemedy())
		require.Contains(t, all[2].GetFound(), "registered without replication")
		lost := nodeDiagnoses(&adminpb.Node{Id: "n1", State: "lost"})
		require.Len(t, lost, 1)
		require.Equal(t, SeverityOK, lost[0].GetSeverity())
		pool := poolDiagnoses(&adminpb.Node{Id: "n1"}, &adminpb.Pool{Id: "p", CapacityBytes: 1 << 30, FreeBytes: 1 << 30, ReservedBytes: 3 << 29, Measured: true})
		require.Equal(t, SeverityOK, pool[0].GetSeverity())
		require.Equal(t, "it is over-committed: volumes and snapshots may grow to 1.5 GiB, 150 % of what it has", pool[1].GetFound())
		require.Equal(t, SeverityWarn, pool[1].GetSeverity())
	}
}

func TestAFeatureLevelThatAllUnderstandCanBeRaised(t *testing.T) {
	st := fsm.New()
	bootstrap := &fsmpb.Command{Actor: "controller/c1", RequestId: []byte("request 00000001"), SchemaVersion: 1, Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster-1", IncarnationId: make([]byte, 16), FeatureLevel: fsm.Level1}}}
	require.NoError(t, fsm.Err(st.Apply(1, bootstrap).Outcome))
	p := &patient{state: st, members: []Member{{Name: "c1", Level: fsm.Level2}}}
	for range 2 {
		require.Equal(t, "all understand feature level 2, and the cluster runs at 1", checkLevels(p)[0].GetFound())
		require.Contains(t, checkLevels(p)[0].GetRemedy(), "holdfast upgrade finish")
	}
	p.members = append(p.members, Member{Name: "c2", Err: errors.New("refused")})
	require.Equal(t, SeverityOK, checkLevels(p)[0].GetSeverity(), "nobody knows what the one that is down understands")
}

func TestReleasesOfDRBDThatDiffer(t *testing.T) {
	w := newReplicatedEnv(t, "n1")
	newer := w.registration("n2")
	newer.Replication.Version = "9.2.4"
	w.mustApply(&fsmpb.Command{Actor: "node/n2", Body: &fsmpb.Command_RegisterNode{RegisterNode: newer}})
	for range 2 {
		require.Contains(t, foundText(w.doctor()), "warn cluster: releases of DRBD are mixed: 8 on node n1, 9 on node n2")
	}
}

// poolIs has n1's pool measured like that.
func poolIs(state PoolState) func(*env) {
	return func(w *env) {
		w.server.Pools = func(context.Context) map[fsm.PoolID]PoolState { return map[fsm.PoolID]PoolState{"pool-n1": state} }
	}
}

func TestManyFindingsOfOneSortAreAPage(t *testing.T) {
	var all []*adminpb.Diagnosis
	for range listedEach + 5 {
		all = append(all, diagnose(SeverityWarn, "volume", "", "it is degraded"))
	}
	all[listedEach+1].Severity = SeverityError
	for range 2 {
		cut := bounded(all, "volume", "run `holdfast volumes`")
		require.Len(t, cut, listedEach+1)
		require.Equal(t, SeverityError, cut[listedEach].GetSeverity(), "the worst of those that are not listed")
		require.Equal(t, "and 5 volumes more are like these", cut[listedEach].GetFound())
		require.Len(t, bounded(all[:listedEach], "volume", ""), listedEach)
	}
}

func TestOperationsAreJudgedByTheirErrorsAndTheirAge(t *testing.T) {
	p := &patient{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	for name, tc := range map[string]struct {
		op   *adminpb.Operation
		want string
	}{
		"failed":      {&adminpb.Operation{Id: "op-1", State: "failed", Kind: "create", Name: "v", LastError: "no space"}, "error create of v failed; its last error: no space"},
		"many tries":  {&adminpb.Operation{Id: "op-1", State: "running", Kind: "create", Volume: "v", Attempts: 5}, "warn create of v has failed 5 times and is tried again"},
		"long":        {&adminpb.Operation{Id: "op-1", State: "running", Kind: "expand", Group: "g", Step: "grow", Started: "2026-01-01T11:00:00Z"}, "warn expand of g has run for 1h0m0s, at step \"grow\""},
		"not so long": {&adminpb.Operation{Id: "op-1", State: "running", Started: "2026-01-01T11:59:00Z"}, ""},
		"cancelled":   {&adminpb.Operation{Id: "op-1", State: "cancelled", Started: "2025-01-01T11:59:00Z"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				d := p.operationDiagnosis(tc.op)
				if tc.want == "" {
					require.Nil(t, d)
					continue
				}
				require.Equal(t, tc.want, d.GetSeverity()+" "+d.GetFound())
				require.Contains(t, d.GetRemedy(), "holdfast operations show op-1")
			}
		})
	}
}

func TestRelationsAreJudgedByTheirStatus(t *testing.T) {
	for status, want := range map[string]string{"healthy": SeverityOK, "degraded": SeverityWarn, "error": SeverityError, "unknown": SeverityUnknown} {
		for range 2 {
			all := relationDiagnoses("replication of v", &adminpb.Relation{Status: status, Message: "why"})
			require.Len(t, all, 1)
			require.Equal(t, want, all[0].GetSeverity())
		}
	}
	all := relationDiagnoses("replication of v", &adminpb.Relation{Status: "healthy", Ousted: []*adminpb.Ousted{{Site: "a", Index: 7}}})
	require.Equal(t, "site a lost the role at index 7 without having demoted", all[1].GetFound())
	require.Equal(t, SeverityWarn, all[1].GetSeverity())
}

func TestTheDoctorsTableHasRemediesInLinesOfTheirOwn(t *testing.T) {
	resp := &adminpb.DoctorResponse{Index: 7, Findings: []*adminpb.Diagnosis{
		{Severity: SeverityOK, Subject: "cluster", Found: "b"}, {Severity: SeverityError, Subject: "host n1", Found: "a", Remedy: "do it"}, {Severity: SeverityUnknown, Subject: "host n2", Found: "c"}}}
	SortDiagnoses(resp.GetFindings())
	var out strings.Builder
	require.NoError(t, Print(&out, "table", resp))
	require.Equal(t, "SEVERITY  SUBJECT  FOUND\nerror     host n1  a\n                     do it\nunknown   host n2  c\nok        cluster  b\n1 error, 1 not known, 0 warnings at index 7\n", out.String())
	require.Equal(t, SeverityError, WorstOf(resp.GetFindings()))
	require.Len(t, WithoutFine(resp.GetFindings()), 2)
}
