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
	"CSI-EXT-SnapMeta-01": rowServedIff(pluginHas(csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE), func(k *fixture, conn *grpc.ClientConn) error {
		_, err := streamAllocated(k, conn, &csi.GetMetadataAllocatedRequest{SnapshotId: unknownSnapshotID})
		return ignoreCode(err, codes.NotFound)
	}),
	"CSI-EXT-SnapMeta-08": rowServedIff(pluginHas(csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE), func(k *fixture, conn *grpc.ClientConn) error {
		_, err := streamDelta(k, conn, &csi.GetMetadataDeltaRequest{BaseSnapshotId: unknownSnapshotID, TargetSnapshotId: unknownSnapshotID})
		return ignoreCode(err, codes.NotFound)
	}),
	"CSI-EXT-SnapMeta-02": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.allocatedError("", 0) }),
	"CSI-EXT-SnapMeta-03": rowRefused(codes.NotFound, func(k *fixture) error { return k.allocatedError(unknownSnapshotID, 0) }),
	"CSI-EXT-SnapMeta-04": rowOf(func(k *fixture) {
		n := k.snapshot(k.volume().ID)
		for _, offset := range []int64{-1, n.GetSizeBytes() + 1} {
			requireRefused(k.t, k.allocatedError(n.GetSnapshotId(), offset), codes.OutOfRange)
		}
	}),
	"CSI-EXT-SnapMeta-05": rowOf(func(k *fixture) {
		_, first, _ := k.volumeWithMarks()
		requireOrder(k, k.allocated(first, 0))
		requireOrder(k, k.allocated(first, 1))
	}),
	"CSI-EXT-SnapMeta-06": rowOf(func(k *fixture) {
		_, first, _ := k.volumeWithMarks()
		whole := k.allocated(first, 0)
		requireCovered(k, whole, firstOffsets...)
		require.Equal(k.t, mergeRanges(whole), mergeRanges(k.allocated(first, 1)), "pages leave something out")
	}),
	"CSI-EXT-SnapMeta-07": rowOf(func(k *fixture) {
		_, first, _ := k.volumeWithMarks()
		pages := k.allocated(first, 1)
		require.GreaterOrEqual(k.t, len(pages), len(firstOffsets))
		for _, page := range pages {
			require.LessOrEqual(k.t, len(page), 1)
		}
	}),
	"CSI-EXT-SnapMeta-09": rowOf(func(k *fixture) {
		for _, pair := range [][2]string{{"", unknownSnapshotID}, {unknownSnapshotID, ""}, {"", ""}} {
			requireRefused(k.t, k.deltaError(pair[0], pair[1], 0), codes.InvalidArgument)
		}
	}),
	"CSI-EXT-SnapMeta-10": rowOf(func(k *fixture) {
		known := k.snapshot(k.volume().ID).GetSnapshotId()
		for _, pair := range [][2]string{{known, unknownSnapshotID}, {unknownSnapshotID, known}} {
			requireRefused(k.t, k.deltaError(pair[0], pair[1], 0), codes.NotFound)
		}
	}),
	"CSI-EXT-SnapMeta-11": rowOf(func(k *fixture) {
		v := k.volume()
		one, two := k.snapshot(v.ID), k.snapshot(v.ID)
		for _, offset := range []int64{-1, two.GetSizeBytes() + 1} {
			requireRefused(k.t, k.deltaError(one.GetSnapshotId(), two.GetSnapshotId(), offset), codes.OutOfRange)
		}
	}),
	"CSI-EXT-SnapMeta-12": rowOf(func(k *fixture) {
		_, one, two := k.volumeWithMarks()
		requireOrder(k, k.delta(one, two, 0))
		requireOrder(k, k.delta(one, two, 1))
	}),
	"CSI-EXT-SnapMeta-13": rowOf(func(k *fixture) {
		_, one, two := k.volumeWithMarks()
		whole := k.delta(one, two, 0)
		requireCovered(k, whole, secondOffsets...)
		require.Equal(k.t, mergeRanges(whole), mergeRanges(k.delta(one, two, 1)), "pages leave something out")
	}),
	"CSI-EXT-SnapMeta-14": rowOf(func(k *fixture) {
		_, one, two := k.volumeWithMarks()
		pages := k.delta(one, two, 1)
		require.GreaterOrEqual(k.t, len(pages), len(secondOffsets))
		for _, page := range pages {
			require.LessOrEqual(k.t, len(page), 1)
		}
	}),
}

