package conformance

import (
	"math/rand/v2"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// membershipRows are those of changing, getting and listing volume groups.
var membershipRows = map[string]rowTest{
	"ADD-VG-Modify-01": volumeGroupCall("ModifyVolumeGroupMembership", identity.Capability_VolumeGroup_MODIFY_VOLUME_GROUP),
	"ADD-VG-Modify-02": rowOf(func(k *fixture) {
		ids, random := k.volumes(4), rand.New(rand.NewPCG(5, 6))
		id := k.volumeGroup(ids[0]).GetVolumeGroupId()
		for range 8 {
			var some []string
			for _, volume := range ids {
				if random.IntN(2) == 0 {
					some = append(some, volume)
				}
			}
			random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			k.requireMembers(k.modifiedVolumeGroup(id, some...), some...)
		}
	}),
	"ADD-VG-Modify-03": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		g := k.volumeGroup(ids...)
		k.requireMembers(k.modifiedVolumeGroup(g.GetVolumeGroupId(), ids[0]), ids[0])
		k.requireAlive(ids...)
		k.requireMembers(k.volumeGroup(ids[1]), ids[1]) // it is free for another one
	}),
	"ADD-VG-Modify-04": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		g := k.volumeGroup(ids...)
		k.requireMembers(k.modifiedVolumeGroup(g.GetVolumeGroupId()))
		k.requireAlive(ids...)
	}),
	"ADD-VG-Modify-05": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		id := k.volumeGroup(ids[0]).GetVolumeGroupId()
		for _, members := range [][]string{ids, {}} {
			first := k.modifiedVolumeGroup(id, members...)
			for range 3 {
				requireSame(k, first, k.modifiedVolumeGroup(id, members...))
			}
			k.requireMembers(first, members...)
		}
	}),
	"ADD-VG-Modify-06": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.modifyVolumeGroup("") }),
	"ADD-VG-Modify-07": rowOf(func(k *fixture) {
		volume := k.volume().ID
		id := k.volumeGroup().GetVolumeGroupId()
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			k.untilOK(func() error {
				_, err := k.volumeGroups.ModifyVolumeGroupMembership(k.ctx, &modifyGroupRequest{VolumeGroupId: id, VolumeIds: []string{volume}, Secrets: secrets})
				return err
			})
		}
		k.requireMembers(k.getVolumeGroup("c1", id), volume)
	}),
	"ADD-VG-Modify-08": rowOf(func(k *fixture) {
		ids := k.volumes(3)
		g := k.modifiedVolumeGroup(k.volumeGroup().GetVolumeGroupId(), ids...)
		require.NotNil(k.t, g)
		k.requireMembers(g, ids...)
	}),
	"ADD-VG-Modify-09": rowOf(func(k *fixture) {
		_, _, err := incompatible(k)
		requireRefused(k.t, err, codes.InvalidArgument)
	}),
	"ADD-VG-Modify-15": rowOf(func(k *fixture) {
		member, other, err := incompatible(k)
		require.Contains(k.t, status.Convert(err).Message(), member)
		require.Contains(k.t, status.Convert(err).Message(), other)
	}),
	"ADD-VG-Modify-10": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		g := k.volumeGroup(ids[0])
		for _, unknown := range []string{unknownVolumeID, "of another form"} {
			requireRefused(k.t, k.modifyVolumeGroup(g.GetVolumeGroupId(), ids[1], unknown), codes.NotFound)
			requireRefused(k.t, k.modifyVolumeGroup(g.GetVolumeGroupId(), unknown), codes.NotFound)
		}
		for _, unknown := range []string{unknownVolumeGroupID, "of another form"} {
			requireRefused(k.t, k.modifyVolumeGroup(unknown, ids...), codes.NotFound)
			requireRefused(k.t, k.modifyVolumeGroup(unknown), codes.NotFound)
		}
		k.requireMembers(g, ids[0])
	}),
	"ADD-VG-Modify-11": rowOf(tooManyMembers),
	"ADD-VG-Modify-13": documented("## Volume groups", "no order of writes across volumes", "is a group snapshot"),
	"ADD-VG-Modify-14": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		g := k.volumeGroup(ids[0])
		modify := func(key string) error {
			_, err := k.volumeGroups.ModifyVolumeGroupMembership(k.ctx, &modifyGroupRequest{
				VolumeGroupId: g.GetVolumeGroupId(), VolumeIds: ids, Parameters: map[string]string{key: "blue"}})
			return err
		}
		requireRefused(k.t, modify("colour"), codes.InvalidArgument)
		k.requireMembers(g, ids[0])
		k.untilOK(func() error { return modify("csi.storage.k8s.io/pv/name") })
		k.requireMembers(k.getVolumeGroup("c1", g.GetVolumeGroupId()), ids...)
	}),

	"ADD-VG-Get-01": volumeGroupCall("ControllerGetVolumeGroup", identity.Capability_VolumeGroup_GET_VOLUME_GROUP),
	"ADD-VG-Get-02": rowRefused(codes.InvalidArgument, func(k *fixture) error { return volumeGroupNamed(k, "") }),
	"ADD-VG-Get-03": rowOf(func(k *fixture) {
		for _, id := range []string{unknownVolumeGroupID, "of another form"} {
			requireRefused(k.t, volumeGroupNamed(k, id), codes.NotFound)
		}
	}),
	"ADD-VG-Get-04": rowOf(func(k *fixture) {
		ids := k.volumes(3)
		id := k.volumeGroup(ids[0]).GetVolumeGroupId()
		for _, members := range [][]string{ids, ids[1:], {}} {
			g := k.modifiedVolumeGroup(id, members...)
			for _, at := range []string{"c1", "c2", "c3"} {
				got := k.getVolumeGroup(at, id)
				requireSame(k, g, got)
				require.ElementsMatch(k.t, members, volumeIDsOf(got), at)
			}
		}
	}),
	"ADD-VG-Get-05": rowOf(func(k *fixture) {
		id := k.volumeGroup().GetVolumeGroupId()
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			_, err := k.volumeGroups.ControllerGetVolumeGroup(k.ctx, &getGroupRequest{VolumeGroupId: id, Secrets: secrets})
			require.NoError(k.t, err)
		}
	}),
	"ADD-VG-Get-06": rowOf(func(k *fixture) {
		source := k.volumeWithText("text")
		restored := k.restore(k.snapshot(source.GetVolumeId()).GetSnapshotId())
		g := k.volumeGroup(source.GetVolumeId(), restored.ID)
		for _, told := range []*volumegroup.VolumeGroup{g, k.getVolumeGroup("c1", g.GetVolumeGroupId()), k.listedVolumeGroups()[g.GetVolumeGroupId()]} {
			require.Len(k.t, told.GetVolumes(), 2)
			for _, v := range told.GetVolumes() {
				requireSame(k, k.get(v.GetVolumeId()).GetVolume(), v)
			}
		}
	}),

	"ADD-VG-List-01": volumeGroupCall("ListVolumeGroups", identity.Capability_VolumeGroup_LIST_VOLUME_GROUPS),
	"ADD-VG-List-02": rowOf(func(k *fixture) {
		made := k.emptyVolumeGroups(4)
		for _, at := range []string{"c1", "c2", "c3"} {
			var listed []string
			res, err := k.volumeGroupsAt(at).ListVolumeGroups(k.ctx, &listGroupsRequest{})
			require.NoError(k.t, err)
			for _, e := range res.GetEntries() {
				listed = append(listed, e.GetVolumeGroup().GetVolumeGroupId())
			}
			require.Subset(k.t, listed, made)
		}
	}),
	"ADD-VG-List-03": rowOf(pagesOfVolumeGroups),
	"ADD-VG-List-04": rowOf(pagesOfVolumeGroups),
	"ADD-VG-List-05": rowOf(func(k *fixture) {
		made := k.emptyVolumeGroups(3)
		res := k.listVolumeGroups(0, "")
		require.GreaterOrEqual(k.t, len(res.GetEntries()), len(made))
		require.Empty(k.t, res.GetNextToken())
		requireRefused(k.t, listError(k, -1, ""), codes.InvalidArgument)
	}),
	"ADD-VG-List-06": rowOf(func(k *fixture) {
		k.volumes(2)
		volumes, err := k.controller.ListVolumes(k.ctx, &csi.ListVolumesRequest{MaxEntries: 1})
		require.NoError(k.t, err)
		require.NotEmpty(k.t, volumes.GetNextToken())
		for _, token := range []string{"garbage", volumes.GetNextToken(), strings.Repeat("t", 200)} {
			requireRefused(k.t, listError(k, 0, token), codes.Aborted)
		}
	}),
	"ADD-VG-List-07": rowOf(func(k *fixture) {
		k.volumeGroupFrom(&createGroupRequest{Name: strings.Repeat("n", 128)})
		k.emptyVolumeGroups(1)
		token := k.listVolumeGroups(1, "").GetNextToken()
		require.NotEmpty(k.t, token)
		require.LessOrEqual(k.t, len(token), 128)
	}),
	"ADD-VG-List-08": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		id := k.volumeGroup(ids...).GetVolumeGroupId()
		for _, e := range k.listVolumeGroups(0, "").GetEntries() {
			require.NotNil(k.t, e.GetVolumeGroup())
		}
		require.ElementsMatch(k.t, ids, volumeIDsOf(k.listedVolumeGroups()[id]))
	}),
	"ADD-VG-List-09": rowOf(func(k *fixture) {
		k.emptyVolumeGroups(4)
		first := k.listVolumeGroups(2, "")
		last := first.GetEntries()[1].GetVolumeGroup().GetVolumeGroupId()
		k.untilOK(func() error { return k.deleteVolumeGroup(last) }) // the one that the token stands on
		made := k.volumeGroup().GetVolumeGroupId()
		seen := map[string]bool{}
		for _, e := range first.GetEntries() {
			seen[e.GetVolumeGroup().GetVolumeGroupId()] = true
		}
		for token := first.GetNextToken(); token != ""; {
			page := k.listVolumeGroups(2, token)
			for _, e := range page.GetEntries() {
				seen[e.GetVolumeGroup().GetVolumeGroupId()] = true
			}
			token = page.GetNextToken()
		}
		for id := range k.listedVolumeGroups() {
			require.True(k.t, seen[id] || id == made, "%s was there all the time", id)
		}
	}),
	"ADD-VG-List-10": rowOf(func(k *fixture) {
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			_, err := k.volumeGroups.ListVolumeGroups(k.ctx, &listGroupsRequest{Secrets: secrets})
			require.NoError(k.t, err)
		}
	}),
}

