package backendtest

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// SnapshotHarness is a backend that has snapshots, with functions that write to its volumes and
// read its content.
type SnapshotHarness struct {
	Harness
	// Snapshots is the same backend as Harness.Backend.
	Snapshots executor.SnapshotBackend
	// ReopenSnapshots opens the pool again, as a restarted process does.
	ReopenSnapshots func() executor.SnapshotBackend
	// Write writes to an activated volume's device and leaves the data unsynced.
	Write func(t *testing.T, id fsm.VolumeID, at int64, data []byte)
	// Discard makes a range of an activated volume's device read as zero.
	Discard func(t *testing.T, id fsm.VolumeID, at, length int64)
	// Read returns the content of a volume, through its device when it is activated.
	Read func(t *testing.T, id fsm.VolumeID) []byte
	// ReadSnapshot returns the content of a snapshot.
	ReadSnapshot func(t *testing.T, id fsm.SnapshotID) []byte
	// InterruptSnapshot leaves what a crash during TakeSnapshot leaves.
	InterruptSnapshot func(t *testing.T, id fsm.SnapshotID)
	// InterruptRevert leaves what a crash during Revert leaves before it replaced the image.
	InterruptRevert func(t *testing.T, id fsm.VolumeID)
}

// NewSnapshotID returns a new, random snapshot id.
func NewSnapshotID() fsm.SnapshotID { return fsm.SnapshotIDFrom(uuid.New()) }

// RunSnapshotSuite runs the tests of snapshots, sources, expansion and maps on the backends that
// start returns.
func RunSnapshotSuite(t *testing.T, start func(t *testing.T) SnapshotHarness) {
	for name, test := range map[string]func(*testing.T, SnapshotHarness){
		"a snapshot keeps what the volume was":                            testTakeSnapshot,
		"taking a snapshot twice takes it once, also after a restart":     testTakeSnapshotTwice,
		"a snapshot outlives its source":                                  testSnapshotOutlivesSource,
		"TestS19 a snapshot that a crash left unfinished does not exist":  testTakeSnapshotInterrupted,
		"TestS19 a cancelled snapshot leaves none":                        testTakeSnapshotCancelled,
		"removing a snapshot twice succeeds":                              testRemoveSnapshot,
		"there is no snapshot without a source":                           testTakeSnapshotOfNothing,
		"the inventory lists snapshots":                                   testSnapshotInventory,
		"a volume from a snapshot has its bytes and is independent of it": testFromSnapshot,
		"a clone has the bytes of its source, also when it is larger":     testFromVolume,
		"no volume is created from a missing or larger source":            testFromNothing,
		"what is behind a source's content is not copied":                 testFromContent,
		"expanding extends image and device, and never shrinks them":      testExpand,
		"a reverted image is its snapshot, in content and in size":        testRevert,
		"an image is reverted to any of its snapshots, and again":         testRevertAgain,
		"a revert leaves other volumes and snapshots as they are":         testRevertIsOfOneVolume,
		"a reverted image is activated, expanded, snapshotted, removed":   testRevertedIsAVolume,
		"an interrupted revert leaves the old image, and is completed":    testRevertInterrupted,
		"what an interrupted revert left is removed with the volume":      testRevertInterruptedRemoved,
		"a cancelled revert leaves the old image":                         testRevertCancelled,
		"an active image is neither reverted nor shrunk":                  testRewriteActive,
		"nothing is reverted to a missing snapshot, nor what is missing":  testRevertToNothing,
		"shrinking keeps what stays, and an expansion adds zeroes":        testShrink,
		"shrinking off what a snapshot shares leaves the snapshot":        testShrinkShared,
		"an image is not shrunk to a size that it does not have":          testShrinkRefused,
		"TestS12 in an absent pool nothing is reverted or shrunk":         testAbsentRewrite,
		"the map names all data, in order, from any offset":               testMap,
		"a target is rebuilt from its base and the delta byte for byte":   testDelta,
		"a delta is resumed at every offset":                              testDeltaResumed,
		"a snapshot does not differ from itself":                          testDeltaSelf,
		"the rate of a copy is measured":                                  testCopyRate,
		"TestS61 what is discarded is not allocated any more":             testAllocated,
		"TestS12 in an absent pool nothing is snapshotted or cloned":      testAbsentSnapshots,
		"an invalid snapshot id never becomes a path":                     testBadSnapshotID,
	} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// pattern returns data that identifies a write by its seed.
func pattern(seed byte, length int) []byte {
	b := make([]byte, length)
	for i := range b {
		b[i] = seed ^ byte(i) ^ byte(i>>8)*31
	}
	b[0] = seed | 1
	return b
}

// writtenVolume returns an activated volume with data at its beginning, middle and end.
func writtenVolume(t *testing.T, h SnapshotHarness) fsm.VolumeID {
	t.Helper()
	id := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	_, err := h.Backend.Activate(t.Context(), id, false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Backend.Deactivate(context.WithoutCancel(t.Context()), id) })
	h.Write(t, id, 0, pattern(1, 300<<10))
	h.Write(t, id, VolumeBytes/2, pattern(2, 64<<10))
	h.Write(t, id, VolumeBytes-8192, pattern(3, 8192))
	return id
}

