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

func (k *kit) cutting(source string, changes ...func(r *snapshotRequest)) *snapshotRequest {
	req := &snapshotRequest{Name: k.w.Name("snap"), SourceVolumeId: source}
	for _, c := range changes {
		c(req)
	}
	return req
}

// cut is the snapshot of a request; it is deleted with the row.
func (k *kit) cut(req *snapshotRequest) *csi.Snapshot {
	k.t.Helper()
	var res *csi.CreateSnapshotResponse
	k.done(func() (err error) {
		res, err = k.ctl.CreateSnapshot(k.ctx, req)
		return err
	})
	require.NotNil(k.t, res.GetSnapshot())
	k.dropSnapshot(res.GetSnapshot().GetSnapshotId())
	return res.GetSnapshot()
}

// cutRejected makes a row: changed requests have a code, and leave no snapshot.
func cutRejected(want codes.Code, changes ...func(r *snapshotRequest)) rowTest {
	return with(func(k *kit) {
		id := k.made().GetVolumeId()
		for _, c := range changes {
			for range 2 {
				_, err := k.ctl.CreateSnapshot(k.ctx, k.cutting(id, c))
				refused(k.t, err, want)
			}
		}
		require.Empty(k.t, k.cutsOf([]string{id}))
		k.cut(k.cutting(id))
	})
}

