package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newOneAhead is a group whose members were cut from their peers together: B kept what it had of both, member 1 is up to
// date again, and of member 2 a part is.
func newOneAhead(t testing.TB) *related {
	w := newRelatedGroup(t)
	for _, n := range []int{1, 2} {
		w.used(n, "A")
	}
	w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(7)))
	w.severed(2, "B")
	w.alone(1, "A")
	w.alone(2, "A")
	for _, n := range []int{1, 2} {
		w.reportCurrent(n, w.node(n, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
		w.kept(n, "B", n, true)
	}
	w.syncing(1, "B")
	w.syncing(2, "B")
	w.caughtUp(1)
	return w
}

// caughtUp: both hosts see both replicas up to date.
func (w *related) caughtUp(n int) {
	w.t.Helper()
	primary := inSyncObservation(8)
	primary.Primary = true
	w.reportCurrent(n, w.node(n, "A"), primary)
	w.reportCurrent(n, w.node(n, "B"), inSyncObservation(8))
	w.reportCurrent(n, w.node(n, "A"), primary)
}

// copyOf is what B kept of a member.
func (w *related) copyOf(n int) *Snapshot {
	w.t.Helper()
	copied, ok := w.s.Snapshot(SnapshotID(snapshotID(n)))
	require.True(w.t, ok)
	return copied
}

// S44, S50, S52: what a member had when its group was cut is kept until the whole group is up to date.
func TestS52_CopiesOfAGroupAreKeptTogether(t *testing.T) {
	w := newOneAhead(t)
	require.True(t, w.volume(1).allInSync())
	require.True(t, w.volume(1).RelationMember.Ahead)
	require.Equal(t, SnapshotReady, w.copyOf(1).Phase)
	require.False(t, w.s.MayExpire(w.copyOf(1)))
	w.caughtUp(2)
	for _, n := range []int{1, 2} {
		require.False(t, w.volume(n).RelationMember.Ahead, "volume %d", n)
		require.Equal(t, SnapshotDeleting, w.copyOf(n).Phase, "volume %d", n)
	}
}

// S52: a member that leaves the group is not waited for.
func TestS52_AMemberThatLeavesHoldsNoCopies(t *testing.T) {
	w := newOneAhead(t)
	w.okAt("A", &fsmpb.ModifyVolumeGroup{VolumeGroupId: volumeGroupID(1), VolumeIds: []string{volumeID(1)}})
	require.False(t, w.volume(1).RelationMember.Ahead)
	require.Equal(t, SnapshotDeleting, w.copyOf(1).Phase)
}

// S44, S52: force does not make a group of two instants, unless that is said too.
func TestS44_NoForceMakesAGroupOfTwoInstants(t *testing.T) {
	w := newOneAhead(t)
	w.siteUnreachable("A", true)
	w.reportCurrent(1, w.node(1, "B"), disconnectedObservation(8, connecting))
	w.interrupted(2, "B")
	w.rejectedAt("B", NeedsForce, promote(groupSource(1)))
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
	w.isPrimary(1, "A")
	require.Nil(t, w.volume(2).Replication.Revert)
	separately := promoteByForce(groupSource(1))
	separately.Separately = true
	w.okAt("B", separately)
	w.isPrimary(1, "B")
	require.Equal(t, SnapshotID(""), w.desired(1, "B").RevertTo)
	require.Equal(t, SnapshotID(snapshotID(2)), w.desired(2, "B").RevertTo)
	require.False(t, w.volume(1).RelationMember.Ahead, "that was decided")
}

// S44, S52: of a group that is cut once more before all are up to date, each member goes back to the first cut.
func TestS44_AGroupGoesBackToOneCut(t *testing.T) {
	w := newOneAhead(t)
	node := w.node(1, "B")
	w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(8)))
	w.reportCurrent(2, w.node(2, "B"), ReplicaObservation{Disk: inconsistent, Connection: standAlone, UUID: 6})
	w.reportCurrent(1, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 8})
	w.alone(1, "A")
	w.alone(2, "A")
	require.True(t, w.desired(1, "B").KeepDue)
	again := w.ok("node/"+node, w.keep(1, node, 3, true))
	require.Equal(t, snapshotID(1), again.GetSnapshotId())
	require.False(t, w.desired(1, "B").KeepDue)
	w.syncing(1, "B")
	w.siteUnreachable("A", true)
	w.interrupted(1, "B")
	w.interrupted(2, "B")
	w.okAt("B", promoteByForce(groupSource(1)))
	for _, n := range []int{1, 2} {
		require.Equal(t, SnapshotID(snapshotID(n)), w.desired(n, "B").RevertTo, "volume %d", n)
	}
}
