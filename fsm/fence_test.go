package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func fence(cidrs ...string) *fsmpb.FenceNetwork     { return &fsmpb.FenceNetwork{Cidrs: cidrs} }
func unfence(cidrs ...string) *fsmpb.UnfenceNetwork { return &fsmpb.UnfenceNetwork{Cidrs: cidrs} }

// at is a command that came in through the endpoint of a site.
func (w *world) at(site string, body proto.Message) *fsmpb.Outcome {
	w.t.Helper()
	w.ok("controller/c"+site, registerMember("c"+site, site))
	w.calls++
	cmd := envelope("controller/c"+site, fmt.Sprintf("request %d", w.calls), w.index, body)
	cmd.Site = site
	return w.applyEnvelope(cmd)
}

// fenced tells whether the node is fenced.
func (w *world) fenced(node string) bool {
	w.t.Helper()
	n, ok := w.s.Node(NodeID(node))
	require.True(w.t, ok)
	return n.IsFenced()
}

// holds tells whether the operators' fence of the CIDR holds.
func (w *world) holds(owner FenceOwner, cidr string) bool {
	w.t.Helper()
	done, waitsFor, rej := w.s.FenceHolds([]string{cidr}, owner)
	require.Nil(w.t, rej)
	require.Equal(w.t, done, waitsFor == "")
	return done
}

const (
	onlyN1  = "10.0.0.1/32"
	onlyN2  = "10.0.0.2/32"
	ownDflt = FenceOwner("site/default")
)

// S57: one entry ends what the host holds. It cannot be asked any more, and S8 applies.
func TestS57_AFenceEndsWhatItsHostsHoldInOneEntry(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	before := *w.volume(1)
	w.twice(controller, fence("10.0.0.1/32"))
	v := w.volume(1)
	require.Empty(t, v.Publications())
	require.Equal(t, []Teardown{{Node: "n1", Host: "host-n1", Epoch: before.Publications()[0].Epoch}}, v.Teardowns)
	require.Nil(t, v.Replication.Primary)
	require.Greater(t, v.Replication.Generation, before.Replication.Generation)
	require.False(t, w.s.HostReachable("n1", "host-n1"))
	require.False(t, w.replicaSync(1, "n1").Outdated, "nothing is outdated by it")
	desired, _ := w.s.DesiredVolume("n2", v.ID)
	require.False(t, desired.Replication.Connect, "its peer disconnects")
	require.NoError(t, Err(&fsmpb.Outcome{}))
}

// S57: it is done when each volume is acknowledged, severed, or has nobody else to go on.
func TestS57_AFenceHoldsWhenNobodyWritesBesideASuccessor(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after func(*world)
		holds         bool
	}{
		"not by its entry alone": {after: func(*world) {}},
		"not while the peer's kernel would connect again": {after: func(w *world) {
			w.reportCurrent(1, "n2", disconnectedObservation(7, connecting))
		}},
		"not by what the peer saw before": {after: func(w *world) {
			x := w.currentObservation(1, "n2", disconnectedObservation(7, standAlone))
			x.Generation--
			w.reportObservation(1, "n2", x)
		}},
		"the peer is severed":      {holds: true, after: func(w *world) { w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone)) }},
		"the host acknowledged it": {holds: true, after: acknowledge1},
		"the peer is outdated": {holds: true, after: func(*world) {}, before: func(w *world) {
			w.reportCurrent(1, "n1", disconnectedPrimary(7))
			w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7)))
		}},
		"the peer cannot be reached": {holds: true, after: func(w *world) { w.setUnreachable("n2", true) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			if tc.before != nil {
				tc.before(w)
			}
			w.ok(controller, fence(onlyN1))
			tc.after(w)
			require.Equal(t, tc.holds, w.holds(ownDflt, onlyN1))
		})
	}
}

// acknowledge1 has n1 report that it ended its use of volume 1.
func acknowledge1(w *world) {
	w.reportCurrent(1, "n1", disconnectedObservation(7, standAlone))
	w.unstaged(1, "n1", w.volume(1).Teardowns[0].Epoch)
}

// S57: the peer goes on as in a takeover, and the last replica that is up to date is never outdated.
func TestS57_ThePeerOfAFencedWriterGoesOn(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ok(controller, fence(onlyN1))
	require.Equal(t, Busy, reasonOf(w.takeOverWithoutCut()))
	w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
	require.True(t, w.holds(ownDflt, onlyN1))
	w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
	require.True(t, w.replicaSync(1, "n1").Outdated)
	require.Equal(t, HostID("host-n2"), w.s.PrimaryHost(w.volume(1)))
}

