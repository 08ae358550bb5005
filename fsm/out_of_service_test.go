package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func takeOut(node string) *fsmpb.SetOutOfService {
	return &fsmpb.SetOutOfService{NodeId: node, HostId: "host-" + node}
}

func (w *world) returning(node string) *fsmpb.SetOutOfService {
	return &fsmpb.SetOutOfService{NodeId: node, Returned: w.outOfService(node).Since}
}

func (w *world) outOfService(node string) OutOfService {
	w.t.Helper()
	x, rej := w.s.OutOfService(NodeID(node))
	require.Nil(w.t, rej)
	require.Equal(w.t, w.s.Cluster().Index, x.Index)
	return x
}

// takenOut has the writer n1 away and out of service.
func takenOut(t testing.TB) *world {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.setUnreachable("n1", true)
	w.twice(controller, takeOut("n1"))
	return w
}

// severed1 has n2 report that it disconnected n1.
func severed1(w *world) { w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone)) }

// S170, S171: what the host held ends in one entry; that nothing it writes is acknowledged is proven by its peer's observation in the
// generation that this entry began, and by nothing else.
func TestS170_TheProofIsThePeersObservation(t *testing.T) {
	for name, tc := range map[string]struct {
		after  func(*world)
		proven bool
	}{
		"not by the entry alone":                   {after: func(*world) {}},
		"not while its kernel would connect again": {after: func(w *world) { w.reportCurrent(1, "n2", disconnectedObservation(7, connecting)) }},
		"not while it is connected":                {after: func(w *world) { w.reportCurrent(1, "n2", inSyncObservation(7)) }},
		"not by what it saw before":                {after: olderCut},
		"not with a disk that may lack writes": {after: func(w *world) {
			w.reportCurrent(1, "n2", withDisk(disconnectedObservation(7, standAlone), inconsistent))
		}},
		"the peer is up to date and disconnected":    {after: severed1, proven: true},
		"also when the peer cannot be reached after": {after: func(w *world) { severed1(w); w.setUnreachable("n2", true) }, proven: true},
		"also when the host is back":                 {after: func(w *world) { severed1(w); w.setUnreachable("n1", false); severed1(w) }, proven: true},
		"not before the peer looked again then":      {after: func(w *world) { severed1(w); w.setUnreachable("n1", false) }},
		"the peer was promoted": {proven: true, after: func(w *world) {
			severed1(w)
			w.ok(controller, publish(1, "n2"))
			w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := takenOut(t)
			tc.after(w)
			x := w.outOfService("n1")
			require.Equal(t, tc.proven, len(x.Waits) == 0, x.Waits)
			require.NotZero(t, x.Since)
			if tc.proven {
				require.Len(t, x.Ended, 1)
				require.Equal(t, NodeID("n2"), x.Ended[0].Witness)
				require.Equal(t, w.volume(1).Replication.Generation, x.Ended[0].Generation)
				require.Equal(t, refused, w.verdictFor("n1"), "and the log lets it go on no more")
			}
		})
	}
}

// verdictFor is what the node's primary of volume 1 would be answered, whatever it says.
func (w *world) verdictFor(node string) fsmpb.Verdict {
	n, _ := w.s.Node(NodeID(node))
	v := w.volume(1)
	verdict := w.s.verdict(v, n, v.Replication.Generation, disconnectedPrimary(7))
	if verdict == selfOutdated {
		return refused
	}
	return verdict
}

func olderCut(w *world) {
	x := w.currentObservation(1, "n2", disconnectedObservation(7, standAlone))
	x.Generation--
	w.reportObservation(1, "n2", x)
}

func withDisk(x ReplicaObservation, disk fsmpb.DiskState) ReplicaObservation {
	x.Disk = disk
	return x
}

