package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func claim(node string) *fsmpb.ClaimMaintenance {
	return &fsmpb.ClaimMaintenance{NodeId: node, HostId: "host-" + node}
}

func release(node string) *fsmpb.ClaimMaintenance {
	c := claim(node)
	c.Release = true
	return c
}

func (w *world) maintenance(node string) uint64 {
	n, ok := w.s.Node(NodeID(node))
	require.True(w.t, ok)
	return n.Maintenance
}

// Of the two hosts of one volume that ask at the same moment, one is told yes.
func TestTwoHostsOfOneVolumeAreNotInMaintenanceAtOnce(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice("node/n1", claim("n1"))
	require.NotZero(t, w.maintenance("n1"))
	out := w.rejected(Precondition, "node/n2", claim("n2"))
	require.Contains(t, out.GetRejection().GetMessage(), "volume "+volumeID(1)+" would be lost")
	require.Contains(t, out.GetRejection().GetMessage(), "in maintenance already: n1")
	w.twice(admin, release("n1"))
	w.twice("node/n2", claim("n2"))
	require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
	n, _ := restored(t, w.s).Node("n2")
	require.Equal(t, w.maintenance("n2"), n.Maintenance)
}

// Hosts that share no volume may be in maintenance together.
func TestHostsThatShareNoVolumeAreInMaintenanceTogether(t *testing.T) {
	w := newPair(t)
	w.ok("node/n3", replicating("n3"))
	w.readyReplicated(1, createReplicated(1, protocolC))
	w.twice("node/n3", claim("n3"))
	w.twice("node/n1", claim("n1"))
}

// No time ends a claim, and neither does a session: the next boot does, or a release, or the host's loss.
func TestWhatEndsAClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(*world)
		ends bool
	}{
		"a registration in the same boot": {func(w *world) { w.ok("node/n1", replicating("n1")) }, false},
		"being unreachable":               {func(w *world) { w.setUnreachable("n1", true); w.setUnreachable("n1", false) }, false},
		"another boot":                    {func(w *world) { w.reboot("n1") }, true},
		"a release by the host":           {func(w *world) { w.twice("node/n1", release("n1")) }, true},
		"a release by an operator":        {func(w *world) { w.twice(admin, release("n1")) }, true},
		"the loss of the host":            {func(w *world) { w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1"}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.ok("node/n1", claim("n1"))
			since := w.maintenance("n1")
			tc.end(w)
			if tc.ends {
				since = 0
			}
			require.Equal(t, since, w.maintenance("n1"))
		})
	}
}

// One that is in maintenance is asked about again: what was safe then may not be now.
func TestAClaimIsNoPromise(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok("node/n1", claim("n1"))
	w.setUnreachable("n2", true)
	w.rejected(Precondition, "node/n1", claim("n1"))
	require.NotZero(t, w.maintenance("n1"), "it is released by nobody's question")
}

func TestClaimsThatAreRefused(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.rejected(Forbidden, "node/n2", claim("n1"))
	w.rejected(Forbidden, controller, claim("n1"))
	w.rejected(NotFound, admin, claim("n9"))
	w.rejected(StaleEpoch, admin, &fsmpb.ClaimMaintenance{NodeId: "n1", HostId: "another"})
	w.setUnreachable("n1", true)
	w.rejected(Unreachable, admin, claim("n1"))
	w.setUnreachable("n1", false)
	old := newReplicatedAt(t, Level2, protocolC)
	old.rejected(Unsupported, admin, claim("n1"))
	require.Equal(t, Level3, LeastLevel(envelope(admin, "x", 1, claim("n1"))))
}

// A volume with one copy that nobody uses may be away for as long as its host, where that is said.
func TestUnusedVolumesMayBeAway(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	unused := claim("n1")
	unused.AllowUnused = true
	w.rejected(Precondition, admin, claim("n1"))
	w.twice(admin, unused)
	w.ok(admin, release("n1"))
	w.staged(1, "n1", 1)
	w.rejected(Precondition, admin, unused)
}

