package controller_test

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	addons "github.com/holdfast-storage/holdfast/addons/volumegroup"
)

// callAll makes each call of the service once, by the capability that it needs.
func callAll(t *testing.T, s volumegroup.ControllerServer) map[string]error {
	ctx := t.Context()
	_, create := s.CreateVolumeGroup(ctx, &createGroupRequest{Name: "of callAll"})
	_, modify := s.ModifyVolumeGroupMembership(ctx, &modifyGroupRequest{VolumeGroupId: unknownVolumeGroup})
	_, remove := s.DeleteVolumeGroup(ctx, &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: unknownVolumeGroup})
	_, get := s.ControllerGetVolumeGroup(ctx, &volumegroup.ControllerGetVolumeGroupRequest{VolumeGroupId: unknownVolumeGroup})
	_, list := s.ListVolumeGroups(ctx, &volumegroup.ListVolumeGroupsRequest{})
	return map[string]error{
		"VOLUME_GROUP": create, "VOLUME_GROUP to delete": remove, "MODIFY_VOLUME_GROUP": modify, "GET_VOLUME_GROUP": get, "LIST_VOLUME_GROUPS": list,
	}
}

// ADD-VG-Create-01, -Delete-01, -Modify-01, -Get-01, -List-01 and those of ADD-VGA-: one switch for each.
func TestVolumeGroupCapabilities(t *testing.T) {
	w := newEnv(t)
	for _, disabled := range []string{"", "VOLUME_GROUP", "MODIFY_VOLUME_GROUP", "GET_VOLUME_GROUP", "LIST_VOLUME_GROUPS"} {
		options := addons.Options{MaxVolumes: maxGroupVolumes, Disabled: []string{disabled}}
		var advertised []string
		for _, capability := range options.Capabilities() {
			advertised = append(advertised, capability.String())
		}
		require.NotContains(t, advertised, disabled)
		require.Equal(t, disabled != "VOLUME_GROUP", strings.Contains(strings.Join(advertised, ","), "LIMIT_VOLUME_TO_ONE_VOLUME_GROUP"))
		for range 2 {
			for call, err := range callAll(t, addons.New(w.cluster, options)) {
				capability, _, _ := strings.Cut(call, " ")
				if capability == disabled {
					requireCode(t, codes.Unimplemented, err)
					continue
				}
				require.NotEqual(t, codes.Unimplemented, status.Code(err), call)
				require.Contains(t, advertised, capability)
			}
		}
	}
}

// Members of feature level 1 know no groups.
func TestVolumeGroupsNeedFeatureLevel2(t *testing.T) {
	w := newEnv(t)
	w.cluster.bootstrap(t, 1)
	for range 2 {
		for call, err := range callAll(t, addons.New(w.cluster, addons.Options{MaxVolumes: maxGroupVolumes})) {
			requireCode(t, codes.Unimplemented, err)
			require.ErrorContains(t, err, "feature level 2", call)
		}
	}
}

// ADD-VG-Get-07, -List-11, ADD-VGA-Create-08, -Delete-05, -Modify-05, -Get-03, -List-04: without a quorum
// nothing is answered, and nothing is done.
func TestVolumeGroupsWithoutQuorum(t *testing.T) {
	w := newEnv(t)
	w.cluster.update(func(c *fakeCluster) { c.noQuorum = true })
	for range 2 {
		for _, err := range callAll(t, addons.New(w.cluster, addons.Options{MaxVolumes: maxGroupVolumes})) {
			requireCode(t, codes.Unavailable, err)
		}
	}
}

// S29, S33: another site's groups are not found, and its names are its own.
func TestS29_VolumeGroupsOfAnotherSite(t *testing.T) {
	w := newEnv(t, hostAt("n1", "A"), hostAt("n2", "B"))
	w.cluster.actAs(t, "A")
	volume := w.create(t, "v")
	id := w.createVolumeGroup(t, "g", volume)
	w.cluster.actAs(t, "B")
	for range 2 {
		_, err := w.groups.ControllerGetVolumeGroup(t.Context(), &volumegroup.ControllerGetVolumeGroupRequest{VolumeGroupId: id})
		requireCode(t, codes.NotFound, err)
		_, err = w.modifyVolumeGroup(t, id)
		requireCode(t, codes.FailedPrecondition, err)
		requireCode(t, codes.FailedPrecondition, w.deleteVolumeGroup(t, id))
		_, err = w.groups.CreateVolumeGroup(t.Context(), &createGroupRequest{Name: "g", VolumeIds: []string{volume}})
		requireCode(t, codes.FailedPrecondition, err)
		list, err := w.listGroups(t, 0, "")
		require.NoError(t, err)
		require.Empty(t, list.GetEntries())
	}
	require.NotEqual(t, id, w.createVolumeGroup(t, "g"))
	w.cluster.actAs(t, "A")
	require.Equal(t, []string{volume}, w.members(t, w.getVolumeGroup(t, id)))
}

