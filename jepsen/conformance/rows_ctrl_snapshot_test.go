package conformance

import (
	"math"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

type snapshotRequest = csi.CreateSnapshotRequest

func (k *fixture) newSnapshotRequest(source string, changes ...func(r *snapshotRequest)) *snapshotRequest {
	req := &snapshotRequest{Name: k.env.Name("snap"), SourceVolumeId: source}
	for _, c := range changes {
		c(req)
	}
	return req
}

// createSnapshotFrom is the snapshot of a request; it is deleted with the row.
func (k *fixture) createSnapshotFrom(req *snapshotRequest) *csi.Snapshot {
	k.t.Helper()
	var res *csi.CreateSnapshotResponse
	k.untilOK(func() (err error) {
		res, err = k.controller.CreateSnapshot(k.ctx, req)
		return err
	})
	require.NotNil(k.t, res.GetSnapshot())
	k.deleteSnapshotLater(res.GetSnapshot().GetSnapshotId())
	return res.GetSnapshot()
}

// rowSnapshotRejected makes a row: changed requests have a code, and leave no snapshot.
func rowSnapshotRejected(want codes.Code, changes ...func(r *snapshotRequest)) rowTest {
	return rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		for _, c := range changes {
			for range 2 {
				_, err := k.controller.CreateSnapshot(k.ctx, k.newSnapshotRequest(id, c))
				requireRefused(k.t, err, want)
			}
		}
		require.Empty(k.t, k.snapshotsOf([]string{id}))
		k.createSnapshotFrom(k.newSnapshotRequest(id))
	})
}

