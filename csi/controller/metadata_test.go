package controller_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/csi/metadata"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// blockMaps plays the hosts' block maps: all snapshots have the same.
type blockMaps struct {
	mu      sync.Mutex
	extents []executor.Extent
	failAt  int64 // the offset from which on there is no answer; 0: none
	endless bool  // always says that there is more
	bases   []fsm.SnapshotID
}

func (m *blockMaps) Map(_ context.Context, _ fsm.NodeID, base, _ fsm.SnapshotID, from int64, most int) (page executor.MapPage, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bases = append(m.bases, base)
	if m.failAt > 0 && from >= m.failAt {
		return page, fsm.Reject(fsm.Unreachable, "node n1 has no session")
	}
	for _, x := range m.extents {
		if x.Offset+x.Length <= from {
			continue
		}
		if page.More = len(page.Extents) == most; page.More {
			return page, nil
		}
		page.Extents = append(page.Extents, x)
	}
	page.More = m.endless
	return page, nil
}

// volumePage is one message of either stream.
type volumePage interface {
	GetBlockMetadataType() csi.BlockMetadataType
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*csi.BlockMetadata
}

// drain reads a stream to its end.
func drain[P volumePage](recv func() (P, error)) (pages []volumePage, err error) {
	for {
		p, err := recv()
		if errors.Is(err, io.EOF) {
			return pages, nil
		}
		if err != nil {
			return pages, err
		}
		pages = append(pages, p)
	}
}

func (w *env) allocated(t testing.TB, req *csi.GetMetadataAllocatedRequest) ([]volumePage, error) {
	t.Helper()
	stream, err := w.GetMetadataAllocated(t.Context(), req)
	require.NoError(t, err)
	return drain(stream.Recv)
}

func (w *env) delta(t testing.TB, req *csi.GetMetadataDeltaRequest) ([]volumePage, error) {
	t.Helper()
	stream, err := w.GetMetadataDelta(t.Context(), req)
	require.NoError(t, err)
	return drain(stream.Recv)
}

// CSI-EXT-SnapMeta-02..04, -09..11: errors of both streams.
func TestMetadataErrors(t *testing.T) {
	w := newEnv(t)
	one := w.create(t, "one")
	base, target := w.createSnapshot(t, "base", one).GetSnapshotId(), w.createSnapshot(t, "target", one).GetSnapshotId()
	foreign := w.createSnapshot(t, "foreign", w.create(t, "two")).GetSnapshotId()
	for name, tc := range map[string]struct {
		base, target string
		from         int64
		max          int32
		want         codes.Code
	}{
		"-02, -09: an id is required":           {"", "", 0, 0, codes.InvalidArgument},
		"-03, -10: unknown":                     {unknownSnapshot, unknownSnapshot, 0, 0, codes.NotFound},
		"-03, -10: an id of another form":       {"fake", "fake", 0, 0, codes.NotFound},
		"-04, -11: a negative offset":           {base, target, -1, 0, codes.OutOfRange},
		"-04, -11: behind the end":              {base, target, gib + 1, 0, codes.OutOfRange},
		"-04, -11: the end itself":              {base, target, gib, 0, codes.OK},
		"-02, -09: a negative number of tuples": {base, target, 0, -1, codes.InvalidArgument},
		"-09: of another volume":                {foreign, target, 0, 0, codes.InvalidArgument},
		"-10: an unknown base":                  {unknownSnapshot, target, 0, 0, codes.NotFound},
		"-09: no base":                          {"", target, 0, 0, codes.InvalidArgument},
		"-09: the same one twice":               {target, target, 0, 0, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				pages, err := w.delta(t, &csi.GetMetadataDeltaRequest{BaseSnapshotId: tc.base, TargetSnapshotId: tc.target, StartingOffset: tc.from, MaxResults: tc.max})
				requireCode(t, tc.want, err)
				require.Equal(t, tc.want == codes.OK, len(pages) == 1, "an empty map is told")
				if err != nil {
					require.NoError(t, wellFormed(err))
				}
				if tc.base == foreign || tc.base != tc.target && (tc.base == "" || tc.base == unknownSnapshot) {
					continue // about the base alone
				}
				_, err = w.allocated(t, &csi.GetMetadataAllocatedRequest{SnapshotId: tc.target, StartingOffset: tc.from, MaxResults: tc.max})
				requireCode(t, tc.want, err)
			}
		})
	}
}