// S170: nothing is ended where nobody could go on, or where no observation could prove it.
func TestS170_WhatIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		world func(*testing.T) *world
		why   string
	}{
		"a host that can be asked": {func(t *testing.T) *world {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			return w
		}, "not recorded as unreachable"},
		"nothing is in use": {func(t *testing.T) *world {
			w := newReplicated(t, protocolC)
			w.setUnreachable("n1", true)
			return w
		}, "no volume is in use"},
		"protocol A": {func(t *testing.T) *world {
			w := newReplicated(t, protocolA)
			w.primary(1, "n1", 7)
			w.setUnreachable("n1", true)
			return w
		}, "protocol A"},
		"the only copy": {func(t *testing.T) *world {
			w := takeable(t)
			w.ready(2, pinned(2, "n1"))
			w.ok(controller, publish(2, "n1"))
			w.setUnreachable("n1", true)
			return w
		}, volumeID(2) + ": its only copy is on node n1"},
		"the only copy, unpublished by hand": {func(t *testing.T) *world {
			w := takeable(t)
			w.ready(2, pinned(2, "n1"))
			w.ok(controller, publish(2, "n1"))
			w.setUnreachable("n1", true)
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(2), NodeId: "n1"})
			return w
		}, volumeID(2) + ": its only copy is on node n1"},
		"the host went on without its peer": {func(t *testing.T) *world {
			w := takeable(t)
			w.reportCurrent(1, "n1", disconnectedPrimary(7))
			w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7)))
			w.setUnreachable("n1", true)
			return w
		}, "node n2"},
		"the peer cannot be reached": {func(t *testing.T) *world {
			w := takeable(t)
			w.setUnreachable("n2", true)
			w.setUnreachable("n1", true)
			return w
		}, "node n2"},
		"the host acts for an earlier life of the log": {func(t *testing.T) *world {
			w := takeable(t)
			w.setUnreachable("n1", true)
			w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
			return w
		}, "adoption mode"},
	} {
		t.Run(name, func(t *testing.T) {
			w := tc.world(t)
			before := w.contents()
			for range 2 {
				out := w.rejected(Precondition, controller, takeOut("n1"))
				require.Contains(t, out.GetRejection().GetMessage(), tc.why)
			}
			require.Equal(t, before, w.contents())
			require.NotEmpty(t, w.outOfService("n1").Refused)
			require.Zero(t, w.outOfService("n1").Since)
		})
	}
}

func takeable(t *testing.T) *world {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	return w
}

func pinned(n int, node string) *fsmpb.CreateVolume {
	c := create(n)
	c.Requisite = []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: TopologyKey, Value: node}}}}
	return c
}

// S171: the node gets nothing, and its host is asked for teardown only, until it returned; it does not return before its host said that
// all ended.
func TestS171_ANodeReturnsWhenItsHostEndedWhatItHeld(t *testing.T) {
	w := takenOut(t)
	severed1(w)
	w.rejected(Precondition, controller, w.returning("n1"))
	w.ok("node/n1", replicating("n1"))
	require.True(t, w.fenced("n1"), "its session is for its teardown")
	w.rejected(Precondition, controller, w.returning("n1"))
	w.rejected(Unreachable, controller, publish(1, "n1"))
	acknowledge1(w)
	require.Empty(t, w.outOfService("n1").ReturnWaits)
	w.rejected(StaleEpoch, controller, &fsmpb.SetOutOfService{NodeId: "n1", Returned: 1})
	w.rejected(Unreachable, controller, publish(1, "n1"))
	w.twice(controller, w.returning("n1"))
	require.Zero(t, w.outOfService("n1").Since)
	w.rejected(Unreachable, controller, publish(1, "n1"))
	w.ok("node/n1", replicating("n1"))
	require.False(t, w.fenced("n1"), "it serves with the session after that")
	w.ok(controller, publish(1, "n1"))
}

// S171: whoever has the node's name next is out of service too, until the node returned.
func TestS171_AnotherHostUnderTheNameIsOutOfServiceToo(t *testing.T) {
	w := takenOut(t)
	severed1(w)
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
	for len(w.s.Cluster().Sweeps) > 0 {
		w.ok(controller, &fsmpb.ContinueSweep{Index: w.s.Cluster().Sweeps[0].Epoch.Index})
	}
	r := replicating("n1")
	r.HostId, r.Pools[0].PoolId = "another", "another-pool"
	w.ok("node/n1", r)
	require.True(t, w.fenced("n1"))
	require.NotZero(t, w.outOfService("n1").Since)
	w.rejected(StaleEpoch, controller, takeOut("n1"))
	w.twice(controller, w.returning("n1"))
	w.ok("node/n1", r)
	require.False(t, w.fenced("n1"))
}

// S171: it is in dumps, and a fence of an operator is another thing: neither ends the other.
func TestS171_AFenceAndOutOfServiceDoNotEndEachOther(t *testing.T) {
	w := takenOut(t)
	severed1(w)
	w.ok(controller, fence(onlyN1))
	w.ok(controller, unfence(onlyN1))
	require.True(t, w.fenced("n1"))
	require.NotZero(t, w.outOfService("n1").Since)
	require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
	n, _ := restored(t, w.s).Node("n1")
	require.Equal(t, w.outOfService("n1").Since, n.OutOfService)
	w.ok(controller, fence(onlyN1))
	w.ok("node/n1", replicating("n1"))
	acknowledge1(w)
	w.ok(controller, w.returning("n1"))
	w.ok("node/n1", replicating("n1"))
	require.True(t, w.fenced("n1"), "the operators' fence stands")
}

// S170: a decision of an operator to go on with less is no proof.
func TestS170_ADecisionToForceIsNoProof(t *testing.T) {
	w := takenOut(t)
	w.reportCurrent(1, "n2", withDisk(disconnectedObservation(7, standAlone), inconsistent))
	severed1(w)
	w.ok(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "it is needed", PeerDead: true})
	require.NotEmpty(t, w.outOfService("n1").Waits)
}
