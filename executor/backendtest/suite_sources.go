package backendtest

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

func testFromSnapshot(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	snapshot := takeSnapshot(t, h, source)
	want := h.ReadSnapshot(t, snapshot)
	h.Write(t, source, 0, pattern(8, 1<<20))
	id := NewID()
	for range 2 {
		require.NoError(t, h.Snapshots.CreateFrom(t.Context(), id, VolumeBytes, fsm.Source{Snapshot: snapshot}, 0, nil))
		requireSame(t, want, h.Read(t, id), "the volume is as the snapshot")
	}
	_, err := h.Backend.Activate(t.Context(), id, false)
	require.NoError(t, err)
	h.Write(t, id, 0, pattern(5, 1<<20))
	require.NoError(t, h.Snapshots.CreateFrom(t.Context(), id, VolumeBytes, fsm.Source{Snapshot: snapshot}, 0, nil), "created again after it was written to")
	require.Equal(t, pattern(5, 1<<20), h.Read(t, id)[:1<<20], "the existing image is adopted")
	require.NoError(t, h.Backend.Deactivate(t.Context(), id))
	requireSame(t, want, h.ReadSnapshot(t, snapshot), "the snapshot is not written to through the volume")
}

func testFromVolume(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	want := h.Read(t, source)
	same, larger := NewID(), NewID()
	from := fsm.Source{Volume: source}
	require.NoError(t, h.Snapshots.CreateFrom(t.Context(), same, VolumeBytes, from, 0, nil))
	require.NoError(t, h.Snapshots.CreateFrom(t.Context(), larger, 2*VolumeBytes, from, 0, nil))
	h.Write(t, source, 0, pattern(8, 1<<20))
	requireSame(t, want, h.Read(t, same), "the clone is what the source was")
	requireSame(t, append(want, make([]byte, VolumeBytes)...), h.Read(t, larger), "zero beyond the source's end")
	require.Equal(t, fsm.Incompatible, reason(h.Snapshots.CreateFrom(t.Context(), same, 2*VolumeBytes, from, 0, nil)))
	for _, id := range []fsm.VolumeID{same, larger} {
		require.NoError(t, h.Backend.Remove(t.Context(), id))
	}
}

// testFromContent: a replica's device has DRBD's metadata behind the content. The short form (see testShrink) has one content
// of each kind of source, and all sizes.
func testFromContent(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	all := h.Read(t, source)
	for f, from := range []fsm.Source{{Snapshot: takeSnapshot(t, h, source)}, {Volume: source}} {
		for c, content := range []int64{100 << 10, VolumeBytes - 4096} { // both in the middle of data
			if testing.Short() && f != c {
				continue
			}
			turn := f + c
			if testing.Short() {
				turn = f
			}
			for s, size := range []int64{content, content + 8192, VolumeBytes, 2 * VolumeBytes} {
				if (turn+s)%2 != 0 {
					continue // the other kind of source has this pair of sizes: a copy takes seconds on some backends
				}
				id := NewID()
				for range 2 {
					require.NoError(t, h.Snapshots.CreateFrom(t.Context(), id, size, from, content, nil))
					require.EqualValues(t, size, observe(t, h.Backend, id).Size)
				}
				want := append(bytes.Clone(all[:content]), make([]byte, 3*VolumeBytes-content)...)
				requireSame(t, want[:size], h.Read(t, id), "the content, and zero behind it")
				require.NoError(t, h.Snapshots.Expand(t.Context(), id, 3*VolumeBytes))
				requireSame(t, want, h.Read(t, id), "also once it is expanded")
				require.NoError(t, h.Backend.Remove(t.Context(), id))
			}
			refused := NewID()
			require.Equal(t, fsm.OutOfRange, reason(h.Snapshots.CreateFrom(t.Context(), refused, content-4096, from, content, nil)), "content is never truncated")
			require.Equal(t, executor.Device{}, observe(t, h.Backend, refused))
		}
		id := NewID()
		require.NoError(t, h.Snapshots.CreateFrom(t.Context(), id, VolumeBytes, from, 2*VolumeBytes, nil))
		requireSame(t, all, h.Read(t, id), "no more is taken than there is")
		require.NoError(t, h.Backend.Remove(t.Context(), id))
	}
	requireSame(t, all, h.Read(t, source), "the source is not changed")
}

