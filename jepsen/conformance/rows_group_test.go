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
	"CSI-GRP-GroupControllerGetCapabilities-01": rowOf(func(k *fixture) {
		_, err := k.groups.GroupControllerGetCapabilities(k.ctx, &csi.GroupControllerGetCapabilitiesRequest{})
		require.NoError(k.t, err)
	}),
	"CSI-GRP-GroupControllerGetCapabilities-02": rowOf(func(k *fixture) {
		for _, call := range []func(*fixture, *grpc.ClientConn) error{createNoGroup, deleteNoGroup, getNoGroup} {
			rowServedIff(groupHas, call)(k.t, k.env)
		}
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-01": rowServedIff(groupHas, createNoGroup),
	"CSI-GRP-DeleteVolumeGroupSnapshot-01": rowServedIff(groupHas, deleteNoGroup),
	"CSI-GRP-GetVolumeGroupSnapshot-01":    rowServedIff(groupHas, getNoGroup),

	"CSI-GRP-CreateVolumeGroupSnapshot-04": rowOf(groupIsMadeOnce),
	"CSI-GRP-CreateVolumeGroupSnapshot-05": rowOf(func(k *fixture) {
		sources := k.volumes(2)
		first := k.snapshotGroup(k.env.Name("group"), sources)
		require.Len(k.t, k.snapshotsOf(sources), 2)
		got, err := k.getGroup(first.GetGroupSnapshotId(), memberIDs(first))
		require.NoError(k.t, err)
		requireSame(k, first, got)
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-08": rowOf(func(k *fixture) {
		for _, member := range k.group(3).GetSnapshots() {
			require.NotEmpty(k.t, k.restore(member.GetSnapshotId()).ID)
		}
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-09": rowRefused(codes.InvalidArgument, func(k *fixture) error {
		return k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{SourceVolumeIds: k.volumes(1)})
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-10": rowOf(func(k *fixture) {
		source := k.volumes(1)
		for _, bad := range []string{"a\x00b", "a\x0bb", "a\x1fb", "a\x7fb", "a\u009fb", strings.Repeat("n", 129)} {
			requireRefused(k.t, k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: bad, SourceVolumeIds: source}), codes.InvalidArgument)
		}
		longest := strings.Repeat("g", 128)
		require.Equal(k.t, 1, len(k.snapshotGroup(longest, source).GetSnapshots()))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-11": rowOf(func(k *fixture) {
		one := k.volumes(1)[0]
		for _, bad := range [][]string{nil, {one, one}, {one, ""}, {""}} {
			requireRefused(k.t, k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: k.env.Name("group"), SourceVolumeIds: bad}), codes.InvalidArgument)
		}
		require.Empty(k.t, k.snapshotsOf([]string{one}))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-12": rowOf(func(k *fixture) {
		sources := k.volumes(2)
		with := append(slices.Clone(sources), unknownVolumeID)
		requireRefused(k.t, k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: k.env.Name("group"), SourceVolumeIds: with}), codes.NotFound)
		require.Empty(k.t, k.snapshotsOf(sources))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-13": rowOf(func(k *fixture) {
		req := &csi.CreateVolumeGroupSnapshotRequest{Name: k.env.Name("group"), SourceVolumeIds: k.volumes(1), Parameters: map[string]string{"colour": "blue"}}
		requireRefused(k.t, k.createGroup(req), codes.InvalidArgument)
		require.Empty(k.t, k.snapshotsOf(req.GetSourceVolumeIds()))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-14": rowOf(func(k *fixture) {
		sources := k.volumes(1)
		req := &csi.CreateVolumeGroupSnapshotRequest{Name: k.env.Name("group"), SourceVolumeIds: sources, Secrets: map[string]string{"user": "u"}}
		first, err := k.groups.CreateVolumeGroupSnapshot(k.ctx, req)
		require.NoError(k.t, err)
		k.deleteGroupLater(first.GetGroupSnapshot())
		requireSame(k, first.GetGroupSnapshot(), k.snapshotGroup(req.GetName(), sources))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-15": rowOf(func(k *fixture) {
		one, two := k.group(1), k.group(1)
		require.NotEmpty(k.t, one.GetGroupSnapshotId())
		require.NotEqual(k.t, one.GetGroupSnapshotId(), two.GetGroupSnapshotId())
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-16": rowOf(func(k *fixture) {
		sources := k.volumes(3)
		var snapshot []string
		for _, s := range k.snapshotGroup(k.env.Name("group"), sources).GetSnapshots() {
			require.NotEmpty(k.t, s.GetSnapshotId())
			snapshot = append(snapshot, s.GetSourceVolumeId())
		}
		require.ElementsMatch(k.t, sources, snapshot)
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-17": rowOf(func(k *fixture) {
		before := time.Now().Add(-time.Second)
		g := k.group(1)
		require.WithinRange(k.t, g.GetCreationTime().AsTime(), before, time.Now().Add(time.Second))
		again, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
		require.NoError(k.t, err)
		require.Equal(k.t, g.GetCreationTime().AsTime(), again.GetCreationTime().AsTime())
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-19": rowOf(func(k *fixture) {
		g := k.group(2)
		for _, s := range g.GetSnapshots() {
			require.True(k.t, s.GetReadyToUse())
		}
		require.True(k.t, g.GetReadyToUse())
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-20": rowOf(func(k *fixture) {
		g := k.group(2)
		for _, s := range g.GetSnapshots() {
			require.Equal(k.t, g.GetGroupSnapshotId(), s.GetGroupSnapshotId())
		}
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-21": rowOf(func(k *fixture) {
		sources, name := k.volumes(3), k.env.Name("group")
		k.snapshotGroup(name, sources[:2])
		for _, other := range [][]string{sources, sources[:1], sources[1:]} {
			requireRefused(k.t, k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: name, SourceVolumeIds: other}), codes.AlreadyExists)
		}
		require.Len(k.t, k.snapshotsOf(sources), 2)
	}),

	"CSI-GRP-DeleteVolumeGroupSnapshot-02": rowOf(func(k *fixture) {
		g := k.group(2)
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...))
		for _, s := range g.GetSnapshots() {
			require.Empty(k.t, k.snapshotsOf([]string{s.GetSourceVolumeId()}))
		}
		_, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
		requireRefused(k.t, err, codes.NotFound)
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-03": rowOf(func(k *fixture) {
		g := k.group(1)
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...))
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...))
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId()))
		require.NoError(k.t, k.deleteGroup(unknownGroupID))
		require.NoError(k.t, k.deleteGroup("of another form", "x"))
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-04": rowRefused(codes.InvalidArgument, func(k *fixture) error {
		return k.deleteGroup("", unknownSnapshotID)
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-05": rowOf(func(k *fixture) {
		g := k.group(1)
		requireRefused(k.t, k.deleteGroup(g.GetGroupSnapshotId()), codes.InvalidArgument)
		require.Len(k.t, k.snapshotsOf([]string{g.GetSnapshots()[0].GetSourceVolumeId()}), 1)
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-06": rowOf(deleteMismatch(func(own []string, foreign string) []string { return own[:1] })),
	"CSI-GRP-DeleteVolumeGroupSnapshot-09": rowOf(deleteMismatch(func(own []string, foreign string) []string { return []string{own[0], foreign} })),
	"CSI-GRP-DeleteVolumeGroupSnapshot-11": rowOf(deleteMismatch(func(own []string, foreign string) []string { return append(own, unknownSnapshotID) })),
	"CSI-GRP-DeleteVolumeGroupSnapshot-08": rowOf(func(k *fixture) {
		g := k.group(3)
		brief, cancel := context.WithTimeout(k.ctx, 2*time.Millisecond)
		defer cancel()
		_, _ = k.groups.DeleteVolumeGroupSnapshot(brief, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId(), SnapshotIds: memberIDs(g)}) // whatever it answered
		k.untilOK(func() error { return k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...) })
		for _, s := range g.GetSnapshots() {
			require.Empty(k.t, k.snapshotsOf([]string{s.GetSourceVolumeId()}))
		}
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-10": rowOf(func(k *fixture) {
		g := k.group(1)
		_, err := k.groups.DeleteVolumeGroupSnapshot(k.ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId(),
			SnapshotIds: memberIDs(g), Secrets: map[string]string{"user": "u"}})
		require.NoError(k.t, err)
		other := k.group(1)
		require.NoError(k.t, k.deleteGroup(other.GetGroupSnapshotId(), memberIDs(other)...))
	}),

	"CSI-GRP-GetVolumeGroupSnapshot-02": rowRefused(codes.InvalidArgument, func(k *fixture) error {
		_, err := k.getGroup("", []string{unknownSnapshotID})
		return err
	}),
	"CSI-GRP-GetVolumeGroupSnapshot-03": rowOf(func(k *fixture) {
		_, err := k.getGroup(k.group(1).GetGroupSnapshotId(), nil)
		requireRefused(k.t, err, codes.InvalidArgument)
	}),
	"CSI-GRP-GetVolumeGroupSnapshot-04": rowOf(func(k *fixture) {
		for _, id := range []string{unknownGroupID, "of another form"} {
			for _, list := range [][]string{nil, {unknownSnapshotID}} {
				_, err := k.getGroup(id, list)
				requireRefused(k.t, err, codes.NotFound)
			}
		}
	}),
	"CSI-GRP-GetVolumeGroupSnapshot-05": rowOf(getMismatch(func(own []string, foreign string) []string { return append(own, foreign) })),
	"CSI-GRP-GetVolumeGroupSnapshot-08": rowOf(getMismatch(func(own []string, foreign string) []string { return []string{own[0], foreign} })),
	"CSI-GRP-GetVolumeGroupSnapshot-09": rowOf(getMismatch(func(own []string, foreign string) []string { return own[:1] })),
	"CSI-GRP-GetVolumeGroupSnapshot-06": rowOf(func(k *fixture) {
		g := k.group(2)
		got, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
		require.NoError(k.t, err)
		requireSame(k, g, got)
		require.True(k.t, got.GetReadyToUse())
	}),
}

