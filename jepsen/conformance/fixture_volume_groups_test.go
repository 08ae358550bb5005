package conformance

import (
	"context"

	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// unknownVolumeGroupID is the id of a volume group that does not exist.
const unknownVolumeGroupID = "hg-00000000-0000-4000-8000-000000000000"

type (
	createGroupRequest = volumegroup.CreateVolumeGroupRequest
	modifyGroupRequest = volumegroup.ModifyVolumeGroupMembershipRequest
	deleteGroupRequest = volumegroup.DeleteVolumeGroupRequest
	getGroupRequest    = volumegroup.ControllerGetVolumeGroupRequest
	listGroupsRequest  = volumegroup.ListVolumeGroupsRequest
)

// volumeGroupsAt is the service of volume groups of a controller.
func (k *fixture) volumeGroupsAt(id string) volumegroup.ControllerClient {
	return volumegroup.NewControllerClient(k.env.Conn(k.t, id))
}

// volumeGroup makes a volume group of volumes; it is dissolved with the row.
func (k *fixture) volumeGroup(volumes ...string) *volumegroup.VolumeGroup {
	k.t.Helper()
	return k.volumeGroupFrom(&createGroupRequest{Name: k.env.Name("set"), VolumeIds: volumes})
}

func (k *fixture) volumeGroupFrom(req *createGroupRequest) *volumegroup.VolumeGroup {
	k.t.Helper()
	g := k.volumeGroupAgain("c1", req)
	k.dissolveLater(g.GetVolumeGroupId())
	return g
}

func (k *fixture) dissolveLater(id string) {
	groups := k.volumeGroups
	k.cleanUpWith(func(ctx context.Context) error { return dissolve(ctx, groups, id, nil) })
}

// volumeGroupAgain repeats CreateVolumeGroup at a controller.
func (k *fixture) volumeGroupAgain(at string, req *createGroupRequest) *volumegroup.VolumeGroup {
	k.t.Helper()
	var res *volumegroup.CreateVolumeGroupResponse
	groups := k.volumeGroupsAt(at)
	k.untilOK(func() (err error) {
		res, err = groups.CreateVolumeGroup(k.ctx, req)
		return err
	})
	require.NotNil(k.t, res.GetVolumeGroup())
	return res.GetVolumeGroup()
}

func (k *fixture) createVolumeGroup(req *createGroupRequest) error {
	_, err := k.volumeGroups.CreateVolumeGroup(k.ctx, req)
	return err
}

func (k *fixture) modifyVolumeGroup(id string, volumes ...string) error {
	_, err := k.volumeGroups.ModifyVolumeGroupMembership(k.ctx, &modifyGroupRequest{VolumeGroupId: id, VolumeIds: volumes})
	return err
}

// modifiedVolumeGroup is the group after a modification.
func (k *fixture) modifiedVolumeGroup(id string, volumes ...string) *volumegroup.VolumeGroup {
	k.t.Helper()
	var res *volumegroup.ModifyVolumeGroupMembershipResponse
	k.untilOK(func() (err error) {
		res, err = k.volumeGroups.ModifyVolumeGroupMembership(k.ctx, &modifyGroupRequest{VolumeGroupId: id, VolumeIds: volumes})
		return err
	})
	return res.GetVolumeGroup()
}

func (k *fixture) deleteVolumeGroup(id string) error {
	_, err := k.volumeGroups.DeleteVolumeGroup(k.ctx, &deleteGroupRequest{VolumeGroupId: id})
	return err
}

// getVolumeGroup is what a controller says of a group.
func (k *fixture) getVolumeGroup(at, id string) *volumegroup.VolumeGroup {
	k.t.Helper()
	var res *volumegroup.ControllerGetVolumeGroupResponse
	groups := k.volumeGroupsAt(at)
	k.untilOK(func() (err error) {
		res, err = groups.ControllerGetVolumeGroup(k.ctx, &getGroupRequest{VolumeGroupId: id})
		return err
	})
	return res.GetVolumeGroup()
}

// listVolumeGroups is one page of ListVolumeGroups.
func (k *fixture) listVolumeGroups(most int32, token string) *volumegroup.ListVolumeGroupsResponse {
	k.t.Helper()
	var res *volumegroup.ListVolumeGroupsResponse
	k.untilOK(func() (err error) {
		res, err = k.volumeGroups.ListVolumeGroups(k.ctx, &listGroupsRequest{MaxEntries: most, StartingToken: token})
		return err
	})
	return res
}

// listedVolumeGroups is every group, by its id.
func (k *fixture) listedVolumeGroups() map[string]*volumegroup.VolumeGroup {
	k.t.Helper()
	all := map[string]*volumegroup.VolumeGroup{}
	for _, e := range k.listVolumeGroups(0, "").GetEntries() {
		all[e.GetVolumeGroup().GetVolumeGroupId()] = e.GetVolumeGroup()
	}
	return all
}

// requireMembers compares the members that an answer has, and those that ControllerGetVolumeGroup tells.
func (k *fixture) requireMembers(g *volumegroup.VolumeGroup, want ...string) {
	k.t.Helper()
	require.ElementsMatch(k.t, want, volumeIDsOf(g))
	require.ElementsMatch(k.t, want, volumeIDsOf(k.getVolumeGroup("c1", g.GetVolumeGroupId())))
}

func volumeIDsOf(g *volumegroup.VolumeGroup) (ids []string) {
	for _, v := range g.GetVolumes() {
		ids = append(ids, v.GetVolumeId())
	}
	return ids
}

// requireAlive requires that volumes exist.
func (k *fixture) requireAlive(volumes ...string) {
	k.t.Helper()
	for _, id := range volumes {
		require.Equal(k.t, id, k.get(id).GetVolume().GetVolumeId())
	}
}

// requireGone requires that volumes are not listed and have no file.
func (k *fixture) requireGone(volumes ...string) {
	k.t.Helper()
	listed, err := k.env.CO.List(k.ctx)
	require.NoError(k.t, err)
	images, err := k.env.Cluster.AllImages()
	require.NoError(k.t, err)
	for _, id := range volumes {
		require.NotContains(k.t, listed, id)
		require.NotContains(k.t, images, id)
	}
}

// volumeGroupCalls are the calls of the service about what does not exist, which is fine where they are served.
var volumeGroupCalls = map[string]func(k *fixture, conn *grpc.ClientConn) error{
	"CreateVolumeGroup": func(k *fixture, conn *grpc.ClientConn) error {
		_, err := volumegroup.NewControllerClient(conn).CreateVolumeGroup(k.ctx, &createGroupRequest{Name: k.env.Name("set"), VolumeIds: []string{unknownVolumeID}})
		return ignoreCode(err, codes.NotFound)
	},
	"ModifyVolumeGroupMembership": func(k *fixture, conn *grpc.ClientConn) error {
		_, err := volumegroup.NewControllerClient(conn).ModifyVolumeGroupMembership(k.ctx, &modifyGroupRequest{VolumeGroupId: unknownVolumeGroupID})
		return ignoreCode(err, codes.NotFound)
	},
	"DeleteVolumeGroup": func(k *fixture, conn *grpc.ClientConn) error {
		_, err := volumegroup.NewControllerClient(conn).DeleteVolumeGroup(k.ctx, &deleteGroupRequest{VolumeGroupId: unknownVolumeGroupID})
		return err
	},
	"ControllerGetVolumeGroup": func(k *fixture, conn *grpc.ClientConn) error {
		_, err := volumegroup.NewControllerClient(conn).ControllerGetVolumeGroup(k.ctx, &getGroupRequest{VolumeGroupId: unknownVolumeGroupID})
		return ignoreCode(err, codes.NotFound)
	},
	"ListVolumeGroups": func(k *fixture, conn *grpc.ClientConn) error {
		_, err := volumegroup.NewControllerClient(conn).ListVolumeGroups(k.ctx, &listGroupsRequest{})
		return err
	},
}
