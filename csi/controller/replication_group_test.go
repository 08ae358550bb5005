package controller_test

import (
	"testing"

	spec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/fsm"
)

// replicatedGroup makes a group of volumes that is replicated from A to B.
func (w *env) replicatedGroup(t *testing.T, names ...string) (group string, ids []string) {
	t.Helper()
	for _, name := range names {
		ids = append(ids, w.create(t, name, between))
	}
	group = w.createVolumeGroup(t, "at-A", ids...)
	require.NoError(t, w.enable(t, ofGroup(group)))
	return group, ids
}

func (w *env) groupsShown(t *testing.T) (ids []string) {
	t.Helper()
	list, err := w.listGroups(t, 0, "")
	require.NoError(t, err)
	for _, e := range list.GetEntries() {
		ids = append(ids, e.GetVolumeGroup().GetVolumeGroupId())
	}
	return ids
}

// S29, S33, S37: a replicated group has a name at each site. Through the secondary its set is confirmed, and its claim ended.
func TestS37_AGroupThroughTheSecondary(t *testing.T) {
	w := newSites(t)
	group, ids := w.replicatedGroup(t, "a", "b")
	w.cluster.actAs(t, "B")
	require.Empty(t, w.groupsShown(t), "B did not ask for it yet")
	for range 2 {
		require.Equal(t, group, w.createVolumeGroup(t, "at-B", ids...), "the same volumes are the same group")
	}
	require.Equal(t, []string{group}, w.groupsShown(t))
	require.ElementsMatch(t, ids, w.members(t, w.getVolumeGroup(t, group)))
	before := w.recorded(ids[0])
	for range 2 {
		_, err := w.modifyVolumeGroup(t, group, ids...)
		require.NoError(t, err)
		_, err = w.modifyVolumeGroup(t, group, ids[0])
		requireCode(t, codes.FailedPrecondition, err)
		require.NoError(t, w.delete(t, ids[0]), "of one member nothing ends: the group has the claim")
	}
	require.NoError(t, w.disable(t, ofGroup(group)))
	for range 2 {
		_, err := w.modifyVolumeGroup(t, group)
		require.NoError(t, err)
		require.NoError(t, w.deleteVolumeGroup(t, group))
	}
	require.Empty(t, w.groupsShown(t))
	_, err := w.groups.ControllerGetVolumeGroup(t.Context(), &volumegroup.ControllerGetVolumeGroupRequest{VolumeGroupId: group})
	requireCode(t, codes.NotFound, err)
	require.Equal(t, before, w.recorded(ids[0]))
	w.cluster.site = "A"
	require.Equal(t, []string{group}, w.groupsShown(t))
	require.ElementsMatch(t, ids, w.members(t, w.getVolumeGroup(t, group)))
	for range 2 {
		requireCode(t, codes.FailedPrecondition, w.deleteVolumeGroup(t, group))
	}
	require.NoError(t, w.disable(t, ofGroup(group)))
	require.NoError(t, w.deleteVolumeGroup(t, group))
	require.Empty(t, w.cluster.volumes())
}

// S37: what is owed at the secondary is waited for; nothing of the members is removed.
func TestS37_TheEndOfAGroupsUseIsWaitedFor(t *testing.T) {
	w := newSites(t)
	group, ids := w.replicatedGroup(t, "a", "b")
	require.NoError(t, w.publishTo(ids[0], "n1"))
	w.setAway(t, "n1", true)
	w.cluster.actAs(t, "B")
	require.NoError(t, w.promote(t, ofGroup(group), false))
	w.cluster.site = "A"
	for range 2 {
		_, err := w.groups.DeleteVolumeGroup(w.soon(t), &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: group})
		requireCode(t, codes.Aborted, err)
		require.Contains(t, said(err), "node n1")
		_, err = w.roles.DisableVolumeReplication(w.soon(t), &spec.DisableVolumeReplicationRequest{ReplicationSource: ofGroup(group)})
		requireCode(t, codes.Aborted, err)
	}
	w.setAway(t, "n1", false)
	w.cluster.reconcileHosts()
	require.NoError(t, w.deleteVolumeGroup(t, group))
	require.Len(t, w.cluster.volumes(), 2)
}

// ADD-REPL-Source-07, S38, S44, S30: all members are promoted, or none, whichever of them lacks writes.
func TestADDREPLSource07_AGroupIsPromotedWholly(t *testing.T) {
	for behind := range 3 {
		w := newSites(t)
		group, ids := w.replicatedGroup(t, "a", "b", "c")
		w.loseWritesOf(t, w.members(t, w.getVolumeGroup(t, group))[behind])
		for range 2 {
			requireCode(t, codes.FailedPrecondition, w.promote(t, ofGroup(group), false))
			for _, id := range ids {
				require.Equal(t, fsm.Site("A"), w.recorded(id).Home)
			}
		}
		for range 2 {
			require.NoError(t, w.promote(t, ofGroup(group), true))
			for _, id := range ids {
				require.Equal(t, fsm.Site("B"), w.recorded(id).Home)
				requireCode(t, codes.FailedPrecondition, w.promote(t, ofVolume(id), true)) // not by itself
			}
		}
	}
}

// loseWritesOf makes B lack writes that A has of a volume, and A unreachable.
func (w *env) loseWritesOf(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, w.publishTo(id, "n1"))
	w.setAway(t, "n2", true)
	require.NoError(t, w.unpublish(t, id, "n1"))
	require.NoError(t, w.publishTo(id, "n1")) // n1 is primary again, and alone: n2 is outdated
	w.setAway(t, "n1", true)
	w.setAway(t, "n2", false)
	w.cluster.actAs(t, "B")
}

// S56: of a group the worst status, the oldest time, and sums.
func TestS56_InformationOfAGroup(t *testing.T) {
	w := newSites(t)
	group, ids := w.replicatedGroup(t, "a", "b")
	got, err := w.info(t, ofGroup(group))
	require.NoError(t, err)
	require.Equal(t, spec.GetVolumeReplicationInfoResponse_HEALTHY, got.GetStatus(), got.GetStatusMessage())
	w.cluster.update(func(c *fakeCluster) {
		c.changeReplicaNow = func(seen *fsm.ReplicaObservation) { seen.OutOfSync = 1 << 20 }
	})
	got, err = w.info(t, ofGroup(group))
	require.NoError(t, err)
	require.Equal(t, spec.GetVolumeReplicationInfoResponse_DEGRADED, got.GetStatus())
	require.Contains(t, got.GetStatusMessage(), "hf-", "it names the volume")
	require.LessOrEqual(t, len(got.GetStatusMessage()), 128)
	for _, id := range ids {
		_, err = w.info(t, ofVolume(id))
		requireCode(t, codes.FailedPrecondition, err)
	}
	empty := w.createVolumeGroup(t, "empty")
	require.NoError(t, w.enable(t, ofGroup(empty)))
	_, err = w.info(t, ofGroup(empty))
	requireCode(t, codes.NotFound, err)
}
