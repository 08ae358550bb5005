package conformance

import (
	"errors"
	"io"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var metadataRows = map[string]rowTest{
	"CSI-EXT-SnapMeta-01": servedIff(pluginHas(csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE), func(k *kit, conn *grpc.ClientConn) error {
		_, err := allocated(k, conn, &csi.GetMetadataAllocatedRequest{SnapshotId: unknownSnapshotID})
		return but(err, codes.NotFound)
	}),
	"CSI-EXT-SnapMeta-08": servedIff(pluginHas(csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE), func(k *kit, conn *grpc.ClientConn) error {
		_, err := delta(k, conn, &csi.GetMetadataDeltaRequest{BaseSnapshotId: unknownSnapshotID, TargetSnapshotId: unknownSnapshotID})
		return but(err, codes.NotFound)
	}),
	"CSI-EXT-SnapMeta-02": refuses(codes.InvalidArgument, func(k *kit) error { return k.allocatedError("", 0) }),
	"CSI-EXT-SnapMeta-03": refuses(codes.NotFound, func(k *kit) error { return k.allocatedError(unknownSnapshotID, 0) }),
	"CSI-EXT-SnapMeta-04": with(func(k *kit) {
		n := k.snapshot(k.volume().ID)
		for _, offset := range []int64{-1, n.GetSizeBytes() + 1} {
			refused(k.t, k.allocatedError(n.GetSnapshotId(), offset), codes.OutOfRange)
		}
	}),
	"CSI-EXT-SnapMeta-05": with(func(k *kit) {
		_, first, _ := k.marked()
		requireOrder(k, k.allocated(first, 0))
		requireOrder(k, k.allocated(first, 1))
	}),
	"CSI-EXT-SnapMeta-06": with(func(k *kit) {
		_, first, _ := k.marked()
		whole := k.allocated(first, 0)
		requireCovered(k, whole, marks...)
		require.Equal(k.t, joined(whole), joined(k.allocated(first, 1)), "pages leave something out")
	}),
	"CSI-EXT-SnapMeta-07": with(func(k *kit) {
		_, first, _ := k.marked()
		pages := k.allocated(first, 1)
		require.GreaterOrEqual(k.t, len(pages), len(marks))
		for _, page := range pages {
			require.LessOrEqual(k.t, len(page), 1)
		}
	}),
	"CSI-EXT-SnapMeta-09": with(func(k *kit) {
		for _, pair := range [][2]string{{"", unknownSnapshotID}, {unknownSnapshotID, ""}, {"", ""}} {
			refused(k.t, k.deltaError(pair[0], pair[1], 0), codes.InvalidArgument)
		}
	}),
	"CSI-EXT-SnapMeta-10": with(func(k *kit) {
		known := k.snapshot(k.volume().ID).GetSnapshotId()
		for _, pair := range [][2]string{{known, unknownSnapshotID}, {unknownSnapshotID, known}} {
			refused(k.t, k.deltaError(pair[0], pair[1], 0), codes.NotFound)
		}
	}),
	"CSI-EXT-SnapMeta-11": with(func(k *kit) {
		v := k.volume()
		one, two := k.snapshot(v.ID), k.snapshot(v.ID)
		for _, offset := range []int64{-1, two.GetSizeBytes() + 1} {
			refused(k.t, k.deltaError(one.GetSnapshotId(), two.GetSnapshotId(), offset), codes.OutOfRange)
		}
	}),
	"CSI-EXT-SnapMeta-12": with(func(k *kit) {
		_, one, two := k.marked()
		requireOrder(k, k.delta(one, two, 0))
		requireOrder(k, k.delta(one, two, 1))
	}),
	"CSI-EXT-SnapMeta-13": with(func(k *kit) {
		_, one, two := k.marked()
		whole := k.delta(one, two, 0)
		requireCovered(k, whole, later...)
		require.Equal(k.t, joined(whole), joined(k.delta(one, two, 1)), "pages leave something out")
	}),
	"CSI-EXT-SnapMeta-14": with(func(k *kit) {
		_, one, two := k.marked()
		pages := k.delta(one, two, 1)
		require.GreaterOrEqual(k.t, len(pages), len(later))
		for _, page := range pages {
			require.LessOrEqual(k.t, len(page), 1)
		}
	}),
}

// Where data is written before and after the first of two snapshots.
var (
	marks = []int64{0, 2 * harness.Mi, 6 * harness.Mi}
	later = []int64{1 * harness.Mi, 6 * harness.Mi, 9 * harness.Mi}
)

const markSize = 64 << 10

// marked is a raw volume with data at marks in its first snapshot and at later in its second.
func (k *kit) marked() (v *harness.Volume, first, second string) {
	k.t.Helper()
	v = k.create(harness.Spec{Node: "n1", Block: true})
	k.writeRaw(v, 'a', marks)
	first = k.snapshot(v.ID).GetSnapshotId()
	k.writeRaw(v, 'b', later)
	return v, first, k.snapshot(v.ID).GetSnapshotId()
}

// writeRaw publishes the volume, writes, and takes it down again: a volume that is
// written raw cannot be cut.
func (k *kit) writeRaw(v *harness.Volume, with byte, at []int64) {
	k.t.Helper()
	require.NoError(k.t, k.w.CO.Up(k.ctx, v, "n1"))
	defer func() { require.NoError(k.t, k.w.CO.Down(k.ctx, v)) }()
	f, err := os.OpenFile(v.Target, os.O_WRONLY, 0)
	require.NoError(k.t, err)
	defer f.Close()
	data := make([]byte, markSize)
	for i := range data {
		data[i] = with
	}
	for _, offset := range at {
		_, err := f.WriteAt(data, offset)
		require.NoError(k.t, err)
	}
	require.NoError(k.t, f.Sync())
}

type tuples []*csi.BlockMetadata

// allocated is the whole stream of one snapshot, message by message.
func (k *kit) allocated(snapshot string, most int32) []tuples {
	k.t.Helper()
	got, err := allocated(k, k.w.Conn(k.t, "c1"), &csi.GetMetadataAllocatedRequest{SnapshotId: snapshot, MaxResults: most})
	require.NoError(k.t, err)
	return got
}

func (k *kit) allocatedError(snapshot string, from int64) error {
	_, err := allocated(k, k.w.Conn(k.t, "c1"), &csi.GetMetadataAllocatedRequest{SnapshotId: snapshot, StartingOffset: from})
	return err
}

func (k *kit) delta(base, target string, most int32) []tuples {
	k.t.Helper()
	got, err := delta(k, k.w.Conn(k.t, "c1"), &csi.GetMetadataDeltaRequest{BaseSnapshotId: base, TargetSnapshotId: target, MaxResults: most})
	require.NoError(k.t, err)
	return got
}

func (k *kit) deltaError(base, target string, from int64) error {
	_, err := delta(k, k.w.Conn(k.t, "c1"), &csi.GetMetadataDeltaRequest{BaseSnapshotId: base, TargetSnapshotId: target, StartingOffset: from})
	return err
}

func allocated(k *kit, conn *grpc.ClientConn, req *csi.GetMetadataAllocatedRequest) ([]tuples, error) {
	stream, err := csi.NewSnapshotMetadataClient(conn).GetMetadataAllocated(k.ctx, req)
	if err != nil {
		return nil, err
	}
	return drain(stream.Recv)
}

func delta(k *kit, conn *grpc.ClientConn, req *csi.GetMetadataDeltaRequest) ([]tuples, error) {
	stream, err := csi.NewSnapshotMetadataClient(conn).GetMetadataDelta(k.ctx, req)
	if err != nil {
		return nil, err
	}
	return drain(stream.Recv)
}

// drain reads a stream to its end.
func drain[M interface{ GetBlockMetadata() []*csi.BlockMetadata }](next func() (M, error)) ([]tuples, error) {
	var pages []tuples
	for {
		msg, err := next()
		if errors.Is(err, io.EOF) {
			return pages, nil
		}
		if err != nil {
			return pages, err
		}
		pages = append(pages, msg.GetBlockMetadata())
	}
}

// requireOrder: tuples have a size, ascend and do not overlap, across messages too.
func requireOrder(k *kit, pages []tuples) {
	k.t.Helper()
	end, n := int64(0), 0
	for _, page := range pages {
		for _, x := range page {
			require.Positive(k.t, x.GetSizeBytes())
			require.GreaterOrEqual(k.t, x.GetByteOffset(), end)
			end, n = x.GetByteOffset()+x.GetSizeBytes(), n+1
		}
	}
	require.Greater(k.t, n, 1, "one tuple has no order")
}

// requireCovered: what was written is in the map.
func requireCovered(k *kit, pages []tuples, offsets ...int64) {
	k.t.Helper()
	ranges := joined(pages)
	for _, offset := range offsets {
		covered := false
		for _, r := range ranges {
			covered = covered || r[0] <= offset && offset+markSize <= r[1]
		}
		require.True(k.t, covered, "what was written at %d is not in %v", offset, ranges)
	}
}

// joined are the ranges of a map, those that touch made one.
func joined(pages []tuples) (ranges [][2]int64) {
	for _, page := range pages {
		for _, x := range page {
			if n := len(ranges); n > 0 && ranges[n-1][1] == x.GetByteOffset() {
				ranges[n-1][1] += x.GetSizeBytes()
			} else {
				ranges = append(ranges, [2]int64{x.GetByteOffset(), x.GetByteOffset() + x.GetSizeBytes()})
			}
		}
	}
	return ranges
}
