package conformance

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// volumeGroupRows are those of making and deleting volume groups.
var volumeGroupRows = map[string]rowTest{
	"ADD-VG-Svc-01": rowOf(repeatedEach),
	"ADD-VG-Svc-02": rowOf(func(k *fixture) {
		for _, id := range []string{"c1", "c2", "c3"} {
			require.True(k.t, k.servedAddons(k.env.Conn(k.t, id))["volumegroup.Controller/ListVolumeGroups"])
		}
		for _, other := range []string{"/volumegroup.v1.Controller/ListVolumeGroups", "/csi.v1.VolumeGroup/ListVolumeGroups"} {
			err := k.env.Conn(k.t, "c1").Invoke(k.ctx, other, &listGroupsRequest{}, &volumegroup.ListVolumeGroupsResponse{})
			requireRefused(k.t, err, codes.Unimplemented)
		}
	}),
	"ADD-VG-Svc-03": rowOf(func(k *fixture) {
		var served []string
		for method, is := range k.servedAddons(k.env.Conn(k.t, "c1")) {
			if name, own := strings.CutPrefix(method, "volumegroup.Controller/"); own && is {
				served = append(served, name)
			}
		}
		require.ElementsMatch(k.t, []string{"CreateVolumeGroup", "ModifyVolumeGroupMembership", "DeleteVolumeGroup", "ListVolumeGroups", "ControllerGetVolumeGroup"}, served)
	}),

	"ADD-VG-Create-01": volumeGroupCall("CreateVolumeGroup", identity.Capability_VolumeGroup_VOLUME_GROUP),
	"ADD-VG-Create-03": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.createVolumeGroup(&createGroupRequest{}) }),
	"ADD-VG-Create-04": rowOf(func(k *fixture) {
		longest, tooLong := strings.Repeat("g", 128), strings.Repeat("g", 129)
		k.volumeGroupFrom(&createGroupRequest{Name: longest})
		for what, err := range map[string]error{
			"a name": k.createVolumeGroup(&createGroupRequest{Name: tooLong}), "a volume": k.createVolumeGroup(&createGroupRequest{Name: "x", VolumeIds: []string{tooLong}}),
			"to modify": k.modifyVolumeGroup(tooLong), "to delete": k.deleteVolumeGroup(tooLong), "to get": volumeGroupNamed(k, tooLong),
		} {
			k.requireCode(what, err, codes.InvalidArgument)
		}
		k.requireCode("to get", volumeGroupNamed(k, longest), codes.NotFound)
	}),
	"ADD-VG-Create-05": rowOf(badParameter),
	"ADD-VG-Create-12": rowOf(badParameter),
	"ADD-VG-Create-13": rowOf(func(k *fixture) {
		err := k.createVolumeGroup(&createGroupRequest{Name: k.env.Name("set"), Parameters: map[string]string{"colour": "blue"}})
		requireRefused(k.t, err, codes.InvalidArgument)
		require.Contains(k.t, status.Convert(err).Message(), "colour")
	}),
	"ADD-VG-Create-06": rowOf(func(k *fixture) {
		const canary = "canary-31c7aa-group"
		req := &createGroupRequest{Name: k.env.Name("set"), Secrets: map[string]string{"password": canary}}
		g := k.volumeGroupFrom(req)
		require.NotContains(k.t, g.String(), canary)
		requireSame(k, g, k.volumeGroupAgain("c1", &createGroupRequest{Name: req.GetName()}))
		k.requireNotOnDisk(canary)
	}),
	"ADD-VG-Create-07": rowOf(func(k *fixture) { k.requireMembers(k.volumeGroup()) }),
	"ADD-VG-Create-08": rowOf(func(k *fixture) {
		ids := k.volumes(4)[:3]
		g := k.volumeGroup(append(slices.Clone(ids), ids[0])...) // one of them twice
		k.requireMembers(g, ids...)
	}),
	"ADD-VG-Create-09": rowOf(func(k *fixture) {
		before, name, one := k.listedVolumeGroups(), k.env.Name("set"), k.volume().ID
		for _, unknown := range []string{unknownVolumeID, "of another form"} {
			requireRefused(k.t, k.createVolumeGroup(&createGroupRequest{Name: name, VolumeIds: []string{one, unknown}}), codes.NotFound)
			require.Len(k.t, k.listedVolumeGroups(), len(before))
		}
		k.requireMembers(k.volumeGroupFrom(&createGroupRequest{Name: name, VolumeIds: []string{one}}), one)
	}),
	"ADD-VG-Create-10": rowOf(func(k *fixture) {
		one, two := k.volumeGroup(), k.volumeGroup()
		require.NotEmpty(k.t, one.GetVolumeGroupId())
		require.NotEqual(k.t, one.GetVolumeGroupId(), two.GetVolumeGroupId())
	}),
	"ADD-VG-Create-11": rowOf(func(k *fixture) {
		req := &createGroupRequest{Name: k.env.Name("set"), VolumeIds: k.volumes(1)}
		first := k.volumeGroupFrom(req)
		size := 0
		for key, value := range first.GetVolumeGroupContext() {
			size += len(key) + len(value)
		}
		require.LessOrEqual(k.t, size, 4096)
		id := first.GetVolumeGroupId()
		for _, again := range []*volumegroup.VolumeGroup{
			k.volumeGroupAgain("c2", req), k.getVolumeGroup("c3", id), k.listedVolumeGroups()[id], k.modifiedVolumeGroup(id),
		} {
			require.Equal(k.t, first.GetVolumeGroupContext(), again.GetVolumeGroupContext())
		}
	}),
	"ADD-VG-Create-14": rowOf(otherMembers),
	"ADD-VG-Create-16": rowOf(otherMembers),
	"ADD-VG-Create-15": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		first := k.volumeGroup(ids[0])
		before := len(k.listedVolumeGroups())
		for range 2 {
			requireRefused(k.t, k.createVolumeGroup(&createGroupRequest{Name: "second-" + ids[0], VolumeIds: ids}), codes.FailedPrecondition)
		}
		require.Len(k.t, k.listedVolumeGroups(), before)
		k.requireMembers(first, ids[0])
	}),
	"ADD-VG-Create-17": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		require.Empty(k.t, k.volumeGroup().GetVolumes())
		g := k.volumeGroup(ids...)
		for _, told := range []*volumegroup.VolumeGroup{g, k.getVolumeGroup("c2", g.GetVolumeGroupId()), k.listedVolumeGroups()[g.GetVolumeGroupId()]} {
			require.ElementsMatch(k.t, ids, volumeIDsOf(told))
		}
	}),

	"ADD-VG-Delete-01": volumeGroupCall("DeleteVolumeGroup", identity.Capability_VolumeGroup_VOLUME_GROUP),
	"ADD-VG-Delete-02": rowOf(func(k *fixture) {
		id := k.volumeGroup().GetVolumeGroupId()
		for _, gone := range []string{id, id, unknownVolumeGroupID, "of another form"} {
			k.untilOK(func() error { return k.deleteVolumeGroup(gone) })
		}
		requireRefused(k.t, volumeGroupNamed(k, id), codes.NotFound)
	}),
	"ADD-VG-Delete-03": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.deleteVolumeGroup("") }),
	"ADD-VG-Delete-04": rowOf(deletionOfMembers),
	"ADD-VG-Delete-05": rowOf(func(k *fixture) {
		ids := k.volumes(2)
		g := k.volumeGroup(ids...)
		remove := func() error {
			_, err := k.controller.DeleteVolume(k.ctx, &csi.DeleteVolumeRequest{VolumeId: ids[0]})
			return err
		}
		for range 2 {
			requireRefused(k.t, remove(), codes.FailedPrecondition)
		}
		k.requireMembers(g, ids...)
		k.requireMembers(k.modifiedVolumeGroup(g.GetVolumeGroupId(), ids[1]), ids[1])
		k.untilOK(remove)
		k.requireGone(ids[0])
	}),
	"ADD-VG-Delete-06": rowOf(func(k *fixture) {
		published(k)
		withSnapshot(k)
	}),
	"ADD-VG-Delete-07": rowOf(func(k *fixture) {
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			id := k.volumeGroup().GetVolumeGroupId()
			k.untilOK(func() error {
				_, err := k.volumeGroups.DeleteVolumeGroup(k.ctx, &deleteGroupRequest{VolumeGroupId: id, Secrets: secrets})
				return err
			})
			requireRefused(k.t, volumeGroupNamed(k, id), codes.NotFound)
		}
	}),
}