func testFromNothing(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	id := NewID()
	for range 2 {
		require.Equal(t, fsm.Precondition, reason(h.Snapshots.CreateFrom(t.Context(), id, VolumeBytes, fsm.Source{Volume: NewID()}, 0, nil)))
		require.Equal(t, fsm.Precondition, reason(h.Snapshots.CreateFrom(t.Context(), id, VolumeBytes, fsm.Source{Snapshot: NewSnapshotID()}, 0, nil)))
		require.Equal(t, fsm.OutOfRange, reason(h.Snapshots.CreateFrom(t.Context(), id, VolumeBytes/2, fsm.Source{Volume: source}, 0, nil)))
		require.Equal(t, executor.Device{}, observe(t, h.Backend, id))
	}
}

func testExpand(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	want := h.Read(t, source)
	snapshot := takeSnapshot(t, h, source)
	for range 2 {
		require.NoError(t, h.Snapshots.Expand(t.Context(), source, 2*VolumeBytes))
		require.EqualValues(t, 2*VolumeBytes, observe(t, h.Backend, source).Size)
	}
	requireSame(t, append(want, make([]byte, VolumeBytes)...), h.Read(t, source), "the device has the new size while it is attached")
	h.Write(t, source, 2*VolumeBytes-4096, pattern(4, 4096))
	require.NoError(t, h.Backend.Deactivate(t.Context(), source))
	require.NoError(t, h.Snapshots.Expand(t.Context(), source, 3*VolumeBytes))
	require.NoError(t, h.Snapshots.Expand(t.Context(), source, VolumeBytes), "a smaller size changes nothing")
	require.EqualValues(t, 3*VolumeBytes, observe(t, h.Backend, source).Size)
	require.Equal(t, pattern(4, 4096), h.Read(t, source)[2*VolumeBytes-4096:2*VolumeBytes])
	requireSame(t, want, h.ReadSnapshot(t, snapshot), "the snapshot does not grow")
	require.Equal(t, fsm.Precondition, reason(h.Snapshots.Expand(t.Context(), NewID(), VolumeBytes)))
}

// collect returns what a map or a delta yields, and checks that it is in order.
func collect(t *testing.T, from int64, ask func(ctx context.Context, yield func(executor.Extent) bool) error) []executor.Extent {
	t.Helper()
	var all []executor.Extent
	at := from
	require.NoError(t, ask(t.Context(), func(e executor.Extent) bool {
		require.GreaterOrEqual(t, e.Offset, at, "ascending, not before the offset, not overlapping")
		require.Positive(t, e.Length)
		at = e.Offset + e.Length
		all = append(all, e)
		return true
	}))
	return all
}

func testMap(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	id := takeSnapshot(t, h, source)
	want := h.ReadSnapshot(t, id)
	for _, from := range []int64{0, 4096, 100 << 10, VolumeBytes / 2, VolumeBytes - 4096, VolumeBytes, 2 * VolumeBytes} {
		found := collect(t, from, func(ctx context.Context, yield func(executor.Extent) bool) error {
			return h.Snapshots.Map(ctx, id, from, yield)
		})
		got := make([]byte, VolumeBytes)
		copy(got, want[:min(from, VolumeBytes)])
		apply(got, want, found)
		requireSame(t, want, got, "the map names all data")
	}
	empty := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), empty, VolumeBytes))
	none := collect(t, 0, func(ctx context.Context, yield func(executor.Extent) bool) error {
		return h.Snapshots.Map(ctx, takeSnapshot(t, h, empty), 0, yield)
	})
	require.Empty(t, none)
	require.Equal(t, fsm.Precondition, reason(h.Snapshots.Map(t.Context(), NewSnapshotID(), 0, nil)))
}

func apply(onto, from []byte, extents []executor.Extent) {
	for _, e := range extents {
		copy(onto[e.Offset:e.Offset+e.Length], from[e.Offset:e.Offset+e.Length])
	}
}