var createSnapshotRows = map[string]rowTest{
	"CSI-CTRL-CreateSnapshot-02": rowOf(func(k *fixture) {
		req := k.newSnapshotRequest(k.createVolume().GetVolumeId())
		first := k.createSnapshotFrom(req)
		for range 3 {
			requireSame(k, first, k.createSnapshotFrom(proto.Clone(req).(*snapshotRequest)))
		}
		require.Len(k.t, k.snapshotsOf([]string{req.GetSourceVolumeId()}), 1)
	}),
	"CSI-CTRL-CreateSnapshot-03": rowOf(func(k *fixture) {
		v := k.createVolume()
		u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
		require.NoError(k.t, u.write("A"))
		first := k.createSnapshotFrom(k.newSnapshotRequest(v.GetVolumeId()))
		require.NoError(k.t, u.write("B"))
		require.Equal(k.t, "A", k.newMountedUse(k.createVolume(fromSnapshot(first.GetSnapshotId())), mountCapability(writer, "ext4"), false).read())
		require.Equal(k.t, "B", u.read())
	}),
	"CSI-CTRL-CreateSnapshot-07": rowOf(func(k *fixture) {
		require.True(k.t, k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId())).GetReadyToUse())
		require.True(k.t, k.createSnapshotFrom(k.newSnapshotRequest(k.volumeWithText("in it").GetVolumeId())).GetReadyToUse())
	}),
	"CSI-CTRL-CreateSnapshot-09": rowSnapshotRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.SourceVolumeId = "" }),
	"CSI-CTRL-CreateSnapshot-10": rowSnapshotRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.Name = "" }),
	"CSI-CTRL-CreateSnapshot-11": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		for _, c := range controlCharacters() {
			_, err := k.controller.CreateSnapshot(k.ctx, k.newSnapshotRequest(id, func(r *snapshotRequest) { r.Name = "a" + string(c) + "b" }))
			requireRefused(k.t, err, codes.InvalidArgument)
		}
		require.Empty(k.t, k.snapshotsOf([]string{id}))
		k.createSnapshotFrom(k.newSnapshotRequest(id, func(r *snapshotRequest) { r.Name += "\t\r\n" }))
	}),
	"CSI-CTRL-CreateSnapshot-12": rowOf(func(k *fixture) {
		longest := strings.Repeat("s", 128)
		rowSnapshotRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.Name = longest + "s" })(k.t, k.env)
		k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId(), func(r *snapshotRequest) { r.Name = longest }))
	}),
	"CSI-CTRL-CreateSnapshot-13": rowSnapshotRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.Parameters = map[string]string{"colour": "blue"} }),
	"CSI-CTRL-CreateSnapshot-14": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		for _, secrets := range []map[string]string{nil, {"user": "canary"}} {
			require.NotContains(k.t, k.createSnapshotFrom(k.newSnapshotRequest(id, func(r *snapshotRequest) { r.Secrets = secrets })).String(), "canary")
		}
		rowSnapshotRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.Secrets = map[string]string{"a b": "x"} })(k.t, k.env)
	}),
	"CSI-CTRL-CreateSnapshot-15": rowSnapshotRejected(codes.NotFound, func(r *snapshotRequest) { r.SourceVolumeId = unknownVolumeID }, func(r *snapshotRequest) { r.SourceVolumeId = "x" }),
	"CSI-CTRL-CreateSnapshot-16": rowOf(func(k *fixture) {
		req := k.newSnapshotRequest(k.createVolume().GetVolumeId())
		first := k.createSnapshotFrom(req)
		other := k.newSnapshotRequest(k.createVolume().GetVolumeId(), func(r *snapshotRequest) { r.Name = req.GetName() })
		for range 2 {
			_, err := k.controller.CreateSnapshot(k.ctx, other)
			requireRefused(k.t, err, codes.AlreadyExists)
		}
		require.Empty(k.t, k.snapshotsOf([]string{other.GetSourceVolumeId()}))
		requireSame(k, first, k.createSnapshotFrom(req))
	}),
	"CSI-CTRL-CreateSnapshot-18": rowOf(func(k *fixture) {
		id := k.createVolume(withTopology(nodeTerms("n2"), nil), withSize(1<<30, 0)).GetVolumeId()
		k.fillNode()
		for range 2 {
			_, err := k.controller.CreateSnapshot(k.ctx, k.newSnapshotRequest(id))
			requireRefused(k.t, err, codes.ResourceExhausted)
		}
		require.Empty(k.t, k.snapshotsOf([]string{id}))
	}),
	"CSI-CTRL-CreateSnapshot-19": rowOf(func(k *fixture) {
		snapshot := k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId()))
		require.EqualValues(k.t, 16*harness.Mi, snapshot.GetSizeBytes())
		k.requireCreateRejected(codes.OutOfRange, k.newCreateRequest(fromSnapshot(snapshot.GetSnapshotId()), withSize(0, snapshot.GetSizeBytes()-1)))
		k.createVolume(fromSnapshot(snapshot.GetSnapshotId()), withSize(0, snapshot.GetSizeBytes()))
	}),
	"CSI-CTRL-CreateSnapshot-20": rowOf(func(k *fixture) {
		id, seen := k.createVolume().GetVolumeId(), map[string]bool{}
		for range 4 {
			snapshot := k.createSnapshotFrom(k.newSnapshotRequest(id)).GetSnapshotId()
			require.NotEmpty(k.t, snapshot)
			require.LessOrEqual(k.t, len(snapshot), 128)
			require.False(k.t, seen[snapshot])
			seen[snapshot] = true
		}
	}),
	"CSI-CTRL-CreateSnapshot-21": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		snapshot := k.createSnapshotFrom(k.newSnapshotRequest(id))
		require.Equal(k.t, id, snapshot.GetSourceVolumeId())
		require.Equal(k.t, []string{snapshot.GetSnapshotId()}, k.snapshotsOf([]string{id}))
	}),
	"CSI-CTRL-CreateSnapshot-23": rowOf(func(k *fixture) {
		snapshot := k.createSnapshotFrom(k.newSnapshotRequest(k.volumeWithText("of use").GetVolumeId()))
		require.True(k.t, snapshot.GetReadyToUse())
		require.Equal(k.t, "of use", k.newMountedUse(k.createVolume(fromSnapshot(snapshot.GetSnapshotId())), mountCapability(writer, "ext4"), false).read())
	}),
	"CSI-CTRL-CreateSnapshot-24": rowOf(func(k *fixture) {
		g := k.group(2)
		for _, s := range g.GetSnapshots() {
			require.Equal(k.t, g.GetGroupSnapshotId(), s.GetGroupSnapshotId())
			require.Equal(k.t, g.GetGroupSnapshotId(), k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: s.GetSnapshotId()})[0].GetGroupSnapshotId())
		}
	}),
	"CSI-CTRL-CreateSnapshot-25": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		snapshot := k.createSnapshotFrom(k.newSnapshotRequest(id))
		require.Empty(k.t, snapshot.GetGroupSnapshotId())
		require.NoError(k.t, k.deleteSnapshot(&csi.DeleteSnapshotRequest{SnapshotId: snapshot.GetSnapshotId()}))
		require.Empty(k.t, k.snapshotsOf([]string{id}))
	}),
}

