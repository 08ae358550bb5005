package controller_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	addons "github.com/holdfast-storage/holdfast/addons/volumegroup"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	maxGroupVolumes    = 3
	unknownVolumeGroup = "hg-00000000-0000-4000-8000-000000000000"
)

type (
	createGroupRequest = volumegroup.CreateVolumeGroupRequest
	modifyGroupRequest = volumegroup.ModifyVolumeGroupMembershipRequest
)

func (w *env) createVolumeGroup(t testing.TB, name string, ids ...string) string {
	t.Helper()
	resp, err := w.groups.CreateVolumeGroup(t.Context(), &createGroupRequest{Name: name, VolumeIds: ids})
	require.NoError(t, err)
	return resp.GetVolumeGroup().GetVolumeGroupId()
}

// members are the ids of a group's volumes. ADD-VG-Get-06, ADD-VGA-Volume-02: each is as ControllerGetVolume has it.
func (w *env) members(t testing.TB, g *volumegroup.VolumeGroup) (ids []string) {
	t.Helper()
	for _, v := range g.GetVolumes() {
		got, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: v.GetVolumeId()})
		require.NoError(t, err)
		require.True(t, proto.Equal(got.GetVolume(), v), v)
		ids = append(ids, v.GetVolumeId())
	}
	return ids
}

func (w *env) getVolumeGroup(t testing.TB, id string) *volumegroup.VolumeGroup {
	t.Helper()
	resp, err := w.groups.ControllerGetVolumeGroup(t.Context(), &volumegroup.ControllerGetVolumeGroupRequest{VolumeGroupId: id, Secrets: mapOf("a", "b")})
	require.NoError(t, err)
	return resp.GetVolumeGroup()
}

func (w *env) modifyVolumeGroup(t testing.TB, id string, volumes ...string) (*volumegroup.VolumeGroup, error) {
	t.Helper()
	resp, err := w.groups.ModifyVolumeGroupMembership(t.Context(), &modifyGroupRequest{VolumeGroupId: id, VolumeIds: volumes})
	return resp.GetVolumeGroup(), err
}

func (w *env) deleteVolumeGroup(t testing.TB, id string) error {
	t.Helper()
	_, err := w.groups.DeleteVolumeGroup(t.Context(), &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id})
	return err
}

func (w *env) listGroups(t testing.TB, max int32, token string) (*volumegroup.ListVolumeGroupsResponse, error) {
	t.Helper()
	return w.groups.ListVolumeGroups(t.Context(), &volumegroup.ListVolumeGroupsRequest{MaxEntries: max, StartingToken: token})
}

// newVolumes makes volumes and is their ids, sorted as groups have them.
func (w *env) newVolumes(t testing.TB, names ...string) (ids []string) {
	t.Helper()
	for _, name := range names {
		ids = append(ids, w.create(t, name))
	}
	slices.Sort(ids)
	return ids
}