func takeSnapshot(t *testing.T, h SnapshotHarness, source fsm.VolumeID) fsm.SnapshotID {
	t.Helper()
	id := NewSnapshotID()
	require.NoError(t, h.Snapshots.TakeSnapshot(t.Context(), source, id, nil))
	return id
}

func observeSnapshot(t *testing.T, b executor.SnapshotBackend, id fsm.SnapshotID) executor.Device {
	t.Helper()
	d, err := b.ObserveSnapshot(t.Context(), id)
	require.NoError(t, err)
	return d
}

func requireSame(t *testing.T, want, got []byte, message string) {
	t.Helper()
	require.Len(t, got, len(want), message)
	require.True(t, bytes.Equal(want, got), message)
}

func testTakeSnapshot(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	want := h.Read(t, source)
	id := NewSnapshotID()
	require.False(t, observeSnapshot(t, h.Snapshots, id).Exists)
	var last int64
	require.NoError(t, h.Snapshots.TakeSnapshot(t.Context(), source, id, func(done, total int64) {
		require.LessOrEqual(t, done, total)
		require.Greater(t, done, last)
		last = done
	}))
	if !h.Snapshots.SharesBlocks() {
		require.Positive(t, last, "a copy reports its progress")
	}
	require.Equal(t, executor.Device{Exists: true, Size: VolumeBytes, ReadOnly: true}, observeSnapshot(t, h.Snapshots, id))
	h.Write(t, source, 4096, pattern(9, 1<<20))
	requireSame(t, want, h.ReadSnapshot(t, id), "the source was written to after the snapshot")
	require.NotEqual(t, want[:8192], h.Read(t, source)[:8192])
}

func testTakeSnapshotTwice(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	id := takeSnapshot(t, h, source)
	want := h.ReadSnapshot(t, id)
	h.Write(t, source, 0, pattern(7, 1<<20))
	for _, b := range []executor.SnapshotBackend{h.Snapshots, h.ReopenSnapshots()} {
		require.NoError(t, b.TakeSnapshot(t.Context(), source, id, nil))
		requireSame(t, want, h.ReadSnapshot(t, id), "the first snapshot is adopted")
	}
}

func testSnapshotOutlivesSource(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	want := h.Read(t, source)
	id := takeSnapshot(t, h, source)
	require.NoError(t, h.Backend.Deactivate(t.Context(), source))
	require.NoError(t, h.Backend.Remove(t.Context(), source))
	requireSame(t, want, h.ReadSnapshot(t, id), "the source is gone")
	require.NoError(t, h.Snapshots.TakeSnapshot(t.Context(), source, id, nil), "it is adopted although its source is gone")
}

