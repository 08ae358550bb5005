package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// One member of a group that is replicated as one lacks writes at the other site: the group says which, and the lists of its other
// members say that the group is not healthy, for the role moves for all of it.
func TestAGroupSaysWhichOfItsVolumesIsDegradedAndTheOthersSayThatItIs(t *testing.T) {
	w := newSitesEnv(t)
	one, two := w.acrossSites(1), w.acrossSites(2)
	id := w.groupAt("A", "shop", 1, one, two)
	w.mustApply(&fsmpb.Command{Actor: "controller/cA", Site: "A", Body: &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{
		Source: &fsmpb.ReplicationSource{VolumeGroupId: id}, PeerSite: "B"}}})
	for range 2 {
		g, members := w.groupOf(id), w.volumesOf()
		require.Equal(t, "healthy", g.GetRelation().GetStatus())
		require.Zero(t, g.GetAbnormal())
		require.Empty(t, groupConditionCell(g))
		require.Equal(t, "healthy", statusCell(members[0].GetRelation()))
	}
	w.lag(one)
	for range 2 {
		g, members := w.groupOf(id), w.volumesOf()
		require.Equal(t, "degraded", g.GetRelation().GetStatus())
		require.Contains(t, g.GetRelation().GetMessage(), "1 of 2 volumes: volume pvc-1: ")
		require.EqualValues(t, 1, g.GetAbnormal())
		require.Contains(t, groupConditionCell(g), "1 of 2: volume pvc-1: ")
		require.Equal(t, "degraded", statusCell(members[0].GetRelation()))
		require.Equal(t, "healthy", members[1].GetRelation().GetStatus(), "its own is what it is")
		require.Equal(t, "healthy, its group degraded", statusCell(members[1].GetRelation()))
		require.Contains(t, conversionCell(members[1]), "its group: 1 of 2 volumes: volume pvc-1: ")
	}
}

// A group that is replicated between no sites shows what is wrong with its volumes, too.
func TestAGroupShowsTheConditionOfItsVolumes(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	one, two := w.replicate(1), w.replicate(2)
	id := w.groupAt(fsm.DefaultSite, "shop", 1, one, two)
	require.Zero(t, w.groupOf(id).GetAbnormal())
	w.observeReplica("n2", two, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(two), NodeId: "n2", HostId: "host-n2"}}})
	for range 2 {
		g := w.groupOf(id)
		require.Nil(t, g.GetRelation())
		require.EqualValues(t, 1, g.GetAbnormal())
		require.Equal(t, "1 of 2: volume pvc-2: 1 of 2 replicas are left", groupConditionCell(g))
	}
}

func (w *env) groupOf(id string) *adminpb.VolumeGroup {
	w.t.Helper()
	resp, err := w.server.VolumeGroups(w.t.Context(), &adminpb.VolumeGroupsRequest{Group: id})
	require.NoError(w.t, err)
	return resp.GetGroups()[0]
}

func (w *env) volumesOf() []*adminpb.Volume {
	w.t.Helper()
	resp, err := w.server.Volumes(w.t.Context(), &adminpb.VolumesRequest{})
	require.NoError(w.t, err)
	return resp.GetVolumes()
}