// ADD-VG-Create-, and the rows of ADD-VGA-Create- that say the same.
func TestCreateVolumeGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *createGroupRequest, ids []string)
		want   codes.Code
	}{
		"-08, -10: three volumes":                    {func(*createGroupRequest, []string) {}, codes.OK},
		"-07, -17: none":                             {func(r *createGroupRequest, _ []string) { r.VolumeIds = nil }, codes.OK},
		"-08: one that is named twice":               {func(r *createGroupRequest, ids []string) { r.VolumeIds = []string{ids[1], ids[0], ids[1]} }, codes.OK},
		"-03: a name is required":                    {func(r *createGroupRequest, _ []string) { r.Name = "" }, codes.InvalidArgument},
		"-04: of 128 bytes":                          {func(r *createGroupRequest, _ []string) { r.Name = strings.Repeat("n", 128) }, codes.OK},
		"-04: not of 129":                            {func(r *createGroupRequest, _ []string) { r.Name = strings.Repeat("n", 129) }, codes.InvalidArgument},
		"-05, -12: an unknown parameter":             {func(r *createGroupRequest, _ []string) { r.Parameters = mapOf("a", "b") }, codes.InvalidArgument},
		"-05: the site":                              {func(r *createGroupRequest, _ []string) { r.Parameters = mapOf("site", "default") }, codes.OK},
		"-05: an orchestrator's":                     {func(r *createGroupRequest, _ []string) { r.Parameters = mapOf("csi.storage.k8s.io/x", "y") }, codes.OK},
		"S34: another site":                          {func(r *createGroupRequest, _ []string) { r.Parameters = mapOf("site", "B") }, codes.InvalidArgument},
		"-06: secrets":                               {func(r *createGroupRequest, _ []string) { r.Secrets = mapOf("a", "b") }, codes.OK},
		"-09: an unknown volume":                     {func(r *createGroupRequest, _ []string) { r.VolumeIds[1] = unknownID }, codes.NotFound},
		"-09: an id of another form":                 {func(r *createGroupRequest, _ []string) { r.VolumeIds[1] = "fake" }, codes.NotFound},
		"an empty id":                                {func(r *createGroupRequest, _ []string) { r.VolumeIds[1] = "" }, codes.InvalidArgument},
		"-14, -16: a name that others have":          {func(r *createGroupRequest, ids []string) { r.Name, r.VolumeIds = "taken", ids[:1] }, codes.AlreadyExists},
		"-15: a volume that is in a group":           {func(r *createGroupRequest, ids []string) { r.VolumeIds = ids[2:] }, codes.FailedPrecondition},
		"Modify-11: more than a group can have":      {func(r *createGroupRequest, ids []string) { r.VolumeIds = append(r.VolumeIds, ids[4]) }, codes.ResourceExhausted},
		"GEN-Error-12: the form before the volumes":  {func(r *createGroupRequest, _ []string) { r.Name, r.VolumeIds[0] = "", unknownID }, codes.InvalidArgument},
		"GEN-Error-12: parameters before the volume": {func(r *createGroupRequest, _ []string) { r.Parameters, r.VolumeIds[0] = mapOf("a", "b"), unknownID }, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			ids := []string{w.create(t, "v0"), w.create(t, "v1"), w.create(t, "v2"), w.create(t, "v3"), w.create(t, "v4")}
			w.createVolumeGroup(t, "taken", ids[3])
			req := &createGroupRequest{Name: "g", VolumeIds: slices.Clone(ids[:3])}
			tc.change(req, ids)
			want, groups := slices.Compact(slices.Sorted(slices.Values(req.GetVolumeIds()))), 1
			var first *volumegroup.VolumeGroup
			for range 2 { // ADD-VG-Create-02, -11
				resp, err := w.groups.CreateVolumeGroup(t.Context(), req)
				requireCode(t, tc.want, err)
				if err == nil {
					groups = 2
					require.True(t, fsm.VolumeGroupID(resp.GetVolumeGroup().GetVolumeGroupId()).Valid())
					require.Equal(t, want, w.members(t, resp.GetVolumeGroup()))
					require.True(t, first == nil || proto.Equal(first, resp.GetVolumeGroup()))
					first = resp.GetVolumeGroup()
				}
			}
			list, err := w.listGroups(t, 0, "")
			require.NoError(t, err)
			require.Len(t, list.GetEntries(), groups, "one that is refused makes no group")
		})
	}
}

