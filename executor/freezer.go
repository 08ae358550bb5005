package executor

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Freezer stops a mounted filesystem's writes while a snapshot is taken (S19). Each freeze
// is recorded on another filesystem, synced, and has a process of its own that thaws at the
// deadline even if this process is gone.
type Freezer interface {
	// Freeze freezes the filesystem mounted at path, no longer than until the deadline.
	Freeze(ctx context.Context, id fsm.VolumeID, path string, until time.Time) (Freeze, error)
	// Frozen reports whether the volume's filesystem is, or may be, frozen now.
	Frozen(id fsm.VolumeID) bool
	// Recover thaws what earlier processes left frozen. It is called before anything else.
	Recover(ctx context.Context) error
}

// Freeze is one freeze of one filesystem. Run and Thaw exclude each other by a lock.
type Freeze interface {
	// Run calls its argument while the freeze holds. When the freeze had ended before, or ended
	// during the call, Run fails, and what was made meanwhile must not be used.
	Run(ctx context.Context, take func(context.Context) error) error
	// Thaw ends the freeze and its process. Ended already is success.
	Thaw(ctx context.Context) error
	// Elapsed is how long the filesystem has been frozen.
	Elapsed() time.Duration
}