// takeOverWithoutCut publishes volume 1 to n2 and requests to be primary while the kernels are connected.
func (w *world) takeOverWithoutCut() *fsmpb.Outcome {
	w.ok(controller, publish(1, "n2"))
	return w.apply("node/n2", w.setPrimary(1, "n2", inSyncObservation(7)))
}

// S57: with protocol A the publication ends too, and the peer, which may lack writes, takes a decision.
func TestS57_AFenceWithProtocolATakesADecision(t *testing.T) {
	w := newReplicated(t, protocolA)
	w.primary(1, "n1", 7)
	w.ok(controller, fence(onlyN1))
	require.Empty(t, w.volume(1).Publications())
	w.ok(controller, publish(1, "n2"))
	w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
	require.NotNil(t, w.apply("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone))).GetRejection())
	require.False(t, w.replicaSync(1, "n1").Outdated)
}

// S57: many volumes of a host are fenced in force at once, whatever a batch writes; each has an operation
// of its own.
func TestS57_AFenceOfManyVolumesIsInForceAtOnce(t *testing.T) {
	w := newWorld(t)
	w.s.sweepBudget = sweepBudget{reads: 1, writes: 1}
	w.ok("node/n2", register("n2"))
	r := register("n1")
	r.Addresses = []string{"192.168.7.1"}
	w.ok("node/n1", r)
	for n := 1; n <= 4; n++ {
		c := create(n)
		c.Requisite = []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: TopologyKey, Value: "n1"}}}}
		w.ready(n, c)
		w.ok(controller, publish(n, "n1"))
	}
	w.ok(controller, fence("192.168.7.0/24"))
	require.NotEmpty(t, w.s.Cluster().Sweeps)
	for n := 1; n <= 4; n++ {
		require.Empty(t, w.volume(n).Publications())
		require.Len(t, w.volume(n).Teardowns, 1)
		require.Equal(t, OpTeardown, w.volume(n).Operation.Kind)
		require.False(t, w.volume(n).Operation.Started.IsZero())
	}
	require.True(t, w.holds(ownDflt, "192.168.7.0/24"), "no other host could go on")
	for len(w.s.Cluster().Sweeps) > 0 {
		w.ok(controller, &fsmpb.ContinueSweep{Index: w.s.Cluster().Sweeps[0].Epoch.Index})
	}
	require.Equal(t, w.contents(), (&world{s: restored(t, w.s)}).contents())
}

// S57: a fenced host gets nothing new: no volume, no replica, no publication.
func TestS57_AFencedHostGetsNothingNew(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(controller, fence(onlyN1))
	w.rejected(Unreachable, controller, publish(1, "n1"))
	c := create(2)
	c.Requisite = []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: TopologyKey, Value: "n1"}}}}
	require.NotNil(t, w.apply(controller, c).GetRejection())
}

// S58: its session goes on for teardown: nothing else is granted, and it hears that it lost.
func TestS58_AFencedHostIsAskedForTeardownOnly(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publications()[0].Epoch
	request := w.setPrimary(1, "n1", disconnectedPrimary(7))
	attach := w.replicaSync(1, "n1").Attachment + 1
	w.ok(controller, fence(onlyN1))
	require.Equal(t, refused, w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7))).GetVerdict(), "it stays frozen, and is torn down")
	w.rejected(Precondition, "node/n1", request)
	w.rejected(Precondition, "node/n1", &fsmpb.AttachReplica{VolumeId: volumeID(1), NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Attach: attach})
	w.rejected(Precondition, "node/n1", stageAt(1, "n1", epoch, 9))
	desired, ok := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.True(t, ok)
	require.NotNil(t, desired.Teardown, "its teardown is desired of it")
	w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
	w.ok(controller, publish(1, "n2"))
	w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
	require.Equal(t, selfOutdated, w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7))).GetVerdict())
	acknowledge1(w)
	require.Empty(t, w.volume(1).Teardowns)
}

// stageAt is the node's intent to stage volume n under the epoch.
func stageAt(n int, node string, epoch Epoch, sequence uint64) *fsmpb.StageVolume {
	return &fsmpb.StageVolume{
		VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: "boot-1", Epoch: epoch.Proto(),
		StagingPath: "/staging", Capability: mount(writer), FsUuid: "uuid", Sequence: sequence,
	}
}

