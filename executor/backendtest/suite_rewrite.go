package backendtest

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// idleVolume is a writtenVolume that is not active any more, and a snapshot of it. It was changed
// and expanded after that.
func idleVolume(t *testing.T, h SnapshotHarness) (id fsm.VolumeID, snapshot fsm.SnapshotID) {
	t.Helper()
	id = writtenVolume(t, h)
	snapshot = takeSnapshot(t, h, id)
	h.Write(t, id, 0, pattern(7, 1<<20))
	h.Discard(t, id, VolumeBytes/2, 64<<10)
	require.NoError(t, h.Snapshots.Expand(t.Context(), id, 2*VolumeBytes))
	h.Write(t, id, 2*VolumeBytes-4096, pattern(4, 4096))
	require.NoError(t, h.Backend.Deactivate(t.Context(), id))
	return id, snapshot
}

func testRevert(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	want := h.ReadSnapshot(t, snapshot)
	require.NotEqual(t, want[:8192], h.Read(t, id)[:8192])
	for range 2 {
		require.NoError(t, h.Snapshots.Revert(t.Context(), id, snapshot))
		require.Equal(t, executor.Device{Exists: true, Size: VolumeBytes}, observe(t, h.Reopen(), id))
		requireSame(t, want, h.Read(t, id), "the image is as the snapshot")
		requireSame(t, want, h.ReadSnapshot(t, snapshot), "the snapshot stays")
	}
	requireNothingUnfinished(t, h)
}

func requireNothingUnfinished(t *testing.T, h SnapshotHarness) {
	t.Helper()
	items, err := h.Reopen().Inventory(t.Context())
	require.NoError(t, err)
	for _, item := range items {
		require.NotEqual(t, executor.KindUnfinished, item.Kind, item.Path)
	}
}

func testRevertAgain(t *testing.T, h SnapshotHarness) {
	id, first := idleVolume(t, h)
	second := takeSnapshot(t, h, id) // which is larger
	for _, to := range []fsm.SnapshotID{first, second, first} {
		write(t, h, id, 4096, pattern(11, 64<<10))
		require.NoError(t, h.Snapshots.Revert(t.Context(), id, to))
		want := h.ReadSnapshot(t, to)
		require.EqualValues(t, len(want), observe(t, h.Backend, id).Size)
		requireSame(t, want, h.Read(t, id), "the image is as the snapshot that was named last")
	}
	require.NotEqual(t, len(h.ReadSnapshot(t, first)), len(h.ReadSnapshot(t, second)))
}

// write writes to a volume that is active only meanwhile.
func write(t *testing.T, h SnapshotHarness, id fsm.VolumeID, at int64, data []byte) {
	t.Helper()
	_, err := h.Backend.Activate(t.Context(), id, false)
	require.NoError(t, err)
	h.Write(t, id, at, data)
	require.NoError(t, h.Backend.Deactivate(t.Context(), id))
}

func testRevertIsOfOneVolume(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	clone, later := NewID(), takeSnapshot(t, h, id)
	require.NoError(t, h.Snapshots.CreateFrom(t.Context(), clone, 2*VolumeBytes, fsm.Source{Volume: id}, 0, nil))
	changed := h.Read(t, id)
	require.NoError(t, h.Snapshots.Revert(t.Context(), id, snapshot))
	requireSame(t, changed, h.Read(t, clone), "the clone of what was reverted is not touched")
	requireSame(t, changed, h.ReadSnapshot(t, later), "nor is the later snapshot")
}

func testRevertedIsAVolume(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	require.NoError(t, h.Snapshots.Revert(t.Context(), id, snapshot))
	want := h.ReadSnapshot(t, snapshot)
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes), "it is adopted")
	write(t, h, id, 1<<20, pattern(9, 8192))
	requireSame(t, want, h.ReadSnapshot(t, snapshot), "the snapshot is not written to through the volume")
	copy(want[1<<20:], pattern(9, 8192))
	require.NoError(t, h.Snapshots.Expand(t.Context(), id, 2*VolumeBytes))
	requireSame(t, append(want, make([]byte, VolumeBytes)...), h.Read(t, id), "zero behind what the snapshot had")
	again := takeSnapshot(t, h, id)
	requireSame(t, h.Read(t, id), h.ReadSnapshot(t, again), "a snapshot of what was reverted")
	for range 2 {
		require.NoError(t, h.Backend.Remove(t.Context(), id))
		require.Equal(t, executor.Device{}, observe(t, h.Reopen(), id))
	}
}