// ADD-VGA-Create-04, -05: a new volume joins by the group's id or name; one that was restored by a modification.
func TestCreateVolumeJoinsAGroup(t *testing.T) {
	w := newEnv(t)
	id := w.createVolumeGroup(t, "shop")
	for range 2 {
		first := w.create(t, "first", withParameters("volumeGroup", "shop"))
		second := w.create(t, "second", withParameters("volumeGroup", id))
		require.ElementsMatch(t, []string{first, second}, w.members(t, w.getVolumeGroup(t, id)))
	}
	for range 2 {
		_, err := w.CreateVolume(t.Context(), createRequest("first", withParameters("volumeGroup", id)))
		requireCode(t, codes.AlreadyExists, err)
		_, err = w.CreateVolume(t.Context(), createRequest("v", withParameters("volumeGroup", "unknown")))
		requireCode(t, codes.NotFound, err)
	}
	w.create(t, "third", withParameters("volumeGroup", "shop"))
	for range 2 {
		_, err := w.CreateVolume(t.Context(), createRequest("fourth", withParameters("volumeGroup", "shop")))
		requireCode(t, codes.ResourceExhausted, err)
	}
	require.Len(t, w.members(t, w.getVolumeGroup(t, id)), maxGroupVolumes)
}

// A member that its host has not made yet was returned to nobody.
func TestAVolumeThatIsBeingMadeIsNotListed(t *testing.T) {
	w := newEnv(t)
	id := w.createVolumeGroup(t, "shop")
	_, err := w.groups.ListVolumeGroups(t.Context(), &volumegroup.ListVolumeGroupsRequest{})
	require.NoError(t, err)
	w.host.update(func(h *fakeHost) { h.idle = true })
	go func() { _, _ = w.CreateVolume(t.Context(), createRequest("v", withParameters("volumeGroup", "shop"))) }()
	require.Eventually(t, func() bool { return len(w.cluster.volumes()) == 1 }, time.Minute, time.Millisecond)
	require.Empty(t, w.members(t, w.getVolumeGroup(t, id)))
}

// A group snapshot that names a volume group, by id or name, is of all its volumes.
func TestGroupSnapshotOfAVolumeGroup(t *testing.T) {
	w := newEnv(t)
	ids := w.newVolumes(t, "v0", "v1")
	id := w.createVolumeGroup(t, "shop", ids...)
	take := func(name, group string, sources ...string) (string, error) {
		resp, err := w.CreateVolumeGroupSnapshot(t.Context(), &groupReq{Name: name, SourceVolumeIds: sources, Parameters: mapOf("volumeGroup", group)})
		return resp.GetGroupSnapshot().GetGroupSnapshotId(), err
	}
	taken, err := take("by name", "shop", ids...)
	require.NoError(t, err)
	_, err = take("by id", id, ids...)
	require.NoError(t, err)
	for range 2 {
		_, err = take("some", "shop", ids[0])
		requireCode(t, codes.FailedPrecondition, err)
		_, err = take("unknown", "unknown", ids...)
		requireCode(t, codes.NotFound, err)
		_, err = take("by name", "", ids...)
		requireCode(t, codes.AlreadyExists, err)
	}
	_, err = w.modifyVolumeGroup(t, id)
	require.NoError(t, err)
	require.NoError(t, w.deleteVolumeGroup(t, id))
	for range 2 {
		again, err := take("by name", "shop", ids...)
		require.NoError(t, err, "they were taken before the group was deleted")
		require.Equal(t, taken, again)
	}
	_, err = w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: ids[0]})
	require.NoError(t, err)
}
