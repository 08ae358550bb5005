package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// SnapshotBackend is what a Backend offers beyond volumes: snapshots, clones, changes of an
// image's content and size, and block maps. executor/backendtest is the contract as tests. As with Backend, what it
// makes is named after its id, and is complete once it has that name: an unfinished copy
// lies in the pool's tmp directory.
type SnapshotBackend interface {
	// SharesBlocks reports whether the pool takes snapshots and clones without copying (reflink).
	SharesBlocks() bool
	// CopyRate is the measured rate of a copy within the pool, in bytes a second.
	CopyRate(ctx context.Context) (int64, error)
	// ObserveSnapshot reports one snapshot's image. It changes nothing.
	ObserveSnapshot(ctx context.Context, id fsm.SnapshotID) (Device, error)
	// Allocated is how many bytes of the volume's image hold data.
	Allocated(ctx context.Context, id fsm.VolumeID) (int64, error)
	// TakeSnapshot takes a snapshot of the volume's image as it is now. One that exists
	// already is adopted. The caller has frozen what must be frozen (S19).
	TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress Progress) error
	// RemoveSnapshot deletes a snapshot and what an interrupted TakeSnapshot left.
	RemoveSnapshot(ctx context.Context, id fsm.SnapshotID) error
	// CreateFrom makes a volume's image of size bytes from a source in the same pool. Only the
	// source's first content bytes are copied, 0: all of it; behind them is DRBD's metadata.
	// Whatever the image has beyond that reads as zero, also after an expansion. OutOfRange:
	// the source has more than size bytes to copy.
	CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress Progress) error
	// Expand makes the image larger, and its block device if it is active. An image that is
	// as large already stays as it is; it never shrinks.
	Expand(ctx context.Context, id fsm.VolumeID, size int64) error
	// Revert gives the volume's image the content and the size of a snapshot of it in the same
	// pool: all that the snapshot has, DRBD's metadata included. It is InUse while the image is
	// active, and Precondition without the image or the snapshot. The snapshot stays. A pool that
	// shares blocks copies nothing.
	//
	// It may be repeated, and then reverts again. Interrupted, it leaves the old image or the
	// reverted one, whole, and Device.Unfinished when it left anything beside it, which the next
	// Revert or Remove of the volume removes.
	Revert(ctx context.Context, id fsm.VolumeID, to fsm.SnapshotID) error
	// Shrink cuts off what the volume's image has beyond size bytes, and never writes the first
	// size bytes. The image is then as large as Create makes one of that size; what an expansion
	// adds reads as zero. An image that is as large already is success, a smaller one is
	// Incompatible. It is InUse while the image is active, and Precondition without an image.
	// Interrupted, it leaves the image as large as it was, and what is to be cut off may read as
	// zero; a repetition completes it.
	Shrink(ctx context.Context, id fsm.VolumeID, size int64) error
	// Map yields the extents that a snapshot allocates, in ascending order, from an offset
	// on. When the context ends, the error is an *InterruptedError and what was yielded is valid.
	Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(Extent) bool) error
	// Delta yields the extents that differ between two snapshots of one volume. It omits no
	// difference, but may yield blocks that are equal. Interruption is as with Map.
	Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(Extent) bool) error
}

// Progress is called now and then during a copy, with bytes.
type Progress func(done, total int64)

// Extent is a range of a device, in bytes.
type Extent struct{ Offset, Length int64 }

// InterruptedError says that the context ended a Map or a Delta. Everything before Offset
// was yielded; a caller continues there.
type InterruptedError struct {
	Offset int64
	Cause  error
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("interrupted at byte %d: %v", e.Offset, e.Cause)
}

// Unwrap returns the context's error.
func (e *InterruptedError) Unwrap() error { return e.Cause }

// MapPage is a part of a snapshot's block map or of a delta.
type MapPage struct {
	Extents []Extent // ascending, not overlapping
	// More means that there is more behind NextOffset; everything before that is in the
	// pages so far, and the next call continues there.
	More       bool
	NextOffset int64
}
