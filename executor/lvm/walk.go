package lvm

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
)

const (
	// walkLife is how long what was found is kept for the next page of a stream, and
	// how long the tools go on for nobody.
	walkLife = 2 * time.Minute
	// walkExtents is how many extents are kept of one stream: 16 MiB. A stream with
	// more runs the tools again, once for as many.
	walkExtents = 1 << 20
	// walksKept is how many streams are kept that nobody is just reading.
	walksKept = 8
)

// errEnough stops a run that found as much as is kept.
var errEnough = errors.New("as much as is kept was found")

// finder finds the extents of a pair from an offset on.
type finder func(ctx context.Context, r pair, from int64, yield func(executor.Extent) error) error

// walks lets the pages of a stream share one run of the tools, which begin at block 0
// however far the page is. Snapshots do not change, so what was found stays true.
type walks struct {
	mu    sync.Mutex
	all   map[pair]*walk
	limit int // of extents
	life  time.Duration
}

func newWalks() *walks {
	return &walks{all: map[pair]*walk{}, limit: walkExtents, life: walkLife}
}

// walk is one run of the tools, and what it found.
type walk struct {
	from   int64
	cancel context.CancelFunc
	users  int // guarded by walks.mu, as are used and timer
	used   time.Time
	timer  *time.Timer

	mu      sync.Mutex
	extents []executor.Extent
	full    bool // there is more behind the last
	ended   bool
	err     error
	changed chan struct{} // closed when something of the above changes
}

// read yields a pair's extents from an offset on. When the context is done before all is
// found, the error is an *executor.InterruptedError and the run goes on for whoever asks next.
func (w *walks) read(ctx context.Context, r pair, from int64, find finder, yield func(executor.Extent) bool) error {
	for at := max(from, 0); ; {
		one := w.take(ctx, r, at, find)
		next, again, err := one.read(ctx, at, yield)
		w.leave(r, one, err)
		if err != nil || !again {
			return err
		}
		at = next
	}
}

// take joins the run that has what is behind an offset, or starts one.
func (w *walks) take(ctx context.Context, r pair, from int64, find finder) *walk {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.all[r]
	if one == nil || !one.covers(from) {
		w.drop(r, one)
		w.forget()
		one = w.start(ctx, r, from, find)
		w.all[r] = one
	}
	one.users++
	one.timer.Stop()
	return one
}

// leave keeps the run for a while, unless it failed.
func (w *walks) leave(r pair, one *walk, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.users--
	one.used = time.Now()
	switch {
	case err != nil && one.failed(), w.all[r] != one:
		w.drop(r, one)
	case one.users == 0:
		one.timer.Reset(w.life)
	}
}

func (w *walks) start(ctx context.Context, r pair, from int64, find finder) *walk {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	one := &walk{from: from, cancel: cancel, changed: make(chan struct{})}
	one.timer = time.AfterFunc(w.life, func() { w.expire(r, one) })
	go func() { one.end(find(ctx, r, from, func(e executor.Extent) error { return one.add(e, w.limit) })) }()
	return one
}

func (w *walks) expire(r pair, one *walk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one.users == 0 {
		w.drop(r, one)
	}
}

// drop stops a run unless somebody still reads it, and keeps it for nobody else.
func (w *walks) drop(r pair, one *walk) {
	if one == nil {
		return
	}
	if w.all[r] == one {
		delete(w.all, r)
	}
	if one.users == 0 {
		one.timer.Stop()
		one.cancel()
	}
}

// forget makes room for one more by dropping the one that was not used for longest.
func (w *walks) forget() {
	var oldest *walk
	var of pair
	idle := 0
	for r, one := range w.all {
		if one.users > 0 {
			continue
		}
		if idle++; oldest == nil || one.used.Before(oldest.used) {
			oldest, of = one, r
		}
	}
	if idle >= walksKept {
		w.drop(of, oldest)
	}
}

// covers tells whether what is behind an offset is, or will be, found by this run.
func (o *walk) covers(from int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return from >= o.from && (!o.full || from < o.last()) && (!o.ended || o.err == nil)
}

func (o *walk) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended && o.err != nil
}

// last is where the last extent ends.
func (o *walk) last() int64 {
	if n := len(o.extents); n > 0 {
		return o.extents[n-1].Offset + o.extents[n-1].Length
	}
	return o.from
}

// add keeps an extent, joined with the one before it.
func (o *walk) add(e executor.Extent, limit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.extents)
	switch {
	case n > 0 && o.last() == e.Offset:
		o.extents[n-1].Length += e.Length
		return nil // nobody is told of the last one before it is whole
	case n == limit:
		o.full = true
		return errEnough
	}
	o.extents = append(o.extents, e)
	o.tell()
	return nil
}

func (o *walk) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.full {
		o.err = err
	}
	o.ended = true
	o.cancel()
	o.tell()
}

func (o *walk) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// read yields what this run finds behind an offset, until it ends. Again says that
// another run has to go on, from next on.
func (o *walk) read(ctx context.Context, at int64, yield func(executor.Extent) bool) (next int64, again bool, err error) {
	for {
		found, reached, ended, changed, err := o.look(at)
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

// clip cuts off what is before an offset, and says where the rest ends.
func clip(e executor.Extent, at int64) (executor.Extent, int64) {
	end := e.Offset + e.Length
	e.Offset = max(e.Offset, at)
	e.Length = end - e.Offset
	return e, end
}

// lookBatch is how many extents are handed out at once.
const lookBatch = 4096

// look is what is known behind an offset: some extents, before which byte all is known,
// and, after the last of them, how the run ended.
func (o *walk) look(at int64) (found []executor.Extent, reached int64, ended bool, changed <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := o.extents
	if n := len(whole); n > 0 && !o.ended {
		reached, whole = whole[n-1].Offset, whole[:n-1] // the last one may go on
	}
	i, _ := slices.BinarySearchFunc(whole, at, func(e executor.Extent, at int64) int {
		if e.Offset+e.Length <= at {
			return -1
		}
		return 1
	})
	rest := whole[i:]
	found = slices.Clone(rest[:min(len(rest), lookBatch)])
	if len(found) < len(rest) {
		reached = 0 // the next look says more
	}
	return found, reached, o.ended, o.changed, o.err
}
