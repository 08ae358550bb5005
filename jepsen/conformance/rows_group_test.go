package conformance

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

var groupRows = map[string]rowTest{
	"CSI-GRP-GroupControllerGetCapabilities-01": with(func(k *kit) {
		_, err := k.groups.GroupControllerGetCapabilities(k.ctx, &csi.GroupControllerGetCapabilitiesRequest{})
		require.NoError(k.t, err)
	}),
	"CSI-GRP-GroupControllerGetCapabilities-02": with(func(k *kit) {
		for _, call := range []func(*kit, *grpc.ClientConn) error{createNoGroup, deleteNoGroup, getNoGroup} {
			servedIff(groupHas, call)(k.t, k.w)
		}
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-01": servedIff(groupHas, createNoGroup),
	"CSI-GRP-DeleteVolumeGroupSnapshot-01": servedIff(groupHas, deleteNoGroup),
	"CSI-GRP-GetVolumeGroupSnapshot-01":    servedIff(groupHas, getNoGroup),

	"CSI-GRP-CreateVolumeGroupSnapshot-04": with(groupIsMadeOnce),
	"CSI-GRP-CreateVolumeGroupSnapshot-05": with(func(k *kit) {
		sources := k.volumes(2)
		first := k.cutGroup(k.w.Name("group"), sources)
		require.Len(k.t, k.cutsOf(sources), 2)
		got, err := k.getGroup(first.GetGroupSnapshotId(), memberIDs(first))
		require.NoError(k.t, err)
		requireSame(k, first, got)
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-08": with(func(k *kit) {
		for _, member := range k.group(3).GetSnapshots() {
			require.NotEmpty(k.t, k.restore(member.GetSnapshotId()).ID)
		}
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-09": refuses(codes.InvalidArgument, func(k *kit) error {
		return k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{SourceVolumeIds: k.volumes(1)})
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-10": with(func(k *kit) {
		source := k.volumes(1)
		for _, bad := range []string{"a\x00b", "a\x0bb", "a\x1fb", "a\x7fb", "a\u009fb", strings.Repeat("n", 129)} {
			refused(k.t, k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: bad, SourceVolumeIds: source}), codes.InvalidArgument)
		}
		longest := strings.Repeat("g", 128)
		require.Equal(k.t, 1, len(k.cutGroup(longest, source).GetSnapshots()))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-11": with(func(k *kit) {
		one := k.volumes(1)[0]
		for _, bad := range [][]string{nil, {one, one}, {one, ""}, {""}} {
			refused(k.t, k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: k.w.Name("group"), SourceVolumeIds: bad}), codes.InvalidArgument)
		}
		require.Empty(k.t, k.cutsOf([]string{one}))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-12": with(func(k *kit) {
		sources := k.volumes(2)
		with := append(slices.Clone(sources), unknownVolumeID)
		refused(k.t, k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: k.w.Name("group"), SourceVolumeIds: with}), codes.NotFound)
		require.Empty(k.t, k.cutsOf(sources))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-13": with(func(k *kit) {
		req := &csi.CreateVolumeGroupSnapshotRequest{Name: k.w.Name("group"), SourceVolumeIds: k.volumes(1), Parameters: map[string]string{"colour": "blue"}}
		refused(k.t, k.createGroup(req), codes.InvalidArgument)
		require.Empty(k.t, k.cutsOf(req.GetSourceVolumeIds()))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-14": with(func(k *kit) {
		sources := k.volumes(1)
		req := &csi.CreateVolumeGroupSnapshotRequest{Name: k.w.Name("group"), SourceVolumeIds: sources, Secrets: map[string]string{"user": "u"}}
		first, err := k.groups.CreateVolumeGroupSnapshot(k.ctx, req)
		require.NoError(k.t, err)
		k.dropGroup(first.GetGroupSnapshot())
		requireSame(k, first.GetGroupSnapshot(), k.cutGroup(req.GetName(), sources))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-15": with(func(k *kit) {
		one, two := k.group(1), k.group(1)
		require.NotEmpty(k.t, one.GetGroupSnapshotId())
		require.NotEqual(k.t, one.GetGroupSnapshotId(), two.GetGroupSnapshotId())
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-16": with(func(k *kit) {
		sources := k.volumes(3)
		var cut []string
		for _, s := range k.cutGroup(k.w.Name("group"), sources).GetSnapshots() {
			require.NotEmpty(k.t, s.GetSnapshotId())
			cut = append(cut, s.GetSourceVolumeId())
		}
		require.ElementsMatch(k.t, sources, cut)
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-17": with(func(k *kit) {
		before := time.Now().Add(-time.Second)
		g := k.group(1)
		require.WithinRange(k.t, g.GetCreationTime().AsTime(), before, time.Now().Add(time.Second))
		again, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
		require.NoError(k.t, err)
		require.Equal(k.t, g.GetCreationTime().AsTime(), again.GetCreationTime().AsTime())
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-19": with(func(k *kit) {
		g := k.group(2)
		for _, s := range g.GetSnapshots() {
			require.True(k.t, s.GetReadyToUse())
		}
		require.True(k.t, g.GetReadyToUse())
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-20": with(func(k *kit) {
		g := k.group(2)
		for _, s := range g.GetSnapshots() {
			require.Equal(k.t, g.GetGroupSnapshotId(), s.GetGroupSnapshotId())
		}
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-21": with(func(k *kit) {
		sources, name := k.volumes(3), k.w.Name("group")
		k.cutGroup(name, sources[:2])
		for _, other := range [][]string{sources, sources[:1], sources[1:]} {
			refused(k.t, k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: name, SourceVolumeIds: other}), codes.AlreadyExists)
		}
		require.Len(k.t, k.cutsOf(sources), 2)
	}),

	"CSI-GRP-DeleteVolumeGroupSnapshot-02": with(func(k *kit) {
		g := k.group(2)
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...))
		for _, s := range g.GetSnapshots() {
			require.Empty(k.t, k.cutsOf([]string{s.GetSourceVolumeId()}))
		}
		_, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
		refused(k.t, err, codes.NotFound)
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-03": with(func(k *kit) {
		g := k.group(1)
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...))
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...))
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId()))
		require.NoError(k.t, k.deleteGroup(unknownGroupID))
		require.NoError(k.t, k.deleteGroup("of another form", "x"))
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-04": refuses(codes.InvalidArgument, func(k *kit) error {
		return k.deleteGroup("", unknownSnapshotID)
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-05": with(func(k *kit) {
		g := k.group(1)
		refused(k.t, k.deleteGroup(g.GetGroupSnapshotId()), codes.InvalidArgument)
		require.Len(k.t, k.cutsOf([]string{g.GetSnapshots()[0].GetSourceVolumeId()}), 1)
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-06": with(deleteMismatch(func(own []string, foreign string) []string { return own[:1] })),
	"CSI-GRP-DeleteVolumeGroupSnapshot-09": with(deleteMismatch(func(own []string, foreign string) []string { return []string{own[0], foreign} })),
	"CSI-GRP-DeleteVolumeGroupSnapshot-11": with(deleteMismatch(func(own []string, foreign string) []string { return append(own, unknownSnapshotID) })),
	"CSI-GRP-DeleteVolumeGroupSnapshot-08": with(func(k *kit) {
		g := k.group(3)
		brief, cancel := context.WithTimeout(k.ctx, 2*time.Millisecond)
		defer cancel()
		_, _ = k.groups.DeleteVolumeGroupSnapshot(brief, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId(), SnapshotIds: memberIDs(g)}) // whatever it answered
		k.done(func() error { return k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...) })
		for _, s := range g.GetSnapshots() {
			require.Empty(k.t, k.cutsOf([]string{s.GetSourceVolumeId()}))
		}
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-10": with(func(k *kit) {
		g := k.group(1)
		_, err := k.groups.DeleteVolumeGroupSnapshot(k.ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId(),
			SnapshotIds: memberIDs(g), Secrets: map[string]string{"user": "u"}})
		require.NoError(k.t, err)
		other := k.group(1)
		require.NoError(k.t, k.deleteGroup(other.GetGroupSnapshotId(), memberIDs(other)...))
	}),

	"CSI-GRP-GetVolumeGroupSnapshot-02": refuses(codes.InvalidArgument, func(k *kit) error {
		_, err := k.getGroup("", []string{unknownSnapshotID})
		return err
	}),
	"CSI-GRP-GetVolumeGroupSnapshot-03": with(func(k *kit) {
		_, err := k.getGroup(k.group(1).GetGroupSnapshotId(), nil)
		refused(k.t, err, codes.InvalidArgument)
	}),
	"CSI-GRP-GetVolumeGroupSnapshot-04": with(func(k *kit) {
		for _, id := range []string{unknownGroupID, "of another form"} {
			for _, list := range [][]string{nil, {unknownSnapshotID}} {
				_, err := k.getGroup(id, list)
				refused(k.t, err, codes.NotFound)
			}
		}
	}),
	"CSI-GRP-GetVolumeGroupSnapshot-05": with(getMismatch(func(own []string, foreign string) []string { return append(own, foreign) })),
	"CSI-GRP-GetVolumeGroupSnapshot-08": with(getMismatch(func(own []string, foreign string) []string { return []string{own[0], foreign} })),
	"CSI-GRP-GetVolumeGroupSnapshot-09": with(getMismatch(func(own []string, foreign string) []string { return own[:1] })),
	"CSI-GRP-GetVolumeGroupSnapshot-06": with(func(k *kit) {
		g := k.group(2)
		got, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
		require.NoError(k.t, err)
		requireSame(k, g, got)
		require.True(k.t, got.GetReadyToUse())
	}),
}