// A host in maintenance gets no new volumes and no replicas.
func TestAHostInMaintenanceGetsNothingNew(t *testing.T) {
	w := newWorld(t)
	w.ok("node/n2", register("n2"))
	w.ok(admin, claim("n1"))
	for n := range 4 {
		w.ok(controller, create(n+1))
		require.Equal(t, NodeID("n2"), w.volume(n + 1).Replicas[0].Node)
	}
	w.ok(admin, release("n1"))
	w.ok(controller, changed(9, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n1")} }))
}

func TestWhetherAHostMayStop(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", register("n3"))
	w.ready(2, changed(2, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n3")} }))
	w.ok(admin, claim("n1"))
	for range 2 {
		answer, rej := w.s.MayStop("n1", false)
		require.Nil(t, rej)
		require.Equal(t, StopAnswer{Index: w.s.cluster.Index, Node: "n1", Host: "host-n1", Safe: true, Claimed: w.maintenance("n1")}, answer)
		answer, rej = w.s.MayStop("n2", true)
		require.Nil(t, rej)
		require.False(t, answer.Safe)
		require.Equal(t, []string{"n1"}, answer.InMaintenance)
		require.Equal(t, []string{"volume " + volumeID(1) + " would be lost: no other copy is left"}, answer.Reasons)
		answer, rej = w.s.MayStop("n3", true)
		require.Nil(t, rej)
		require.True(t, answer.Safe, "nobody uses its volume")
		_, rej = w.s.MayStop("n9", false)
		require.Equal(t, NotFound, rej.Why())
	}
	w.setUnreachable("n3", true)
	_, rej := w.s.MayStop("n3", false)
	require.Equal(t, Unreachable, rej.Why())
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n3", HostId: "host-n3"})
	_, rej = w.s.MayStop("n3", false)
	require.Equal(t, StaleEpoch, rej.Why())
}

func TestARejectionNamesTheFirstVolumesOnly(t *testing.T) {
	w := newWorld(t)
	for n := range 5 {
		w.ready(n+1, create(n+1))
	}
	message := w.rejected(Precondition, admin, claim("n1")).GetRejection().GetMessage()
	require.Contains(t, message, "volume "+volumeID(3)+" would be unavailable: its only copy is on node n1, and comes back with it; and 2 more")
	require.NotContains(t, message, volumeID(4))
}

// S1: after a restore the log does not know what hosts do, until they are adopted; then not what a primary does that has no
// grant yet.
func TestS1_NoHostIsSafeToRebootAfterARestoreUntilItsVolumesAreKnown(t *testing.T) {
	lost := newPair(t)
	lost.readyReplicated(1, createReplicated(1, protocolC))
	lost.primary(1, "n1", 7)
	w := lost.lostAfter(func() {})
	safe := func(node string) (bool, Reason) {
		answer, rej := w.s.MayStop(NodeID(node), true)
		return rej == nil && answer.Safe, rej.Why()
	}
	for _, node := range []string{"n1", "n2"} {
		ok, why := safe(node)
		require.False(t, ok)
		require.Equal(t, Unreachable, why)
		w.rejected(Unreachable, admin, claim(node))
		w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
	}
	seen := inSyncObservation(7)
	seen.Primary = true
	w.reportCurrent(1, "n1", seen)
	for _, node := range []string{"n1", "n2"} {
		ok, _ := safe(node)
		require.False(t, ok, "nobody has the grant")
		w.rejected(Precondition, admin, claim(node))
	}
}

// S173: a host says that it must not stop while it has the only good copy of a replicated volume; one with volumes of one copy does not.
func TestS173_WhatKeepsAHostFromBeingDrained(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ready(2, pinned(2, "n1"))
	w.ok(controller, publish(2, "n1"))
	require.Empty(t, w.s.ReplicatedStopReasons("n1"))
	w.setUnreachable("n2", true)
	for range 2 {
		reasons := w.s.ReplicatedStopReasons("n1")
		require.Len(t, reasons, 1)
		require.Contains(t, reasons[0], "volume "+volumeID(1)+" would be lost")
	}
	require.Empty(t, w.s.ReplicatedStopReasons("n2"), "it is away")
	require.Empty(t, w.s.ReplicatedStopReasons("n9"))
	w.setUnreachable("n2", false)
	w.reportCurrent(1, "n2", inSyncObservation(7))
	w.reportCurrent(1, "n1", withPrimary(inSyncObservation(7)))
	w.reportCurrent(1, "n2", inSyncObservation(7))
	require.Empty(t, w.s.ReplicatedStopReasons("n1"), "its peer is whole again")
}

func withPrimary(x ReplicaObservation) ReplicaObservation {
	x.Primary = true
	return x
}