// Where data is written before and after the first of two snapshots.
var (
	firstOffsets  = []int64{0, 2 * harness.Mi, 6 * harness.Mi}
	secondOffsets = []int64{1 * harness.Mi, 6 * harness.Mi, 9 * harness.Mi}
)

const markSize = 64 << 10

// volumeWithMarks is a raw volume with data at marks in its first snapshot and at later in its second.
func (k *fixture) volumeWithMarks() (v *harness.Volume, first, second string) {
	k.t.Helper()
	v = k.create(harness.Spec{Node: "n1", Block: true})
	k.writeRaw(v, 'a', firstOffsets)
	first = k.snapshot(v.ID).GetSnapshotId()
	k.writeRaw(v, 'b', secondOffsets)
	return v, first, k.snapshot(v.ID).GetSnapshotId()
}

// writeRaw publishes the volume, writes, and takes it down again: a volume that is
// written raw cannot be snapshotted.
func (k *fixture) writeRaw(v *harness.Volume, with byte, at []int64) {
	k.t.Helper()
	require.NoError(k.t, k.env.CO.PublishStageBind(k.ctx, v, "n1"))
	defer func() { require.NoError(k.t, k.env.CO.UnbindUnstageUnpublish(k.ctx, v)) }()
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

type blockRanges []*csi.BlockMetadata

// allocated is the whole stream of one snapshot, message by message.
func (k *fixture) allocated(snapshot string, most int32) []blockRanges {
	k.t.Helper()
	got, err := streamAllocated(k, k.env.Conn(k.t, "c1"), &csi.GetMetadataAllocatedRequest{SnapshotId: snapshot, MaxResults: most})
	require.NoError(k.t, err)
	return got
}

func (k *fixture) allocatedError(snapshot string, from int64) error {
	_, err := streamAllocated(k, k.env.Conn(k.t, "c1"), &csi.GetMetadataAllocatedRequest{SnapshotId: snapshot, StartingOffset: from})
	return err
}

func (k *fixture) delta(base, target string, most int32) []blockRanges {
	k.t.Helper()
	got, err := streamDelta(k, k.env.Conn(k.t, "c1"), &csi.GetMetadataDeltaRequest{BaseSnapshotId: base, TargetSnapshotId: target, MaxResults: most})
	require.NoError(k.t, err)
	return got
}

func (k *fixture) deltaError(base, target string, from int64) error {
	_, err := streamDelta(k, k.env.Conn(k.t, "c1"), &csi.GetMetadataDeltaRequest{BaseSnapshotId: base, TargetSnapshotId: target, StartingOffset: from})
	return err
}

func streamAllocated(k *fixture, conn *grpc.ClientConn, req *csi.GetMetadataAllocatedRequest) ([]blockRanges, error) {
	stream, err := csi.NewSnapshotMetadataClient(conn).GetMetadataAllocated(k.ctx, req)
	if err != nil {
		return nil, err
	}
	return drain(stream.Recv)
}

func streamDelta(k *fixture, conn *grpc.ClientConn, req *csi.GetMetadataDeltaRequest) ([]blockRanges, error) {
	stream, err := csi.NewSnapshotMetadataClient(conn).GetMetadataDelta(k.ctx, req)
	if err != nil {
		return nil, err
	}
	return drain(stream.Recv)
}

// drain reads a stream to its end.
func drain[M interface{ GetBlockMetadata() []*csi.BlockMetadata }](next func() (M, error)) ([]blockRanges, error) {
	var pages []blockRanges
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
func requireOrder(k *fixture, pages []blockRanges) {
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
func requireCovered(k *fixture, pages []blockRanges, offsets ...int64) {
	k.t.Helper()
	ranges := mergeRanges(pages)
	for _, offset := range offsets {
		covered := false
		for _, r := range ranges {
			covered = covered || r[0] <= offset && offset+markSize <= r[1]
		}
		require.True(k.t, covered, "what was written at %d is not in %v", offset, ranges)
	}
}

// mergeRanges are the ranges of a map, those that touch made one.
func mergeRanges(pages []blockRanges) (ranges [][2]int64) {
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