func testRevertInterrupted(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	before := h.Read(t, id)
	h.InterruptRevert(t, id)
	require.Equal(t, executor.Device{Exists: true, Unfinished: true, Size: 2 * VolumeBytes}, observe(t, h.Backend, id))
	requireSame(t, before, h.Read(t, id), "the old image has the name")
	items, err := h.Reopen().Inventory(t.Context())
	require.NoError(t, err)
	var kinds []string
	for _, item := range items {
		if item.Snapshot == "" {
			require.Equal(t, id, item.Volume, "a leftover is the volume's: %s", item.Path)
			kinds = append(kinds, item.Kind)
		}
	}
	require.ElementsMatch(t, []string{executor.KindImage, executor.KindUnfinished}, kinds)
	require.NoError(t, h.Snapshots.Revert(t.Context(), id, snapshot))
	require.Equal(t, executor.Device{Exists: true, Size: VolumeBytes}, observe(t, h.Reopen(), id))
	requireSame(t, h.ReadSnapshot(t, snapshot), h.Read(t, id), "completed")
	requireNothingUnfinished(t, h)
}

func testRevertInterruptedRemoved(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	h.InterruptRevert(t, id)
	require.NoError(t, h.Backend.Remove(t.Context(), id))
	require.Equal(t, executor.Device{}, observe(t, h.Reopen(), id))
	requireNothingUnfinished(t, h)
	require.True(t, observeSnapshot(t, h.Snapshots, snapshot).Exists)
}

func testRevertCancelled(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	before := h.Read(t, id)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.Snapshots.Revert(ctx, id, snapshot), context.Canceled)
	requireSame(t, before, h.Read(t, id), "nothing is changed")
	requireNothingUnfinished(t, h)
}

func testRewriteActive(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	before := h.Read(t, id)
	for _, readOnly := range []bool{false, true} {
		_, err := h.Backend.Activate(t.Context(), id, readOnly)
		require.NoError(t, err)
		for _, b := range []executor.SnapshotBackend{h.Snapshots, h.ReopenSnapshots()} {
			require.Equal(t, fsm.InUse, reason(b.Revert(t.Context(), id, snapshot)))
			require.Equal(t, fsm.InUse, reason(b.Shrink(t.Context(), id, VolumeBytes)))
		}
		d := observe(t, h.Backend, id)
		require.True(t, d.Exists && d.Active() && !d.Unfinished)
		requireSame(t, before, h.Read(t, id), "nothing is changed")
	}
	require.NoError(t, h.Backend.Deactivate(t.Context(), id))
	require.NoError(t, h.Snapshots.Revert(t.Context(), id, snapshot))
}

func testRevertToNothing(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	before, unfinished, never := h.Read(t, id), NewSnapshotID(), NewID()
	h.InterruptSnapshot(t, unfinished)
	for range 2 {
		require.Equal(t, fsm.Precondition, reason(h.Snapshots.Revert(t.Context(), id, NewSnapshotID())))
		require.Equal(t, fsm.Precondition, reason(h.Snapshots.Revert(t.Context(), id, unfinished)))
		require.Equal(t, executor.Device{Exists: true, Size: 2 * VolumeBytes}, observe(t, h.Backend, id))
		require.Equal(t, fsm.Precondition, reason(h.Snapshots.Revert(t.Context(), never, snapshot)))
		require.Equal(t, executor.Device{}, observe(t, h.Backend, never), "a missing image is never made of a snapshot")
	}
	requireSame(t, before, h.Read(t, id), "nothing is changed")
	require.Equal(t, fsm.NotFound, reason(h.Snapshots.Revert(t.Context(), "../"+id, snapshot)))
}