// volumeGroupCall makes a row of a call that is served exactly where its capability is advertised.
func volumeGroupCall(method string, c identity.Capability_VolumeGroup_Type) rowTest {
	return rowServedIff(addonsHas(groupCapability(c)), func(k *fixture, conn *grpc.ClientConn) error { return volumeGroupCalls[method](k, conn) })
}

// volumeGroupNamed is the error of ControllerGetVolumeGroup.
func volumeGroupNamed(k *fixture, id string) error {
	_, err := k.volumeGroups.ControllerGetVolumeGroup(k.ctx, &getGroupRequest{VolumeGroupId: id})
	return err
}

// repeatedEach calls each method twice: the second answer is the first one.
func repeatedEach(k *fixture) {
	ids := k.volumes(2)
	req := &createGroupRequest{Name: k.env.Name("set"), VolumeIds: ids}
	g := k.volumeGroupFrom(req)
	requireSame(k, g, k.volumeGroupAgain("c1", req))
	id := g.GetVolumeGroupId()
	requireSame(k, k.modifiedVolumeGroup(id, ids[1]), k.modifiedVolumeGroup(id, ids[1]))
	requireSame(k, k.getVolumeGroup("c1", id), k.getVolumeGroup("c1", id))
	requireSame(k, k.listVolumeGroups(0, ""), k.listVolumeGroups(0, ""))
	k.modifiedVolumeGroup(id)
	for range 2 {
		k.untilOK(func() error { return k.deleteVolumeGroup(id) })
	}
	k.requireAlive(ids...)
}