// changedSnapshots returns a base and a target with changes of every kind between them.
func changedSnapshots(t *testing.T, h SnapshotHarness) (base, target fsm.SnapshotID) {
	t.Helper()
	source := writtenVolume(t, h)
	base = takeSnapshot(t, h, source)
	h.Write(t, source, 8192, pattern(6, 4096))                   // over data
	h.Write(t, source, 3<<20+512, pattern(6, 512))               // into a hole, less than a block
	h.Write(t, source, 4<<20, make([]byte, 64<<10))              // zeroes into a hole
	h.Write(t, source, VolumeBytes/2+4096, make([]byte, 4096))   // zeroes over data
	h.Write(t, source, VolumeBytes-4096, pattern(6, 4096))       // at the very end
	h.Discard(t, source, 64<<10, 64<<10)                         // data that becomes a hole
	h.Write(t, source, VolumeBytes/2-16384, pattern(6, 16384+1)) // across a boundary
	require.NoError(t, h.Snapshots.Expand(t.Context(), source, VolumeBytes+1<<20))
	h.Write(t, source, VolumeBytes+8192, pattern(6, 4096)) // beyond the base's end
	return base, takeSnapshot(t, h, source)
}

func testDelta(t *testing.T, h SnapshotHarness) {
	base, target := changedSnapshots(t, h)
	for _, way := range [][2]fsm.SnapshotID{{base, target}, {target, base}} {
		delta := collect(t, 0, func(ctx context.Context, yield func(executor.Extent) bool) error {
			return h.Snapshots.Delta(ctx, way[0], way[1], 0, yield)
		})
		from, want := h.ReadSnapshot(t, way[0]), h.ReadSnapshot(t, way[1])
		longest := max(len(from), len(want))
		got := make([]byte, longest)
		copy(got, from)
		apply(got, append(want, make([]byte, longest-len(want))...), delta)
		requireSame(t, want, got[:len(want)], "rebuilt from the base and the delta")
		var bytes int64
		for _, e := range delta {
			bytes += e.Length
		}
		require.Less(t, bytes, int64(2<<20), "what is equal is left out, more or less")
	}
	require.Equal(t, fsm.Precondition, reason(h.Snapshots.Delta(t.Context(), NewSnapshotID(), target, 0, nil)))
	require.Equal(t, fsm.Precondition, reason(h.Snapshots.Delta(t.Context(), base, NewSnapshotID(), 0, nil)))
}

func testDeltaResumed(t *testing.T, h SnapshotHarness) {
	base, target := changedSnapshots(t, h)
	ask := func(from int64) []executor.Extent {
		return collect(t, from, func(ctx context.Context, yield func(executor.Extent) bool) error {
			return h.ReopenSnapshots().Delta(ctx, base, target, from, yield)
		})
	}
	for _, e := range ask(0) {
		want := h.ReadSnapshot(t, target)
		offsets := []int64{e.Offset, e.Offset + 4096, e.Offset + e.Length}
		if testing.Short() {
			offsets = offsets[1:2]
		}
		for _, from := range offsets {
			got := make([]byte, len(want))
			copy(got, h.ReadSnapshot(t, base))
			copy(got, want[:from]) // the reader has this part already
			apply(got, want, ask(from))
			requireSame(t, want, got, "resumed")
		}
	}
	stopped := 0
	require.NoError(t, h.Snapshots.Delta(t.Context(), base, target, 0, func(executor.Extent) bool { stopped++; return false }))
	require.Equal(t, 1, stopped, "nothing more is yielded to a reader that stops")
}

func testDeltaSelf(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	id := takeSnapshot(t, h, source)
	again := takeSnapshot(t, h, source)
	for _, other := range []fsm.SnapshotID{id, again} {
		require.Empty(t, collect(t, 0, func(ctx context.Context, yield func(executor.Extent) bool) error {
			return h.Snapshots.Delta(ctx, id, other, 0, yield)
		}))
	}
	require.NoError(t, h.Snapshots.RemoveSnapshot(t.Context(), id))
	require.Error(t, h.Snapshots.Delta(t.Context(), id, id, 0, nil), "one that is gone cannot be compared, not even with itself")
}