// incompatible adds a volume that is in another group: it changes neither group.
func incompatible(k *fixture) (member, other string, err error) {
	ids := k.volumes(2)
	one, two := k.volumeGroup(ids[0]), k.volumeGroup(ids[1])
	for range 2 {
		err = k.modifyVolumeGroup(one.GetVolumeGroupId(), ids...)
	}
	k.requireMembers(one, ids[0])
	k.requireMembers(two, ids[1])
	return ids[1], two.GetVolumeGroupId(), err
}

// tooManyMembers: what would be more than the limit changes nothing.
func tooManyMembers(k *fixture) {
	id, volumes := k.configuredGroup(1, maxGrouped)
	groups := volumegroup.NewControllerClient(k.configuredConn("c1"))
	modify := func(ids ...string) (*volumegroup.VolumeGroup, error) {
		res, err := groups.ModifyVolumeGroupMembership(k.ctx, &modifyGroupRequest{VolumeGroupId: id, VolumeIds: ids, Secrets: withToken()})
		return res.GetVolumeGroup(), err
	}
	for range 2 {
		_, err := modify(volumes...)
		requireRefused(k.t, err, codes.ResourceExhausted)
	}
	got, err := groups.ControllerGetVolumeGroup(k.ctx, &getGroupRequest{VolumeGroupId: id, Secrets: withToken()})
	require.NoError(k.t, err)
	require.Equal(k.t, volumes[:1], volumeIDsOf(got.GetVolumeGroup()))
	full, err := modify(volumes[:maxGrouped]...)
	require.NoError(k.t, err)
	require.Len(k.t, full.GetVolumes(), maxGrouped)
}

// emptyVolumeGroups are the ids of so many groups.
func (k *fixture) emptyVolumeGroups(n int) (ids []string) {
	k.t.Helper()
	for range n {
		ids = append(ids, k.volumeGroup().GetVolumeGroupId())
	}
	return ids
}

func listError(k *fixture, most int32, token string) error {
	_, err := k.volumeGroups.ListVolumeGroups(k.ctx, &listGroupsRequest{MaxEntries: most, StartingToken: token})
	return err
}

// pagesOfVolumeGroups walks through all groups by pages: none has more than was asked for, and none is left out.
func pagesOfVolumeGroups(k *fixture) {
	made := k.emptyVolumeGroups(5)
	var walked []string
	for token, more := "", true; more; more = token != "" {
		page := k.listVolumeGroups(2, token)
		require.LessOrEqual(k.t, len(page.GetEntries()), 2)
		for _, e := range page.GetEntries() {
			walked = append(walked, e.GetVolumeGroup().GetVolumeGroupId())
		}
		if token = page.GetNextToken(); token != "" {
			require.Len(k.t, page.GetEntries(), 2)
		}
	}
	require.Subset(k.t, walked, made)
	require.Len(k.t, walked, len(k.listedVolumeGroups()))
}