// badParameter: a parameter that nobody knows makes no group.
func badParameter(k *fixture) {
	before, name := k.listedVolumeGroups(), k.env.Name("set")
	for range 2 {
		requireRefused(k.t, k.createVolumeGroup(&createGroupRequest{Name: name, Parameters: map[string]string{"colour": "blue"}}), codes.InvalidArgument)
	}
	require.Len(k.t, k.listedVolumeGroups(), len(before))
	k.volumeGroupFrom(&createGroupRequest{Name: name, Parameters: map[string]string{"csi.storage.k8s.io/pv/name": "pv"}})
}

// otherMembers: what a group is are its volumes, so the same name with others is incompatible.
func otherMembers(k *fixture) {
	ids, name := k.volumes(3), k.env.Name("set")
	g := k.volumeGroupFrom(&createGroupRequest{Name: name, VolumeIds: ids[:2]})
	for _, other := range [][]string{ids, ids[:1], ids[1:], nil} {
		requireRefused(k.t, k.createVolumeGroup(&createGroupRequest{Name: name, VolumeIds: other}), codes.AlreadyExists)
	}
	requireSame(k, g, k.volumeGroupAgain("c2", &createGroupRequest{Name: name, VolumeIds: []string{ids[1], ids[0]}}))
	k.requireMembers(g, ids[:2]...)
}