func testTakeSnapshotInterrupted(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	want := h.Read(t, source)
	id, never := NewSnapshotID(), NewSnapshotID()
	h.InterruptSnapshot(t, id)
	h.InterruptSnapshot(t, never)
	require.Equal(t, executor.Device{Unfinished: true}, observeSnapshot(t, h.Snapshots, id))
	require.NoError(t, h.Snapshots.TakeSnapshot(t.Context(), source, id, nil))
	require.False(t, observeSnapshot(t, h.Snapshots, id).Unfinished)
	requireSame(t, want, h.ReadSnapshot(t, id), "what was left over is not used")
	require.NoError(t, h.Snapshots.RemoveSnapshot(t.Context(), never))
	require.Equal(t, executor.Device{}, observeSnapshot(t, h.Snapshots, never))
}

func testTakeSnapshotCancelled(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	id := NewSnapshotID()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.Snapshots.TakeSnapshot(ctx, source, id, nil), context.Canceled)
	require.False(t, observeSnapshot(t, h.Snapshots, id).Exists)
	ctx, cancel = context.WithCancel(t.Context())
	err := h.Snapshots.TakeSnapshot(ctx, source, id, func(int64, int64) { cancel() })
	cancel()
	require.Equal(t, err == nil, observeSnapshot(t, h.Snapshots, id).Exists, "completely or not at all")
	clone := NewID()
	require.ErrorIs(t, h.Snapshots.CreateFrom(ctx, clone, VolumeBytes, fsm.Source{Volume: source}, 0, nil), context.Canceled)
	require.False(t, observe(t, h.Backend, clone).Exists)
}

func testRemoveSnapshot(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	want := h.Read(t, source)
	id, other := takeSnapshot(t, h, source), takeSnapshot(t, h, source)
	for range 2 {
		require.NoError(t, h.Snapshots.RemoveSnapshot(t.Context(), id))
		require.Equal(t, executor.Device{}, observeSnapshot(t, h.Snapshots, id))
	}
	requireSame(t, want, h.ReadSnapshot(t, other), "the other snapshot is not touched")
	requireSame(t, want, h.Read(t, source), "the source is not touched")
}

func testTakeSnapshotOfNothing(t *testing.T, h SnapshotHarness) {
	id := NewSnapshotID()
	for range 2 {
		require.Equal(t, fsm.Precondition, reason(h.Snapshots.TakeSnapshot(t.Context(), NewID(), id, nil)))
		require.Equal(t, executor.Device{}, observeSnapshot(t, h.Snapshots, id))
	}
	_, err := h.Snapshots.Allocated(t.Context(), NewID())
	require.Equal(t, fsm.Precondition, reason(err))
}

func testSnapshotInventory(t *testing.T, h SnapshotHarness) {
	id, unfinished := takeSnapshot(t, h, writtenVolume(t, h)), NewSnapshotID()
	h.InterruptSnapshot(t, unfinished)
	items, err := h.Backend.Inventory(t.Context())
	require.NoError(t, err)
	found := map[fsm.SnapshotID]string{}
	for _, item := range items {
		if item.Snapshot != "" {
			require.NotEmpty(t, item.Path)
			require.Empty(t, item.Volume)
			found[item.Snapshot] = item.Kind
		}
	}
	require.Equal(t, map[fsm.SnapshotID]string{id: executor.KindSnapshot, unfinished: executor.KindUnfinished}, found)
}

func testCopyRate(t *testing.T, h SnapshotHarness) {
	first, err := h.Snapshots.CopyRate(t.Context())
	require.NoError(t, err)
	require.Positive(t, first)
	again, err := h.Snapshots.CopyRate(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again, "it is measured once")
	source := writtenVolume(t, h)
	takeSnapshot(t, h, source) // which writes the data to the image
	allocated, err := h.Snapshots.Allocated(t.Context(), source)
	require.NoError(t, err)
	require.GreaterOrEqual(t, allocated, int64(372<<10))
	require.Less(t, allocated, int64(VolumeBytes))
	items, err := h.Backend.Inventory(t.Context())
	require.NoError(t, err)
	for _, item := range items {
		require.NotEqual(t, executor.KindUnfinished, item.Kind, "measuring leaves nothing: %s", item.Path)
	}
}