func groupHas(k *fixture, conn *grpc.ClientConn) bool {
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
func createNoGroup(k *fixture, conn *grpc.ClientConn) error {
	_, err := csi.NewGroupControllerClient(conn).CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{
		Name: k.env.Name("group"), SourceVolumeIds: []string{unknownVolumeID}})
	return ignoreCode(err, codes.NotFound)
}

func deleteNoGroup(k *fixture, conn *grpc.ClientConn) error {
	_, err := csi.NewGroupControllerClient(conn).DeleteVolumeGroupSnapshot(k.ctx, &csi.DeleteVolumeGroupSnapshotRequest{
		GroupSnapshotId: unknownGroupID, SnapshotIds: []string{unknownSnapshotID}})
	return err
}

func getNoGroup(k *fixture, conn *grpc.ClientConn) error {
	_, err := csi.NewGroupControllerClient(conn).GetVolumeGroupSnapshot(k.ctx, &csi.GetVolumeGroupSnapshotRequest{
		GroupSnapshotId: unknownGroupID, SnapshotIds: []string{unknownSnapshotID}})
	return ignoreCode(err, codes.NotFound)
}

func (k *fixture) createGroup(req *csi.CreateVolumeGroupSnapshotRequest) error {
	_, err := k.groups.CreateVolumeGroupSnapshot(k.ctx, req)
	return err
}