var createSnapshotRows = map[string]rowTest{
	"CSI-CTRL-CreateSnapshot-02": with(func(k *kit) {
		req := k.cutting(k.made().GetVolumeId())
		first := k.cut(req)
		for range 3 {
			requireSame(k, first, k.cut(proto.Clone(req).(*snapshotRequest)))
		}
		require.Len(k.t, k.cutsOf([]string{req.GetSourceVolumeId()}), 1)
	}),
	"CSI-CTRL-CreateSnapshot-03": with(func(k *kit) {
		v := k.made()
		u := k.inUse(v, mounted(writer, "ext4"), false)
		require.NoError(k.t, u.write("A"))
		first := k.cut(k.cutting(v.GetVolumeId()))
		require.NoError(k.t, u.write("B"))
		require.Equal(k.t, "A", k.inUse(k.made(ofSnapshot(first.GetSnapshotId())), mounted(writer, "ext4"), false).read())
		require.Equal(k.t, "B", u.read())
	}),
	"CSI-CTRL-CreateSnapshot-07": with(func(k *kit) {
		require.True(k.t, k.cut(k.cutting(k.made().GetVolumeId())).GetReadyToUse())
		require.True(k.t, k.cut(k.cutting(k.written("in it").GetVolumeId())).GetReadyToUse())
	}),
	"CSI-CTRL-CreateSnapshot-09": cutRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.SourceVolumeId = "" }),
	"CSI-CTRL-CreateSnapshot-10": cutRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.Name = "" }),
	"CSI-CTRL-CreateSnapshot-11": with(func(k *kit) {
		id := k.made().GetVolumeId()
		for _, c := range controlCharacters() {
			_, err := k.ctl.CreateSnapshot(k.ctx, k.cutting(id, func(r *snapshotRequest) { r.Name = "a" + string(c) + "b" }))
			refused(k.t, err, codes.InvalidArgument)
		}
		require.Empty(k.t, k.cutsOf([]string{id}))
		k.cut(k.cutting(id, func(r *snapshotRequest) { r.Name += "\t\r\n" }))
	}),
	"CSI-CTRL-CreateSnapshot-12": with(func(k *kit) {
		longest := strings.Repeat("s", 128)
		cutRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.Name = longest + "s" })(k.t, k.w)
		k.cut(k.cutting(k.made().GetVolumeId(), func(r *snapshotRequest) { r.Name = longest }))
	}),
	"CSI-CTRL-CreateSnapshot-13": cutRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.Parameters = map[string]string{"colour": "blue"} }),
	"CSI-CTRL-CreateSnapshot-14": with(func(k *kit) {
		id := k.made().GetVolumeId()
		for _, secrets := range []map[string]string{nil, {"user": "canary"}} {
			require.NotContains(k.t, k.cut(k.cutting(id, func(r *snapshotRequest) { r.Secrets = secrets })).String(), "canary")
		}
		cutRejected(codes.InvalidArgument, func(r *snapshotRequest) { r.Secrets = map[string]string{"a b": "x"} })(k.t, k.w)
	}),
	"CSI-CTRL-CreateSnapshot-15": cutRejected(codes.NotFound, func(r *snapshotRequest) { r.SourceVolumeId = unknownVolumeID }, func(r *snapshotRequest) { r.SourceVolumeId = "x" }),
	"CSI-CTRL-CreateSnapshot-16": with(func(k *kit) {
		req := k.cutting(k.made().GetVolumeId())
		first := k.cut(req)
		other := k.cutting(k.made().GetVolumeId(), func(r *snapshotRequest) { r.Name = req.GetName() })
		for range 2 {
			_, err := k.ctl.CreateSnapshot(k.ctx, other)
			refused(k.t, err, codes.AlreadyExists)
		}
		require.Empty(k.t, k.cutsOf([]string{other.GetSourceVolumeId()}))
		requireSame(k, first, k.cut(req))
	}),
	"CSI-CTRL-CreateSnapshot-18": with(func(k *kit) {
		id := k.made(at(places("n2"), nil), sized(1<<30, 0)).GetVolumeId()
		k.full()
		for range 2 {
			_, err := k.ctl.CreateSnapshot(k.ctx, k.cutting(id))
			refused(k.t, err, codes.ResourceExhausted)
		}
		require.Empty(k.t, k.cutsOf([]string{id}))
	}),
	"CSI-CTRL-CreateSnapshot-19": with(func(k *kit) {
		cut := k.cut(k.cutting(k.made().GetVolumeId()))
		require.EqualValues(k.t, 16*harness.Mi, cut.GetSizeBytes())
		k.rejects(codes.OutOfRange, k.asked(ofSnapshot(cut.GetSnapshotId()), sized(0, cut.GetSizeBytes()-1)))
		k.made(ofSnapshot(cut.GetSnapshotId()), sized(0, cut.GetSizeBytes()))
	}),
	"CSI-CTRL-CreateSnapshot-20": with(func(k *kit) {
		id, seen := k.made().GetVolumeId(), map[string]bool{}
		for range 4 {
			cut := k.cut(k.cutting(id)).GetSnapshotId()
			require.NotEmpty(k.t, cut)
			require.LessOrEqual(k.t, len(cut), 128)
			require.False(k.t, seen[cut])
			seen[cut] = true
		}
	}),
	"CSI-CTRL-CreateSnapshot-21": with(func(k *kit) {
		id := k.made().GetVolumeId()
		cut := k.cut(k.cutting(id))
		require.Equal(k.t, id, cut.GetSourceVolumeId())
		require.Equal(k.t, []string{cut.GetSnapshotId()}, k.cutsOf([]string{id}))
	}),
	"CSI-CTRL-CreateSnapshot-23": with(func(k *kit) {
		cut := k.cut(k.cutting(k.written("of use").GetVolumeId()))
		require.True(k.t, cut.GetReadyToUse())
		require.Equal(k.t, "of use", k.inUse(k.made(ofSnapshot(cut.GetSnapshotId())), mounted(writer, "ext4"), false).read())
	}),
	"CSI-CTRL-CreateSnapshot-24": with(func(k *kit) {
		g := k.group(2)
		for _, s := range g.GetSnapshots() {
			require.Equal(k.t, g.GetGroupSnapshotId(), s.GetGroupSnapshotId())
			require.Equal(k.t, g.GetGroupSnapshotId(), k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: s.GetSnapshotId()})[0].GetGroupSnapshotId())
		}
	}),
	"CSI-CTRL-CreateSnapshot-25": with(func(k *kit) {
		id := k.made().GetVolumeId()
		cut := k.cut(k.cutting(id))
		require.Empty(k.t, cut.GetGroupSnapshotId())
		require.NoError(k.t, k.uncut(&csi.DeleteSnapshotRequest{SnapshotId: cut.GetSnapshotId()}))
		require.Empty(k.t, k.cutsOf([]string{id}))
	}),
}