// ADD-VG-Modify-02 to -15, and the rows of ADD-VGA-Modify- that say the same.
func TestModifyVolumeGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *modifyGroupRequest, ids []string)
		want   codes.Code
		says   func(ids []string) string
	}{
		"-02, -03: one joins and one leaves":    {change: func(r *modifyGroupRequest, ids []string) { r.VolumeIds = []string{ids[2], ids[0]} }},
		"-04: all leave":                        {change: func(r *modifyGroupRequest, _ []string) { r.VolumeIds = nil }},
		"-05: nothing changes":                  {change: func(*modifyGroupRequest, []string) {}},
		"-07: secrets":                          {change: func(r *modifyGroupRequest, _ []string) { r.Secrets = mapOf("a", "b") }},
		"one that is named twice":               {change: func(r *modifyGroupRequest, ids []string) { r.VolumeIds = []string{ids[0], ids[0]} }},
		"-06: an id is required":                {change: func(r *modifyGroupRequest, _ []string) { r.VolumeGroupId = "" }, want: codes.InvalidArgument},
		"-14: an unknown parameter":             {change: func(r *modifyGroupRequest, _ []string) { r.Parameters = mapOf("a", "b") }, want: codes.InvalidArgument},
		"-09, -15: one that is in another":      {change: func(r *modifyGroupRequest, ids []string) { r.VolumeIds = ids[2:4] }, want: codes.InvalidArgument, says: func(ids []string) string { return ids[3] }},
		"-10: an unknown volume":                {change: func(r *modifyGroupRequest, ids []string) { r.VolumeIds = []string{ids[0], unknownID} }, want: codes.NotFound},
		"-10: a volume's id of another form":    {change: func(r *modifyGroupRequest, ids []string) { r.VolumeIds = []string{ids[0], "fake"} }, want: codes.NotFound},
		"an empty volume's id":                  {change: func(r *modifyGroupRequest, ids []string) { r.VolumeIds = []string{ids[0], ""} }, want: codes.InvalidArgument},
		"-10: an unknown group":                 {change: func(r *modifyGroupRequest, _ []string) { r.VolumeGroupId = unknownVolumeGroup }, want: codes.NotFound},
		"-10: a group's id of another form":     {change: func(r *modifyGroupRequest, _ []string) { r.VolumeGroupId = "fake" }, want: codes.NotFound},
		"-11: more volumes than it can have":    {change: func(r *modifyGroupRequest, ids []string) { r.VolumeIds = append(ids[:3:3], ids[4]) }, want: codes.ResourceExhausted},
		"-12: a set that is refused is refused": {change: func(r *modifyGroupRequest, ids []string) { r.VolumeIds = []string{ids[2], unknownID} }, want: codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			ids := []string{w.create(t, "v0"), w.create(t, "v1"), w.create(t, "v2"), w.create(t, "v3"), w.create(t, "v4")}
			w.createVolumeGroup(t, "other", ids[3])
			id := w.createVolumeGroup(t, "g", ids[:2]...)
			req := &modifyGroupRequest{VolumeGroupId: id, VolumeIds: ids[:2]}
			tc.change(req, ids)
			want := slices.Sorted(slices.Values(ids[:2]))
			if tc.want == codes.OK {
				want = slices.Compact(slices.Sorted(slices.Values(req.GetVolumeIds())))
			}
			for range 2 {
				resp, err := w.groups.ModifyVolumeGroupMembership(t.Context(), req)
				requireCode(t, tc.want, err)
				if tc.says != nil {
					require.ErrorContains(t, err, tc.says(ids))
				}
				require.True(t, err != nil || proto.Equal(resp.GetVolumeGroup(), w.getVolumeGroup(t, id))) // -08, Get-04
				require.Equal(t, want, w.members(t, w.getVolumeGroup(t, id)))
			}
			require.Len(t, w.cluster.volumes(), len(ids), "ADD-VG-Modify-03: what leaves a group stays a volume")
		})
	}
}

// ADD-VG-Delete-02, -04, -05, -07: the volumes go with the group, and not without it.
func TestDeleteVolumeGroup(t *testing.T) {
	w := newEnv(t)
	ids := w.newVolumes(t, "v0", "v1", "v2")
	kept := w.create(t, "kept")
	id := w.createVolumeGroup(t, "g", ids...)
	for range 2 {
		requireCode(t, codes.FailedPrecondition, w.delete(t, ids[0])) // -05, ADD-VGA-Delete-03
	}
	_, err := w.modifyVolumeGroup(t, id, ids[1:]...)
	require.NoError(t, err)
	require.NoError(t, w.delete(t, ids[0]))
	for range 2 {
		_, err := w.groups.DeleteVolumeGroup(t.Context(), &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id, Secrets: mapOf("a", "b")})
		require.NoError(t, err)
		require.Equal(t, []fsm.VolumeID{fsm.VolumeID(kept)}, w.cluster.volumes())
		require.NoError(t, w.deleteVolumeGroup(t, unknownVolumeGroup))
		require.NoError(t, w.deleteVolumeGroup(t, "fake"))
		requireCode(t, codes.InvalidArgument, w.deleteVolumeGroup(t, "")) // -03
	}
}