func groupHas(k *kit, conn *grpc.ClientConn) bool {
	res, err := csi.NewGroupControllerClient(conn).GroupControllerGetCapabilities(k.ctx, &csi.GroupControllerGetCapabilitiesRequest{})
	require.NoError(k.t, orUnimplemented(err))
	for _, c := range res.GetCapabilities() {
		if c.GetRpc().GetType() == csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT {
			return true
		}
	}
	return false
}

// createNoGroup asks for a group of a volume that does not exist: that NOT_FOUND is the answer of one who serves.
func createNoGroup(k *kit, conn *grpc.ClientConn) error {
	_, err := csi.NewGroupControllerClient(conn).CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{
		Name: k.w.Name("group"), SourceVolumeIds: []string{unknownVolumeID}})
	return but(err, codes.NotFound)
}

func deleteNoGroup(k *kit, conn *grpc.ClientConn) error {
	_, err := csi.NewGroupControllerClient(conn).DeleteVolumeGroupSnapshot(k.ctx, &csi.DeleteVolumeGroupSnapshotRequest{
		GroupSnapshotId: unknownGroupID, SnapshotIds: []string{unknownSnapshotID}})
	return err
}

func getNoGroup(k *kit, conn *grpc.ClientConn) error {
	_, err := csi.NewGroupControllerClient(conn).GetVolumeGroupSnapshot(k.ctx, &csi.GetVolumeGroupSnapshotRequest{
		GroupSnapshotId: unknownGroupID, SnapshotIds: []string{unknownSnapshotID}})
	return but(err, codes.NotFound)
}