func (k *kit) uncut(req *csi.DeleteSnapshotRequest) error {
	_, err := k.ctl.DeleteSnapshot(k.ctx, req)
	return err
}

// listedSnapshots is one page of ListSnapshots.
func (k *kit) listedSnapshots(req *csi.ListSnapshotsRequest) []*csi.Snapshot {
	k.t.Helper()
	res, err := k.ctl.ListSnapshots(k.ctx, req)
	require.NoError(k.t, err)
	var all []*csi.Snapshot
	for _, e := range res.GetEntries() {
		all = append(all, e.GetSnapshot())
	}
	return all
}

var deleteSnapshotRows = map[string]rowTest{
	"CSI-CTRL-DeleteSnapshot-02": refuses(codes.InvalidArgument, func(k *kit) error { return k.uncut(&csi.DeleteSnapshotRequest{}) }),
	"CSI-CTRL-DeleteSnapshot-03": with(func(k *kit) {
		source := k.made().GetVolumeId()
		id := k.cut(k.cutting(source)).GetSnapshotId()
		for _, gone := range []string{id, id, unknownSnapshotID, "x", "../..", strings.Repeat("i", 128)} {
			require.NoError(k.t, k.uncut(&csi.DeleteSnapshotRequest{SnapshotId: gone}))
		}
		require.Empty(k.t, k.cutsOf([]string{source}))
	}),
	"CSI-CTRL-DeleteSnapshot-04": with(func(k *kit) {
		for _, s := range k.group(2).GetSnapshots() {
			for range 2 {
				refused(k.t, k.uncut(&csi.DeleteSnapshotRequest{SnapshotId: s.GetSnapshotId()}), codes.InvalidArgument)
			}
			require.Len(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: s.GetSnapshotId()}), 1)
		}
	}),
	"CSI-CTRL-DeleteSnapshot-08": with(func(k *kit) {
		g := k.group(2)
		_, err := k.groups.DeleteVolumeGroupSnapshot(k.ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId(), SnapshotIds: memberIDs(g)})
		require.NoError(k.t, err)
		for _, id := range memberIDs(g) {
			require.Empty(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id}))
		}
	}),
	"CSI-CTRL-DeleteSnapshot-09": with(func(k *kit) {
		source := k.made().GetVolumeId()
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			id := k.cut(k.cutting(source)).GetSnapshotId()
			require.NoError(k.t, k.uncut(&csi.DeleteSnapshotRequest{SnapshotId: id, Secrets: secrets}))
			require.Empty(k.t, k.cutsOf([]string{source}))
		}
	}),
}