// S59: the host serves again after a session begun later in which it reported every teardown, and
// nothing is published by that.
func TestS59_AHostServesAgainAfterALaterSessionAndItsTeardowns(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ok(controller, fence(onlyN1))
	w.twice(controller, unfence(onlyN1))
	require.True(t, w.fenced("n1"), "its session is older")
	w.rejected(Unreachable, controller, publish(1, "n1"))
	w.ok("node/n1", replicating("n1"))
	require.True(t, w.fenced("n1"), "it has a teardown pending")
	acknowledge1(w)
	require.False(t, w.fenced("n1"))
	require.Empty(t, w.volume(1).Publications())
	w.ok(controller, publish(1, "n1"))
}

// S59: a host that reported all before needs the later session still, and one that was proposed before the
// fence ended is none.
func TestS59_TheSessionIsLaterThanTheEndOfTheFence(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ok(controller, fence(onlyN1))
	acknowledge1(w)
	before := w.index
	w.ok(controller, unfence(onlyN1))
	require.True(t, w.fenced("n1"))
	late := envelope("node/n1", "proposed before", before, replicating("n1"))
	require.NoError(t, Err(w.applyEnvelope(late)))
	require.True(t, w.fenced("n1"))
	w.ok("node/n1", replicating("n1"))
	require.False(t, w.fenced("n1"))
}

// S59: an unfence call that was held up, and was repeated meanwhile, does not end a fence that began after it.
func TestS59_ALateUnfenceEndsNoLaterFence(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(controller, fence(onlyN1))
	late := envelope(controller, "held up", w.index, unfence(onlyN1))
	w.ok(controller, unfence(onlyN1))
	w.ok(controller, fence(onlyN1, "10.0.9.0/24"))
	before := w.contents()
	require.Equal(t, Busy, reasonOf(w.applyEnvelope(late)))
	require.Equal(t, before, w.contents())
	require.Equal(t, 2, w.s.fences.Len())
	w.ok("node/n1", replicating("n1"))
	require.True(t, w.fenced("n1"))
	w.ok(controller, unfence(onlyN1, "10.0.9.0/24"))
	require.Zero(t, w.s.fences.Len())
}

// S59: only the owner ends a fence, by exactly its CIDR.
func TestS59_OnlyItsOwnerEndsAFence(t *testing.T) {
	w := newReplicated(t, protocolC)
	require.NoError(t, Err(w.at("A", fence("10.0.0.1/32"))))
	w.ok(admin, fence(onlyN1))
	for name, end := range map[string]func() *fsmpb.Outcome{
		"another site":   func() *fsmpb.Outcome { return w.at("B", unfence(onlyN1)) },
		"a larger CIDR":  func() *fsmpb.Outcome { return w.at("A", unfence("10.0.0.0/31")) },
		"the default":    func() *fsmpb.Outcome { return w.apply(controller, unfence(onlyN1)) },
		"one of the two": func() *fsmpb.Outcome { return w.at("A", unfence(onlyN1)) },
	} {
		require.NoError(t, Err(end()), name)
		w.ok("node/n1", replicating("n1"))
		require.True(t, w.fenced("n1"), name)
	}
	w.ok(admin, unfence(onlyN1))
	w.ok("node/n1", replicating("n1"))
	require.False(t, w.fenced("n1"))
	require.Zero(t, w.s.fences.Len())
}