// ADD-VG-Delete-06: what is in use or has snapshots keeps all volumes of the group.
func TestDeleteVolumeGroupInUse(t *testing.T) {
	w := newEnv(t)
	ids := w.newVolumes(t, "v0", "v1")
	id := w.createVolumeGroup(t, "g", ids...)
	w.publish(t, ids[1], mount(writer, ""))
	for range 2 {
		requireCode(t, codes.FailedPrecondition, w.deleteVolumeGroup(t, id))
	}
	require.NoError(t, w.unpublish(t, ids[1], "n1"))
	snap, err := w.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: ids[0]})
	require.NoError(t, err)
	for range 2 {
		requireCode(t, codes.FailedPrecondition, w.deleteVolumeGroup(t, id))
		require.Equal(t, ids, w.members(t, w.getVolumeGroup(t, id)))
	}
	_, err = w.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snap.GetSnapshot().GetSnapshotId()})
	require.NoError(t, err)
	require.NoError(t, w.deleteVolumeGroup(t, id))
	require.Empty(t, w.cluster.volumes())
}

// ADD-VG-Delete-08: a call that cannot finish is ABORTED before its deadline, and the hosts finish.
func TestDeleteVolumeGroupNearItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		id := w.createVolumeGroup(t, "g", w.newVolumes(t, "v0", "v1")...)
		w.host.update(func(h *fakeHost) { h.idle = true })
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := w.groups.DeleteVolumeGroup(ctx, &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id})
		requireCode(t, codes.Aborted, err)
		require.NoError(t, ctx.Err(), "the answer came before the deadline")
		require.NoError(t, w.deleteVolumeGroup(t, id))
		require.Len(t, w.cluster.volumes(), 2)
		w.host.update(func(h *fakeHost) { h.idle = false })
		w.host.reconcile()
		require.Empty(t, w.cluster.volumes())
		require.Zero(t, w.cluster.watcherCount())
	})
}

// ADD-VG-Delete-08: a volume that joined after the call had come is deleted with the group, and awaited as the others are.
func TestDeleteVolumeGroupAwaitsWhoJoinedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		id, joining := w.createVolumeGroup(t, "g"), w.newVolumes(t, "v0")
		w.host.update(func(h *fakeHost) { h.idle = true })
		w.cluster.update(func(c *fakeCluster) {
			c.mutateCommand = func(cmd *fsmpb.Command) {
				if cmd.GetDeleteVolumeGroup() == nil {
					return
				}
				_, err := c.apply("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ModifyVolumeGroup{ModifyVolumeGroup: &fsmpb.ModifyVolumeGroup{
					VolumeGroupId: id, VolumeIds: joining, MaxVolumes: maxGroupVolumes,
				}}})
				assert.NoError(t, err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := w.groups.DeleteVolumeGroup(ctx, &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id})
		requireCode(t, codes.Aborted, err)
		w.cluster.update(func(c *fakeCluster) { c.mutateCommand = nil })
		require.NoError(t, w.deleteVolumeGroup(t, id), "the group is gone")
		w.host.update(func(h *fakeHost) { h.idle = false })
		w.host.reconcile()
		require.Empty(t, w.cluster.volumes())
		require.Zero(t, w.cluster.watcherCount())
	})
}

