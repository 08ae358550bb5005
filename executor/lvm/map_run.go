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
var errExtentLimit = errors.New("the limit of extents that are kept is reached")

// mapRun is one run of the tools, and the extents that it found.
type mapRun struct {
	from     int64
	cancel   context.CancelFunc
	users    int // guarded by mapRunCache.mu, as are lastUsed and timer
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
func (r *mapRun) covers(from int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return from >= r.from && (!r.full || from < r.last()) && (!r.ended || r.err == nil)
}

func (r *mapRun) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended && r.err != nil
}

// last is the offset at which the last extent ends.
func (r *mapRun) last() int64 {
	if n := len(r.extents); n > 0 {
		return r.extents[n-1].Offset + r.extents[n-1].Length
	}
	return r.from
}

// add appends an extent, merged with the previous one where they are adjacent.
func (r *mapRun) add(e executor.Extent, limit int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.extents)
	switch {
	case n > 0 && r.last() == e.Offset:
		r.extents[n-1].Length += e.Length
		return nil // readers are woken for an extent only when it is complete
	case n == limit:
		r.full = true
		return errExtentLimit
	}
	r.extents = append(r.extents, e)
	r.notify()
	return nil
}

func (r *mapRun) finish(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.full {
		r.err = err
	}
	r.ended = true
	r.cancel()
	r.notify()
}

func (r *mapRun) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// read yields the extents that this run finds behind an offset, until it ends. With restart,
// another run must continue at next.
func (r *mapRun) read(ctx context.Context, at int64, yield func(executor.Extent) bool) (next int64, restart bool, err error) {
	for {
		found, reached, ended, changed, err := r.extentsFrom(at)
		for _, e := range found {
			if e, at = clip(e, at); !yield(e) {
				return at, false, nil
			}
		}
		if at = max(at, reached); ended && len(found) == 0 {
			return at, r.full, err
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
func (r *mapRun) extentsFrom(at int64) (found []executor.Extent, reached int64, ended bool, changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	extents := r.extents
	if n := len(extents); n > 0 && !r.ended {
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
	return found, reached, r.ended, r.changed, r.err
}