// S60: what is refused changes nothing.
func TestS60_AFenceIsRefused(t *testing.T) {
	n1, n2 := &fsmpb.FencedHost{NodeId: "n1", HostId: "host-n1"}, &fsmpb.FencedHost{NodeId: "n2", HostId: "host-n2"}
	for name, c := range map[string]*fsmpb.FenceNetwork{
		"no CIDR":                       fence(),
		"not a CIDR":                    fence("10.0.0.1"),
		"a mask that is none":           fence("10.0.0.1/33"),
		"one bad among good":            fence(onlyN1, "nonsense"),
		"all nodes":                     fence("0.0.0.0/0"),
		"all nodes, by two":             fence(onlyN1, onlyN2),
		"all nodes, as IPv6":            fence("::ffff:10.0.0.0/120"),
		"a host that is not expected":   {Cidrs: []string{onlyN1}, ExpectHosts: []*fsmpb.FencedHost{n2}},
		"an expected one that is not":   {Cidrs: []string{onlyN1}, ExpectHosts: []*fsmpb.FencedHost{n1, n2}},
		"another host of the same name": {Cidrs: []string{onlyN1}, ExpectHosts: []*fsmpb.FencedHost{{NodeId: "n1", HostId: "host-old"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.rejected(Invalid, controller, c)
			require.Zero(t, w.s.fences.Len())
		})
	}
}

// S60: CIDRs that have every node are refused also where the caller fences some of them already.
func TestS60_ACIDRThatIsAddedDoesNotCompleteAllNodes(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(controller, fence(onlyN1))
	w.rejected(Invalid, controller, fence(onlyN1, onlyN2))
	require.False(t, w.fenced("n2"))
	w.ok(controller, fence(onlyN1, "10.9.0.0/16"))
}

// S60: a site may fence all of another's.
func TestS60_ASiteFencesTheOther(t *testing.T) {
	w := newPair(t)
	other := replicating("n2")
	other.Site = "B"
	w.ok("node/n2", other)
	require.Equal(t, Invalid, reasonOf(w.at("B", fence(onlyN2))))
	require.NoError(t, Err(w.at("B", fence(onlyN1))))
	require.True(t, w.fenced("n1"))
	require.False(t, w.fenced("n2"))
}

// S60: expected hosts, masks and forms of addresses; a fence of nobody is recorded.
func TestS60_AFenceIsRecordedMasked(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(controller, &fsmpb.FenceNetwork{Cidrs: []string{"10.0.0.1/32", "::ffff:10.0.0.1/128", "10.9.8.7/16", "fd00::1/64"},
		ExpectHosts: []*fsmpb.FencedHost{{NodeId: "n1", HostId: "host-n1"}}})
	var cidrs []string
	for f := range w.s.Fences() {
		cidrs = append(cidrs, f.CIDR)
	}
	require.Equal(t, []string{onlyN1, "10.9.0.0/16", "fd00::/64"}, cidrs)
}

// S60: asked again it binds nobody new: the address may be another host's by now. A host that is new is
// fenced from its first entry.
func TestS60_ARepeatedFenceBindsNobodyNew(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(controller, fence("10.0.0.1/32", "10.0.9.0/24"))
	moved := replicating("n2")
	moved.Addresses = []string{"10.0.9.2"}
	w.ok("node/n2", moved)
	w.ok(controller, fence("10.0.9.0/24"))
	require.False(t, w.fenced("n2"))
	added := replicating("n3")
	added.Addresses = []string{"fd00::3", "10.0.9.3"}
	w.ok("node/n3", added)
	require.True(t, w.fenced("n3"))
	require.Equal(t, w.contents(), (&world{s: restored(t, w.s)}).contents())
}

// S60: a reinstalled host does not escape, nor does one that changed its address.
func TestS60_ABoundHostStaysBound(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(controller, fence(onlyN1))
	moved := replicating("n1")
	moved.Replication.Address = "10.7.7.7"
	w.ok("node/n1", moved)
	require.True(t, w.fenced("n1"))
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "reinstalled"})
	again := replicating("n1")
	again.HostId, again.Pools[0].PoolId = "host-new", "pool-new"
	w.ok("node/n1", again)
	require.True(t, w.fenced("n1"))
}

// S57: a fence binds host ids: a bound host that was lost, and comes back after another one had its name, is fenced
// wherever its addresses are now.
func TestS57_ABoundHostThatComesBackIsFenced(t *testing.T) {
	for _, address := range []string{"10.7.7.7", "10.0.0.1"} {
		w := newReplicated(t, protocolC)
		w.ok(controller, fence(onlyN1))
		for _, host := range []string{"host-n1", "host-new"} {
			w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: host, Reason: "reinstalled"})
			next := replicating("n1")
			next.HostId, next.Replication.Address = map[string]string{"host-n1": "host-new", "host-new": "host-n1"}[host], "10.7.7.7"
			if next.HostId == "host-n1" {
				next.Replication.Address = address
			}
			w.ok("node/n1", next)
			require.Equal(t, next.HostId == "host-n1", w.fenced("n1"))
		}
		w.ok(controller, unfence(onlyN1))
		n, _ := w.s.Node("n1")
		require.NotZero(t, n.Fence.Lifted)
	}
}

// S57: at level 1 there is no fence.
func TestS57_NoFenceAtLevel1(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.rejected(Unsupported, controller, fence(onlyN1))
}