func (k *fixture) deleteSnapshot(req *csi.DeleteSnapshotRequest) error {
	_, err := k.controller.DeleteSnapshot(k.ctx, req)
	return err
}

// listedSnapshots is one page of ListSnapshots.
func (k *fixture) listedSnapshots(req *csi.ListSnapshotsRequest) []*csi.Snapshot {
	k.t.Helper()
	res, err := k.controller.ListSnapshots(k.ctx, req)
	require.NoError(k.t, err)
	var all []*csi.Snapshot
	for _, e := range res.GetEntries() {
		all = append(all, e.GetSnapshot())
	}
	return all
}

var deleteSnapshotRows = map[string]rowTest{
	"CSI-CTRL-DeleteSnapshot-02": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.deleteSnapshot(&csi.DeleteSnapshotRequest{}) }),
	"CSI-CTRL-DeleteSnapshot-03": rowOf(func(k *fixture) {
		source := k.createVolume().GetVolumeId()
		id := k.createSnapshotFrom(k.newSnapshotRequest(source)).GetSnapshotId()
		for _, gone := range []string{id, id, unknownSnapshotID, "x", "../..", strings.Repeat("i", 128)} {
			require.NoError(k.t, k.deleteSnapshot(&csi.DeleteSnapshotRequest{SnapshotId: gone}))
		}
		require.Empty(k.t, k.snapshotsOf([]string{source}))
	}),
	"CSI-CTRL-DeleteSnapshot-04": rowOf(func(k *fixture) {
		for _, s := range k.group(2).GetSnapshots() {
			for range 2 {
				requireRefused(k.t, k.deleteSnapshot(&csi.DeleteSnapshotRequest{SnapshotId: s.GetSnapshotId()}), codes.InvalidArgument)
			}
			require.Len(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: s.GetSnapshotId()}), 1)
		}
	}),
	"CSI-CTRL-DeleteSnapshot-08": rowOf(func(k *fixture) {
		g := k.group(2)
		_, err := k.groups.DeleteVolumeGroupSnapshot(k.ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId(), SnapshotIds: memberIDs(g)})
		require.NoError(k.t, err)
		for _, id := range memberIDs(g) {
			require.Empty(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id}))
		}
	}),
	"CSI-CTRL-DeleteSnapshot-09": rowOf(func(k *fixture) {
		source := k.createVolume().GetVolumeId()
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			id := k.createSnapshotFrom(k.newSnapshotRequest(source)).GetSnapshotId()
			require.NoError(k.t, k.deleteSnapshot(&csi.DeleteSnapshotRequest{SnapshotId: id, Secrets: secrets}))
			require.Empty(k.t, k.snapshotsOf([]string{source}))
		}
	}),
}