// testShrink: what is cut off is DRBD's metadata, which is small and ends anywhere. The short form has one tail that ends in a
// block of most pools and one that has several: it is for backends in guests, where each takes half a minute, and for the race
// detector. The backends of this machine have the long form among the unit tests.
func testShrink(t *testing.T, h SnapshotHarness) {
	tails := []int64{36 << 10, 5 << 20, 4096, VolumeBytes}
	if testing.Short() {
		tails = tails[:2]
	}
	for _, tail := range tails {
		id := NewID()
		require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes+tail))
		_, err := h.Backend.Activate(t.Context(), id, false)
		require.NoError(t, err)
		h.Write(t, id, VolumeBytes-64<<10, pattern(5, 64<<10))
		h.Write(t, id, VolumeBytes, bytes.Repeat([]byte{0xa5}, int(tail)))
		require.NoError(t, h.Backend.Deactivate(t.Context(), id))
		want := h.Read(t, id)[:VolumeBytes]
		for _, b := range []executor.SnapshotBackend{h.Snapshots, h.ReopenSnapshots()} {
			require.NoError(t, b.Shrink(t.Context(), id, VolumeBytes))
			require.Equal(t, executor.Device{Exists: true, Size: VolumeBytes}, observe(t, h.Reopen(), id))
			requireSame(t, want, h.Read(t, id), "what stays is as it was")
		}
		require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes), "it is as one that was made so large")
		require.NoError(t, h.Snapshots.Expand(t.Context(), id, VolumeBytes+tail))
		requireSame(t, append(bytes.Clone(want), make([]byte, tail)...), h.Read(t, id), "what was cut off does not come back")
		require.NoError(t, h.Backend.Remove(t.Context(), id))
	}
}

func testShrinkShared(t *testing.T, h SnapshotHarness) {
	id, first := idleVolume(t, h)
	before, snapshot := h.Read(t, id), takeSnapshot(t, h, id)
	const size = VolumeBytes/2 + 4096 // in the middle of a block of most pools
	require.NoError(t, h.Snapshots.Shrink(t.Context(), id, size))
	requireSame(t, before[:size], h.Read(t, id), "what stays is as it was")
	requireSame(t, before, h.ReadSnapshot(t, snapshot), "the snapshot has all")
	require.NoError(t, h.Snapshots.Expand(t.Context(), id, 3*VolumeBytes))
	requireSame(t, append(bytes.Clone(before[:size]), make([]byte, 3*VolumeBytes-size)...), h.Read(t, id), "zero behind it")
	for _, to := range []fsm.SnapshotID{snapshot, first} {
		require.NoError(t, h.Snapshots.Revert(t.Context(), id, to))
		requireSame(t, h.ReadSnapshot(t, to), h.Read(t, id), "and it is all reverted")
	}
}

func testShrinkRefused(t *testing.T, h SnapshotHarness) {
	id, _ := idleVolume(t, h)
	before := h.Read(t, id)
	for range 2 {
		require.Equal(t, fsm.Incompatible, reason(h.Snapshots.Shrink(t.Context(), id, 3*VolumeBytes)))
		require.Equal(t, fsm.Invalid, reason(h.Snapshots.Shrink(t.Context(), id, 0)))
		require.Equal(t, fsm.Precondition, reason(h.Snapshots.Shrink(t.Context(), NewID(), VolumeBytes)))
		require.Equal(t, fsm.NotFound, reason(h.Snapshots.Shrink(t.Context(), "../"+id, VolumeBytes)))
		require.NoError(t, h.Snapshots.Shrink(t.Context(), id, 2*VolumeBytes), "it is as large already")
		require.Equal(t, executor.Device{Exists: true, Size: 2 * VolumeBytes}, observe(t, h.Backend, id))
	}
	requireSame(t, before, h.Read(t, id), "nothing is changed")
}

func testAbsentRewrite(t *testing.T, h SnapshotHarness) {
	id, snapshot := idleVolume(t, h)
	h.SetAbsent(t, true)
	for _, b := range []executor.SnapshotBackend{h.Snapshots, h.ReopenSnapshots()} {
		require.Error(t, b.Revert(t.Context(), id, snapshot))
		require.Error(t, b.Shrink(t.Context(), id, VolumeBytes))
	}
	h.RequireUntouched(t)
	h.SetAbsent(t, false)
	require.Equal(t, executor.Device{Exists: true, Size: 2 * VolumeBytes}, observe(t, h.Backend, id))
}