// deletionOfMembers: the volumes are deleted with their group, and kept where that is advertised.
func deletionOfMembers(k *fixture) {
	ids := k.volumes(3)
	id := k.volumeGroup(ids...).GetVolumeGroupId()
	keeps := addonsHas(groupCapability(identity.Capability_VolumeGroup_DO_NOT_ALLOW_VG_TO_DELETE_VOLUMES))
	require.False(k.t, keeps(k, k.env.Conn(k.t, "c1")))
	k.untilOK(func() error { return k.deleteVolumeGroup(id) })
	requireRefused(k.t, volumeGroupNamed(k, id), codes.NotFound)
	k.requireGone(ids...)

	require.True(k.t, keeps(k, k.configuredConn("c1")))
	kept, volumes := k.configuredGroup(2, 0)
	groups, ctl := volumegroup.NewControllerClient(k.configuredConn("c1")), csi.NewControllerClient(k.configuredConn("c1"))
	for range 2 {
		_, err := groups.DeleteVolumeGroup(k.ctx, &deleteGroupRequest{VolumeGroupId: kept, Secrets: withToken()})
		requireRefused(k.t, err, codes.FailedPrecondition)
	}
	for _, id := range volumes {
		_, err := ctl.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
		require.NoError(k.t, err)
	}
	require.NoError(k.t, retried(k.ctx, func(ctx context.Context) error { return dissolve(ctx, groups, kept, withToken()) }))
	_, err := groups.ControllerGetVolumeGroup(k.ctx, &getGroupRequest{VolumeGroupId: kept, Secrets: withToken()})
	requireRefused(k.t, err, codes.NotFound)
}

// published: a group of which a volume is published is not deleted, nor is anything of it.
func published(k *fixture) {
	ids := k.volumes(2)
	g := k.volumeGroup(ids...)
	used := &harness.Volume{ID: ids[1], FSType: "ext4"}
	require.NoError(k.t, k.env.CO.Publish(k.ctx, used, "n1"))
	k.cleanUpWith(func(ctx context.Context) error { return k.env.CO.Unpublish(ctx, used) })
	for range 2 {
		requireRefused(k.t, k.deleteVolumeGroup(g.GetVolumeGroupId()), codes.FailedPrecondition)
	}
	k.requireMembers(g, ids...)
	k.requireAlive(ids...)
}

// withSnapshot: nor is one of which a volume has a snapshot.
func withSnapshot(k *fixture) {
	ids := k.volumes(2)
	g := k.volumeGroup(ids...)
	snapshot := k.snapshot(ids[1]).GetSnapshotId()
	for range 2 {
		requireRefused(k.t, k.deleteVolumeGroup(g.GetVolumeGroupId()), codes.FailedPrecondition)
	}
	k.requireMembers(g, ids...)
	k.requireAlive(ids...)
	k.untilOK(func() error { return k.deleteSnapshot(&csi.DeleteSnapshotRequest{SnapshotId: snapshot}) })
	k.untilOK(func() error { return k.deleteVolumeGroup(g.GetVolumeGroupId()) })
	k.requireGone(ids...)
}

// volumeGroupIsMadeOnce calls at all controllers at once, and again after the leader died: there is one group.
func volumeGroupIsMadeOnce(k *fixture) {
	ids := k.volumes(2)
	req := &createGroupRequest{Name: k.env.Name("set"), VolumeIds: ids}
	var mu sync.Mutex
	told := map[string]bool{}
	inParallel(8, func(i int) {
		res, err := k.volumeGroupsAt(everyone[i%3]).CreateVolumeGroup(k.ctx, req)
		mu.Lock()
		defer mu.Unlock()
		if ignoreCode(err, codes.Aborted) != nil {
			k.t.Errorf("one of several equal calls: %v", err)
		} else if err == nil {
			told[res.GetVolumeGroup().GetVolumeGroupId()] = true
		}
	})
	g := k.volumeGroupFrom(req)
	told[g.GetVolumeGroupId()] = true
	require.Len(k.t, told, 1)
	k.failover()
	for _, id := range []string{"c1", "c2", "c3"} {
		requireSame(k, g, k.volumeGroupAgain(id, req))
	}
	k.requireMembers(g, ids...)
}