// CSI-EXT-SnapMeta-05, -07, -12, -14: ranges ascend over all messages, of which none
// has more than it may, and a stream can be resumed anywhere.
func TestMetadataPages(t *testing.T) {
	w := newEnv(t)
	one := w.create(t, "one")
	base, target := w.createSnapshot(t, "base", one).GetSnapshotId(), w.createSnapshot(t, "target", one).GetSnapshotId()
	for i := range int64(10) {
		w.maps.extents = append(w.maps.extents, executor.Extent{Offset: i * 100 << 20, Length: 10 << 20})
	}
	w.maps.extents = append(w.maps.extents, executor.Extent{Offset: gib - 4096, Length: 8192}) // rounded up by the host
	for _, most := range []int32{0, 1, 2, 3, 11, 100} {
		for _, from := range []int64{0, 1, 100 << 20, 105 << 20, 111 << 20, gib - 1, gib} {
			all, err := w.allocated(t, &csi.GetMetadataAllocatedRequest{SnapshotId: target, StartingOffset: from, MaxResults: most})
			require.NoError(t, err)
			requirePages(t, all, from, most, w.maps.extents)
			all, err = w.delta(t, &csi.GetMetadataDeltaRequest{BaseSnapshotId: base, TargetSnapshotId: target, StartingOffset: from, MaxResults: most})
			require.NoError(t, err)
			requirePages(t, all, from, most, w.maps.extents)
		}
	}
	require.Contains(t, w.maps.bases, fsm.SnapshotID(base))
	require.Contains(t, w.maps.bases, fsm.SnapshotID(""))
}

func requirePages(t *testing.T, pages []volumePage, from int64, most int32, extents []executor.Extent) {
	t.Helper()
	require.NotEmpty(t, pages)
	want, got, last := int64(0), int64(0), from
	for _, x := range extents {
		want += max(0, min(x.Offset+x.Length, gib)-max(x.Offset, from))
	}
	for _, p := range pages {
		require.Equal(t, csi.BlockMetadataType_VARIABLE_LENGTH, p.GetBlockMetadataType())
		require.Equal(t, gib, p.GetVolumeCapacityBytes())
		require.True(t, most == 0 || len(p.GetBlockMetadata()) <= int(most))
		for _, b := range p.GetBlockMetadata() {
			require.GreaterOrEqual(t, b.GetByteOffset(), last)
			require.Positive(t, b.GetSizeBytes())
			last = b.GetByteOffset() + b.GetSizeBytes()
			require.LessOrEqual(t, last, gib)
			got += b.GetSizeBytes()
		}
	}
	require.Equal(t, want, got)
}

// CSI-EXT-SnapMeta-06, -13: a stream that ends without an error left nothing out.
func TestMetadataFailsMidStream(t *testing.T) {
	w := newEnv(t)
	id := w.createSnapshot(t, "s", w.create(t, "one")).GetSnapshotId()
	many := []executor.Extent{{Offset: 0, Length: 4096}, {Offset: 8192, Length: 4096}, {Offset: 16384, Length: 4096}}
	for name, tc := range map[string]struct {
		maps  *blockMaps
		pages int
		want  codes.Code
	}{
		"the host goes away":        {&blockMaps{extents: many, failAt: 12288}, 2, codes.Unavailable},
		"ranges overlap":            {&blockMaps{extents: []executor.Extent{{Offset: 0, Length: 8192}, {Offset: 4096, Length: 8192}}}, 0, codes.Internal},
		"a range is empty":          {&blockMaps{extents: []executor.Extent{{Offset: 4096}}}, 0, codes.Internal},
		"more, without saying what": {&blockMaps{endless: true}, 0, codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			tc.maps.bases = nil
			s := metadata.New(w.cluster, tc.maps)
			conn := dialInMemory(t, func(g *grpc.Server) { csi.RegisterSnapshotMetadataServer(g, s) })
			most := int32(1)
			if tc.want == codes.Internal {
				most = 0
			}
			for range 2 {
				stream, err := csi.NewSnapshotMetadataClient(conn).GetMetadataAllocated(t.Context(), &csi.GetMetadataAllocatedRequest{SnapshotId: id, MaxResults: most})
				require.NoError(t, err)
				pages, err := drain(stream.Recv)
				requireCode(t, tc.want, err)
				require.Len(t, pages, tc.pages)
				require.Empty(t, status.Convert(err).Details())
			}
		})
	}
}

