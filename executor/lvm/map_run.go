package lvm

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
)

// errExtentLimit stops a run that found maxRunExtents.
var errExtentLimit = errors.New("as much as is kept was found")

// mapRun is one run of the tools, and the extents that it found.
type mapRun struct {
	from     int64
	cancel   context.CancelFunc
	users    int // guarded by mapRunCache.mu, as are used and timer
	lastUsed time.Time
	timer    *time.Timer

	mu      sync.Mutex
	extents []executor.Extent
	full    bool // the limit was reached: there are more extents behind the last
	ended   bool
	err     error
	changed chan struct{} // closed when any of the fields above changes
}

// covers reports whether this run has found, or will find, the extents behind an offset.
func (o *mapRun) covers(from int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return from >= o.from && (!o.full || from < o.last()) && (!o.ended || o.err == nil)
}

func (o *mapRun) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended && o.err != nil
}

// last is the offset at which the last extent ends.
func (o *mapRun) last() int64 {
	if n := len(o.extents); n > 0 {
		return o.extents[n-1].Offset + o.extents[n-1].Length
	}
	return o.from
}

// add appends an extent, merged with the previous one where they are adjacent.
func (o *mapRun) add(e executor.Extent, limit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.extents)
	switch {
	case n > 0 && o.last() == e.Offset:
		o.extents[n-1].Length += e.Length
		return nil // readers are woken for an extent only when it is complete
	case n == limit:
		o.full = true
		return errExtentLimit
	}
	o.extents = append(o.extents, e)
	o.notify()
	return nil
}

func (o *mapRun) finish(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.full {
		o.err = err
	}
	o.ended = true
	o.cancel()
	o.notify()
}

func (o *mapRun) notify() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// read yields the extents that this run finds behind an offset, until it ends. With restart,
// another run must continue at next.
func (o *mapRun) read(ctx context.Context, at int64, yield func(executor.Extent) bool) (next int64, restart bool, err error) {
	for {
		found, reached, ended, changed, err := o.extentsFrom(at)
		for _, e := range found {
			if e, at = clip(e, at); !yield(e) {
				return at, false, nil
			}
		}
		if at = max(at, reached); ended && len(found) == 0 {
			return at, o.full, err
		}
		if len(found) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return at, false, &executor.InterruptedError{Offset: at, Cause: ctx.Err()}
		}
	}
}

// clip removes what lies before an offset, and returns where the rest ends.
func clip(e executor.Extent, at int64) (executor.Extent, int64) {
	end := e.Offset + e.Length
	e.Offset = max(e.Offset, at)
	e.Length = end - e.Offset
	return e, end
}

// extentBatch is how many extents are handed to a reader at once.
const extentBatch = 4096

// extentsFrom returns what is known behind an offset: some extents, the byte up to which all are
// known, and, once there are no more, how the run ended.
func (o *mapRun) extentsFrom(at int64) (found []executor.Extent, reached int64, ended bool, changed <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	extents := o.extents
	if n := len(extents); n > 0 && !o.ended {
		reached, extents = extents[n-1].Offset, extents[:n-1] // the last one may still be extended
	}
	i, _ := slices.BinarySearchFunc(extents, at, func(e executor.Extent, at int64) int {
		if e.Offset+e.Length <= at {
			return -1
		}
		return 1
	})
	behind := extents[i:]
	found = slices.Clone(behind[:min(len(behind), extentBatch)])
	if len(found) < len(behind) {
		reached = 0 // the next call returns more
	}
	return found, reached, o.ended, o.changed, o.err
}