// ADD-VG-Delete-04 with DO_NOT_ALLOW_VG_TO_DELETE_VOLUMES: a group that has volumes is refused.
func TestDeleteVolumeGroupThatKeepsVolumes(t *testing.T) {
	w := newEnv(t)
	ids := w.newVolumes(t, "v0")
	id := w.createVolumeGroup(t, "g", ids...)
	options := addons.Options{MaxVolumes: maxGroupVolumes, KeepVolumes: true}
	require.Contains(t, options.Capabilities(), identity.Capability_VolumeGroup_DO_NOT_ALLOW_VG_TO_DELETE_VOLUMES)
	s := addons.New(w.cluster, options)
	for range 2 {
		_, err := s.DeleteVolumeGroup(t.Context(), &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id})
		requireCode(t, codes.FailedPrecondition, err)
		require.Equal(t, ids, w.members(t, w.getVolumeGroup(t, id)))
	}
	_, err := w.modifyVolumeGroup(t, id)
	require.NoError(t, err)
	for range 2 {
		_, err := s.DeleteVolumeGroup(t.Context(), &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id})
		require.NoError(t, err)
	}
	require.Len(t, w.cluster.volumes(), 1)
}

// ADD-VG-Get-02, -03.
func TestGetVolumeGroupThatIsNotThere(t *testing.T) {
	w := newEnv(t)
	for id, want := range map[string]codes.Code{"": codes.InvalidArgument, unknownVolumeGroup: codes.NotFound, "fake": codes.NotFound} {
		for range 2 {
			_, err := w.groups.ControllerGetVolumeGroup(t.Context(), &volumegroup.ControllerGetVolumeGroupRequest{VolumeGroupId: id})
			requireCode(t, want, err)
		}
	}
}

// ADD-VG-List-02 to -10.
func TestListVolumeGroups(t *testing.T) {
	w := newEnv(t)
	var ids []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		ids = append(ids, w.createVolumeGroup(t, name, w.create(t, "of "+name)))
	}
	slices.Sort(ids)
	var listed []string
	for token := ""; ; {
		resp, err := w.listGroups(t, 2, token)
		require.NoError(t, err)
		require.LessOrEqual(t, len(resp.GetEntries()), 2)
		for _, e := range resp.GetEntries() {
			require.Len(t, w.members(t, e.GetVolumeGroup()), 1)
			listed = append(listed, e.GetVolumeGroup().GetVolumeGroupId())
		}
		if token == "" {
			require.NoError(t, w.deleteVolumeGroup(t, ids[1]), "-09: where the next page begins")
		}
		if token = resp.GetNextToken(); token == "" {
			break
		}
		require.LessOrEqual(t, len(token), 128) // -07
	}
	require.Equal(t, ids, listed)
	volumes, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 1})
	require.NoError(t, err)
	for range 2 {
		_, err := w.listGroups(t, 0, volumes.GetNextToken())
		requireCode(t, codes.Aborted, err) // -06
		_, err = w.listGroups(t, 0, "garbage")
		requireCode(t, codes.Aborted, err)
		_, err = w.listGroups(t, -1, "")
		requireCode(t, codes.InvalidArgument, err) // -05
		all, err := w.listGroups(t, 0, "")
		require.NoError(t, err)
		require.Len(t, all.GetEntries(), 4)
	}
}

// ADD-VG-Create-02: calls that overlap make one group.
func TestCreateVolumeGroupConcurrently(t *testing.T) {
	w := newEnv(t)
	volume := w.create(t, "v")
	var calls sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		calls.Go(func() {
			resp, err := w.groups.CreateVolumeGroup(t.Context(), &createGroupRequest{Name: "g", VolumeIds: []string{volume}})
			assert.NoError(t, err)
			ids[i] = resp.GetVolumeGroup().GetVolumeGroupId()
		})
	}
	calls.Wait()
	require.Len(t, slices.Compact(ids), 1)
	list, err := w.listGroups(t, 0, "")
	require.NoError(t, err)
	require.Len(t, list.GetEntries(), 1)
}

// ADD-VG-Modify-02: a group has what was said last, whatever it had.
func TestModifyVolumeGroupWithAnySet(t *testing.T) {
	w := newEnv(t)
	ids := w.newVolumes(t, "v0", "v1", "v2", "v3", "v4")
	id := w.createVolumeGroup(t, "g")
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		want := slices.Clone(ids[:random.IntN(maxGroupVolumes+1)])
		modified, err := w.modifyVolumeGroup(t, id, want...)
		require.NoError(t, err)
		require.ElementsMatch(t, want, w.members(t, modified))
	}
}