// slowMaps plays a host that looks through so many bytes for a page.
type slowMaps struct {
	extents   []executor.Extent
	delay     int64
	requested []int64
}

func (m *slowMaps) Map(_ context.Context, _ fsm.NodeID, _, _ fsm.SnapshotID, from int64, most int) (page executor.MapPage, err error) {
	m.requested = append(m.requested, from)
	page = executor.MapPage{More: true, NextOffset: from + m.delay}
	for _, x := range m.extents {
		if x.Offset >= page.NextOffset || x.Offset+x.Length <= from {
			continue
		}
		if len(page.Extents) == most {
			return page, nil
		}
		page.Extents = append(page.Extents, x)
	}
	return page, nil
}

func allocatedOverMaps(t *testing.T, w *env, maps metadata.Maps, req *csi.GetMetadataAllocatedRequest) ([]volumePage, error) {
	t.Helper()
	s := metadata.New(w.cluster, maps)
	conn := dialInMemory(t, func(g *grpc.Server) { csi.RegisterSnapshotMetadataServer(g, s) })
	stream, err := csi.NewSnapshotMetadataClient(conn).GetMetadataAllocated(t.Context(), req)
	require.NoError(t, err)
	return drain(stream.Recv)
}

// A page that ends behind the volume's end is clipped to nothing, while the host has more.
func TestMetadataStreamOfEmptyMapHasSize(t *testing.T) {
	w := newEnv(t)
	id := w.createSnapshot(t, "s", w.create(t, "one")).GetSnapshotId()
	beyond := &blockMaps{extents: []executor.Extent{{Offset: gib, Length: 4096}, {Offset: gib + 8192, Length: 4096}}}
	for _, most := range []int32{0, 1} {
		pages, err := allocatedOverMaps(t, w, beyond, &csi.GetMetadataAllocatedRequest{SnapshotId: id, MaxResults: most})
		require.NoError(t, err)
		require.Len(t, pages, 1)
		require.Equal(t, gib, pages[0].GetVolumeCapacityBytes())
		require.Empty(t, pages[0].GetBlockMetadata())
	}
}

// A host that found nothing in its time says how far it is, and the next page goes on there.
func TestMetadataStreamFollowsReachedOffset(t *testing.T) {
	w := newEnv(t)
	id := w.createSnapshot(t, "s", w.create(t, "one")).GetSnapshotId()
	last := executor.Extent{Offset: gib - 4096, Length: 4096}
	host := &slowMaps{extents: []executor.Extent{last}, delay: 100 << 20}
	pages, err := allocatedOverMaps(t, w, host, &csi.GetMetadataAllocatedRequest{SnapshotId: id})
	require.NoError(t, err)
	require.Len(t, pages, 1)
	requirePages(t, pages, 0, 0, host.extents)
	require.Len(t, host.requested, 11)
	require.Equal(t, int64(100<<20), host.requested[1])
	host = &slowMaps{delay: 400 << 20}
	pages, err = allocatedOverMaps(t, w, host, &csi.GetMetadataAllocatedRequest{SnapshotId: id})
	require.NoError(t, err)
	require.Len(t, pages, 1, "nothing anywhere: the size all the same")
}
