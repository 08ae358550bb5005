package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// SnapshotBackend is what a Backend offers beyond volumes: snapshots, content
// sources, growth and block maps. executor/backendtest says what must hold. As with
// Backend, what it makes is named by its id and whole once it has its name: an
// unfinished copy lies in the pool's tmp folder.
type SnapshotBackend interface {
	// SharesBlocks tells whether the pool cuts and clones without copying (reflink).
	SharesBlocks() bool
	// CopyRate is the measured rate of a copy within the pool, in bytes a second.
	CopyRate(ctx context.Context) (int64, error)
	// ObserveSnapshot looks at one snapshot. It changes nothing.
	ObserveSnapshot(ctx context.Context, id fsm.SnapshotID) (Device, error)
	// Allocated is how many bytes of the volume's image hold data.
	Allocated(ctx context.Context, id fsm.VolumeID) (int64, error)
	// Cut makes a snapshot of the volume's image as it is now. One that is there
	// already is adopted. The caller has frozen what must be frozen (S19).
	TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress Progress) error
	// RemoveSnapshot makes a snapshot and what an interrupted cut left go away.
	RemoveSnapshot(ctx context.Context, id fsm.SnapshotID) error
	// CreateFrom makes a volume's image of size bytes from a source in the same
	// pool. Of the source only the first content bytes are taken, 0: all that it has;
	// what is behind those is DRBD's metadata. Whatever the image has beyond what was
	// taken reads as zero, also when it has grown. OutOfRange: more is to be taken than
	// size bytes.
	CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress Progress) error
	// Expand makes the image, and the block device if there is one, larger. One that
	// is as large already is left; it never shrinks.
	Expand(ctx context.Context, id fsm.VolumeID, size int64) error
	// Map yields what a snapshot allocates, in ascending order, from an offset on. Its
	// error is an *Interrupted when the context ended it: what was yielded stays true.
	Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(Extent) bool) error
	// Delta yields what differs between two snapshots of one volume. It never leaves
	// out a difference; it may name a block that is equal. It is interrupted as Map is.
	Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(Extent) bool) error
}

// Progress is told of a copy now and then, in bytes.
type Progress func(done, total int64)

// Extent is a range of a device, in bytes.
type Extent struct{ Offset, Length int64 }

// InterruptedError says that a map or a comparison was ended by its context, when all before
// byte At had been yielded: whoever wants the rest goes on from there.
type InterruptedError struct {
	Offset int64
	Cause  error
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("interrupted at byte %d: %v", e.Offset, e.Cause)
}

// Unwrap is the context's error.
func (e *InterruptedError) Unwrap() error { return e.Cause }

// MapPage is a part of a block map.
type MapPage struct {
	Extents []Extent // ascending, not overlapping
	// More tells that this is not all: what is before Reached was told, and whoever
	// wants the rest goes on from there.
	More       bool
	NextOffset int64
}