var listSnapshotsRows = map[string]rowTest{
	"CSI-CTRL-ListSnapshots-02": rowOf(func(k *fixture) {
		own := append(k.someSnapshots(), memberIDs(k.group(2))...)
		require.Subset(k.t, k.allPages(k.snapshotListing, 100), own)
		v := k.createVolume(fromSnapshot(own[0]))
		last := k.createSnapshotFrom(k.newSnapshotRequest(v.GetVolumeId())).GetSnapshotId()
		require.Contains(k.t, k.allPages(k.snapshotListing, 100), last)
	}),
	"CSI-CTRL-ListSnapshots-04": rowOf(func(k *fixture) { k.requirePagesComplete(k.snapshotListing, k.someSnapshots()) }),
	"CSI-CTRL-ListSnapshots-05": rowOf(func(k *fixture) { k.requirePagesComplete(k.snapshotListing, k.someSnapshots()) }),
	"CSI-CTRL-ListSnapshots-06": rowRefused(codes.InvalidArgument, func(k *fixture) error {
		_, _, err := k.snapshotListing(k.controller, math.MinInt32, "")
		return err
	}),
	"CSI-CTRL-ListSnapshots-07": rowOf(func(k *fixture) {
		one, two := k.createVolume().GetVolumeId(), k.createVolume().GetVolumeId()
		snapshot := k.createSnapshotFrom(k.newSnapshotRequest(one))
		k.createSnapshotFrom(k.newSnapshotRequest(two))
		only := k.listedSnapshots(&csi.ListSnapshotsRequest{SourceVolumeId: one})
		require.Len(k.t, only, 1)
		requireSame(k, snapshot, only[0])
		for _, unknown := range []string{unknownVolumeID, "x"} {
			require.Empty(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SourceVolumeId: unknown}))
		}
	}),
	"CSI-CTRL-ListSnapshots-08": rowOf(func(k *fixture) {
		source := k.createVolume().GetVolumeId()
		snapshot := k.createSnapshotFrom(k.newSnapshotRequest(source))
		k.createSnapshotFrom(k.newSnapshotRequest(source))
		only := k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: snapshot.GetSnapshotId()})
		require.Len(k.t, only, 1)
		requireSame(k, snapshot, only[0])
		for _, unknown := range []string{unknownSnapshotID, "x"} {
			require.Empty(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: unknown}))
		}
	}),
	"CSI-CTRL-ListSnapshots-09": rowOf(func(k *fixture) {
		one, two := k.createVolume().GetVolumeId(), k.createVolume().GetVolumeId()
		id := k.createSnapshotFrom(k.newSnapshotRequest(one)).GetSnapshotId()
		k.createSnapshotFrom(k.newSnapshotRequest(two))
		require.Len(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id, SourceVolumeId: one}), 1)
		require.Empty(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id, SourceVolumeId: two}))
	}),
	"CSI-CTRL-ListSnapshots-11": rowOf(func(k *fixture) {
		id := k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId())).GetSnapshotId()
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			require.Len(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id, Secrets: secrets}), 1)
		}
	}),
	"CSI-CTRL-ListSnapshots-12": rowOf(func(k *fixture) {
		k.someSnapshots()
		k.someVolumes()
		k.requireBadTokens(k.snapshotListing, k.tokenOf(k.volumeListing))
	}),
	"CSI-CTRL-ListSnapshots-13": rowOf(func(k *fixture) {
		k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId(), func(r *snapshotRequest) { r.Name = strings.Repeat("t", 128) }))
		k.someSnapshots()
		k.allPages(k.snapshotListing, 1)
	}),
	"CSI-CTRL-ListSnapshots-14": rowOf(func(k *fixture) {
		id := k.createSnapshotFrom(k.newSnapshotRequest(k.volumeWithText("whole").GetVolumeId())).GetSnapshotId()
		err := harness.Poll(k.ctx, timeout, "the snapshot to be ready", func() (bool, error) {
			return k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id})[0].GetReadyToUse(), nil
		})
		require.NoError(k.t, err)
	}),
	"CSI-CTRL-ListSnapshots-15": rowOf(func(k *fixture) {
		source := k.createVolume().GetVolumeId()
		for range 5 {
			snapshot := k.createSnapshotFrom(k.newSnapshotRequest(source))
			k.everyController(func(_ string, c csi.ControllerClient) {
				res, err := c.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{SnapshotId: snapshot.GetSnapshotId()})
				require.NoError(k.t, err)
				require.Len(k.t, res.GetEntries(), 1)
				requireSame(k, snapshot, res.GetEntries()[0].GetSnapshot())
			})
		}
	}),
}

var disabledSnapshotRows = map[string]rowTest{
	"CSI-CTRL-CreateSnapshot-01": rowSwitchable(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, func(k *fixture, c csi.ControllerClient) error {
		res, err := c.CreateSnapshot(k.ctx, k.newSnapshotRequest(k.createVolume().GetVolumeId()))
		if err == nil {
			k.deleteSnapshotLater(res.GetSnapshot().GetSnapshotId())
		}
		return err
	}),
	"CSI-CTRL-DeleteSnapshot-01": rowSwitchable(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, func(k *fixture, c csi.ControllerClient) error {
		_, err := c.DeleteSnapshot(k.ctx, &csi.DeleteSnapshotRequest{SnapshotId: k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId())).GetSnapshotId()})
		return err
	}),
	"CSI-CTRL-ListSnapshots-01": rowSwitchable(csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, func(k *fixture, c csi.ControllerClient) error {
		_, err := c.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{})
		return err
	}),
}