// testAllocated: usage comes from the pool's own allocation, and falls by what was discarded.
func testAllocated(t *testing.T, h SnapshotHarness) {
	const written, discarded = 2 << 20, 1 << 20
	id := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	_, err := h.Backend.Activate(t.Context(), id, false)
	require.NoError(t, err)
	h.Write(t, id, 1<<20, pattern(3, written))
	require.NoError(t, h.Snapshots.RemoveSnapshot(t.Context(), takeSnapshot(t, h, id))) // taking it writes the data to the image
	before := allocated(t, h, id)
	require.GreaterOrEqual(t, before, int64(written))
	h.Discard(t, id, 1<<20, discarded)
	after := allocated(t, h, id)
	require.GreaterOrEqual(t, before-after, int64(discarded*95/100))
	require.GreaterOrEqual(t, after, int64(written-discarded), "what lies beside it stays")
	requireSame(t, pattern(3, written)[discarded:], h.Read(t, id)[1<<20+discarded:1<<20+written], "and is as it was")
}

func allocated(t *testing.T, h SnapshotHarness, id fsm.VolumeID) int64 {
	t.Helper()
	bytes, err := h.Snapshots.Allocated(t.Context(), id)
	require.NoError(t, err)
	return bytes
}

func testAbsentSnapshots(t *testing.T, h SnapshotHarness) {
	source := writtenVolume(t, h)
	id := takeSnapshot(t, h, source)
	require.NoError(t, h.Backend.Deactivate(t.Context(), source))
	h.SetAbsent(t, true)
	for _, b := range []executor.SnapshotBackend{h.Snapshots, h.ReopenSnapshots()} {
		require.Equal(t, executor.Device{Absent: true}, observeSnapshot(t, b, id))
		require.Error(t, b.TakeSnapshot(t.Context(), source, NewSnapshotID(), nil))
		require.Error(t, b.RemoveSnapshot(t.Context(), id))
		require.Error(t, b.CreateFrom(t.Context(), NewID(), VolumeBytes, fsm.Source{Snapshot: id}, 0, nil))
		require.Error(t, b.Expand(t.Context(), source, 2*VolumeBytes))
		require.Error(t, b.Map(t.Context(), id, 0, func(executor.Extent) bool { return true }))
		require.Error(t, b.Delta(t.Context(), id, id, 0, func(executor.Extent) bool { return true }))
	}
	h.RequireUntouched(t)
	h.SetAbsent(t, false)
	require.True(t, observeSnapshot(t, h.Snapshots, id).Exists)
}

func testBadSnapshotID(t *testing.T, h SnapshotHarness) {
	source, inactive := writtenVolume(t, h), NewID()
	require.NoError(t, h.Backend.Create(t.Context(), inactive, VolumeBytes))
	for _, id := range []fsm.SnapshotID{"", "..", "../../etc/passwd", "hs-x", NewSnapshotID() + "/..", fsm.SnapshotID(NewID())} {
		_, err := h.Snapshots.ObserveSnapshot(t.Context(), id)
		require.Equal(t, fsm.NotFound, reason(err))
		require.Equal(t, fsm.NotFound, reason(h.Snapshots.TakeSnapshot(t.Context(), source, id, nil)))
		require.Equal(t, fsm.NotFound, reason(h.Snapshots.RemoveSnapshot(t.Context(), id)))
		require.Equal(t, fsm.NotFound, reason(h.Snapshots.Revert(t.Context(), inactive, id)))
		require.Equal(t, fsm.NotFound, reason(h.Snapshots.CreateFrom(t.Context(), NewID(), VolumeBytes, fsm.Source{Snapshot: id}, 0, nil)))
	}
}
