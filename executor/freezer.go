package executor

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Freezer stops a mounted filesystem's writes for a cut (S19): under a record that
// is synced outside that filesystem, and a process of its own that thaws at the
// deadline whatever becomes of this one.
type Freezer interface {
	// Freeze freezes the filesystem mounted at path until the deadline at most.
	Freeze(ctx context.Context, id fsm.VolumeID, path string, until time.Time) (Freeze, error)
	// Recover thaws what earlier processes left frozen; before anything else at start.
	Recover(ctx context.Context) error
}

// Freeze is one freeze of one filesystem. Cut and thaw take one lock.
type Freeze interface {
	// Cut runs cut while the freeze holds; it fails, with nothing kept, when the
	// freeze has ended or ends meanwhile.
	Run(ctx context.Context, cut func(context.Context) error) error
	// Thaw ends it and its process. Ended already: done.
	Thaw(ctx context.Context) error
	// Held is how long it has been frozen.
	Elapsed() time.Duration
}