var listSnapshotsRows = map[string]rowTest{
	"CSI-CTRL-ListSnapshots-02": with(func(k *kit) {
		own := append(k.someSnapshots(), memberIDs(k.group(2))...)
		require.Subset(k.t, k.walk(k.snapshotListing, 100), own)
		v := k.made(ofSnapshot(own[0]))
		last := k.cut(k.cutting(v.GetVolumeId())).GetSnapshotId()
		require.Contains(k.t, k.walk(k.snapshotListing, 100), last)
	}),
	"CSI-CTRL-ListSnapshots-04": with(func(k *kit) { k.pages(k.snapshotListing, k.someSnapshots()) }),
	"CSI-CTRL-ListSnapshots-05": with(func(k *kit) { k.pages(k.snapshotListing, k.someSnapshots()) }),
	"CSI-CTRL-ListSnapshots-06": refuses(codes.InvalidArgument, func(k *kit) error {
		_, _, err := k.snapshotListing(k.ctl, math.MinInt32, "")
		return err
	}),
	"CSI-CTRL-ListSnapshots-07": with(func(k *kit) {
		one, two := k.made().GetVolumeId(), k.made().GetVolumeId()
		cut := k.cut(k.cutting(one))
		k.cut(k.cutting(two))
		only := k.listedSnapshots(&csi.ListSnapshotsRequest{SourceVolumeId: one})
		require.Len(k.t, only, 1)
		requireSame(k, cut, only[0])
		for _, unknown := range []string{unknownVolumeID, "x"} {
			require.Empty(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SourceVolumeId: unknown}))
		}
	}),
	"CSI-CTRL-ListSnapshots-08": with(func(k *kit) {
		source := k.made().GetVolumeId()
		cut := k.cut(k.cutting(source))
		k.cut(k.cutting(source))
		only := k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: cut.GetSnapshotId()})
		require.Len(k.t, only, 1)
		requireSame(k, cut, only[0])
		for _, unknown := range []string{unknownSnapshotID, "x"} {
			require.Empty(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: unknown}))
		}
	}),
	"CSI-CTRL-ListSnapshots-09": with(func(k *kit) {
		one, two := k.made().GetVolumeId(), k.made().GetVolumeId()
		id := k.cut(k.cutting(one)).GetSnapshotId()
		k.cut(k.cutting(two))
		require.Len(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id, SourceVolumeId: one}), 1)
		require.Empty(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id, SourceVolumeId: two}))
	}),
	"CSI-CTRL-ListSnapshots-11": with(func(k *kit) {
		id := k.cut(k.cutting(k.made().GetVolumeId())).GetSnapshotId()
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			require.Len(k.t, k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id, Secrets: secrets}), 1)
		}
	}),
	"CSI-CTRL-ListSnapshots-12": with(func(k *kit) {
		k.someSnapshots()
		k.someVolumes()
		k.badTokens(k.snapshotListing, k.tokenOf(k.volumeListing))
	}),
	"CSI-CTRL-ListSnapshots-13": with(func(k *kit) {
		k.cut(k.cutting(k.made().GetVolumeId(), func(r *snapshotRequest) { r.Name = strings.Repeat("t", 128) }))
		k.someSnapshots()
		k.walk(k.snapshotListing, 1)
	}),
	"CSI-CTRL-ListSnapshots-14": with(func(k *kit) {
		id := k.cut(k.cutting(k.written("whole").GetVolumeId())).GetSnapshotId()
		err := harness.Poll(k.ctx, patience, "the snapshot to be ready", func() (bool, error) {
			return k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: id})[0].GetReadyToUse(), nil
		})
		require.NoError(k.t, err)
	}),
	"CSI-CTRL-ListSnapshots-15": with(func(k *kit) {
		source := k.made().GetVolumeId()
		for range 5 {
			cut := k.cut(k.cutting(source))
			k.everyController(func(_ string, c csi.ControllerClient) {
				res, err := c.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{SnapshotId: cut.GetSnapshotId()})
				require.NoError(k.t, err)
				require.Len(k.t, res.GetEntries(), 1)
				requireSame(k, cut, res.GetEntries()[0].GetSnapshot())
			})
		}
	}),
}

var lessSnapshotRows = map[string]rowTest{
	"CSI-CTRL-CreateSnapshot-01": switched(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, func(k *kit, c csi.ControllerClient) error {
		res, err := c.CreateSnapshot(k.ctx, k.cutting(k.made().GetVolumeId()))
		if err == nil {
			k.dropSnapshot(res.GetSnapshot().GetSnapshotId())
		}
		return err
	}),
	"CSI-CTRL-DeleteSnapshot-01": switched(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, func(k *kit, c csi.ControllerClient) error {
		_, err := c.DeleteSnapshot(k.ctx, &csi.DeleteSnapshotRequest{SnapshotId: k.cut(k.cutting(k.made().GetVolumeId())).GetSnapshotId()})
		return err
	}),
	"CSI-CTRL-ListSnapshots-01": switched(csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, func(k *kit, c csi.ControllerClient) error {
		_, err := c.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{})
		return err
	}),
}