func (k *fixture) deleteGroup(id string, members ...string) error {
	_, err := k.groups.DeleteVolumeGroupSnapshot(k.ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: members})
	return err
}

func (k *fixture) getGroup(id string, members []string) (*csi.VolumeGroupSnapshot, error) {
	res, err := k.groups.GetVolumeGroupSnapshot(k.ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: members})
	return res.GetGroupSnapshot(), err
}

// groupIsMadeOnce calls eight times concurrently, at all controllers, in two orders.
func groupIsMadeOnce(k *fixture) {
	sources, name := k.volumes(3), k.env.Name("group")
	turned := slices.Clone(sources)
	slices.Reverse(turned)
	var mu sync.Mutex
	var got []*csi.VolumeGroupSnapshot
	inParallel(8, func(i int) {
		conn := k.env.Conn(k.t, []string{"c1", "c2", "c3"}[i%3])
		res, err := csi.NewGroupControllerClient(conn).CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{
			Name: name, SourceVolumeIds: [][]string{sources, turned}[i%2]})
		mu.Lock()
		defer mu.Unlock()
		if ignoreCode(err, codes.Aborted) != nil {
			k.t.Errorf("one of several equal calls: %v", err)
		} else if err == nil {
			got = append(got, res.GetGroupSnapshot())
		}
	})
	one := k.snapshotGroup(name, turned)
	for _, g := range got {
		requireSame(k, one, g)
	}
	require.Len(k.t, k.snapshotsOf(sources), 3)
}

// deleteMismatch deletes with a list that is not the group's: nothing is deleted.
func deleteMismatch(list func(own []string, foreign string) []string) func(*fixture) {
	return func(k *fixture) {
		g, foreign := k.group(2), k.group(1)
		asked := list(memberIDs(g), memberIDs(foreign)[0])
		requireRefused(k.t, k.deleteGroup(g.GetGroupSnapshotId(), asked...), codes.InvalidArgument)
		_, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
		require.NoError(k.t, err)
	}
}

func getMismatch(list func(own []string, foreign string) []string) func(*fixture) {
	return func(k *fixture) {
		g, foreign := k.group(2), k.group(1)
		got, err := k.getGroup(g.GetGroupSnapshotId(), list(memberIDs(g), memberIDs(foreign)[0]))
		requireRefused(k.t, err, codes.InvalidArgument)
		require.Nil(k.t, got)
	}
}