func (k *kit) createGroup(req *csi.CreateVolumeGroupSnapshotRequest) error {
	_, err := k.groups.CreateVolumeGroupSnapshot(k.ctx, req)
	return err
}

func (k *kit) deleteGroup(id string, members ...string) error {
	_, err := k.groups.DeleteVolumeGroupSnapshot(k.ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: members})
	return err
}

func (k *kit) getGroup(id string, members []string) (*csi.VolumeGroupSnapshot, error) {
	res, err := k.groups.GetVolumeGroupSnapshot(k.ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: members})
	return res.GetGroupSnapshot(), err
}

// groupIsMadeOnce asks eight times at once, of all controllers, in two orders.
func groupIsMadeOnce(k *kit) {
	sources, name := k.volumes(3), k.w.Name("group")
	turned := slices.Clone(sources)
	slices.Reverse(turned)
	var mu sync.Mutex
	var got []*csi.VolumeGroupSnapshot
	atOnce(8, func(i int) {
		conn := k.w.Conn(k.t, []string{"c1", "c2", "c3"}[i%3])
		res, err := csi.NewGroupControllerClient(conn).CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{
			Name: name, SourceVolumeIds: [][]string{sources, turned}[i%2]})
		mu.Lock()
		defer mu.Unlock()
		if but(err, codes.Aborted) != nil {
			k.t.Errorf("one of several equal calls: %v", err)
		} else if err == nil {
			got = append(got, res.GetGroupSnapshot())
		}
	})
	one := k.cutGroup(name, turned)
	for _, g := range got {
		requireSame(k, one, g)
	}
	require.Len(k.t, k.cutsOf(sources), 3)
}

// deleteMismatch deletes with a list that is not the group's: nothing is deleted.
func deleteMismatch(list func(own []string, foreign string) []string) func(*kit) {
	return func(k *kit) {
		g, foreign := k.group(2), k.group(1)
		asked := list(memberIDs(g), memberIDs(foreign)[0])
		refused(k.t, k.deleteGroup(g.GetGroupSnapshotId(), asked...), codes.InvalidArgument)
		_, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
		require.NoError(k.t, err)
	}
}

func getMismatch(list func(own []string, foreign string) []string) func(*kit) {
	return func(k *kit) {
		g, foreign := k.group(2), k.group(1)
		got, err := k.getGroup(g.GetGroupSnapshotId(), list(memberIDs(g), memberIDs(foreign)[0]))
		refused(k.t, err, codes.InvalidArgument)
		require.Nil(k.t, got)
	}
}
