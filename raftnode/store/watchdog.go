package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxWatchedCalls is far above the number of calls that Raft has outstanding at once. A call that
// finds no free slot is not watched; all others are hanging by then.
const maxWatchedCalls = 64

// watchdog detects a call that does not return: a leader whose disk hangs keeps its leadership
// indefinitely, since heartbeats do not use the disk (S132).
//
// Its clock counts its own ticks: it stands still while the process is stopped, so a paused member
// is not mistaken for one whose disk hangs.
type watchdog struct {
	ticks     atomic.Int64 // starts at 1; 0 in a slot means free
	calls     [maxWatchedCalls]watchedCall
	limit     int64 // ticks
	onHang    func(what string)
	done      chan struct{}
	wg        sync.WaitGroup
	closeOnce sync.Once
}

type watchedCall struct {
	since     atomic.Int64
	operation atomic.Pointer[string]
}

const ticksPerHang = 10

func newWatchdog(timeout time.Duration, onHang func(string)) *watchdog {
	w := &watchdog{limit: ticksPerHang, onHang: onHang, done: make(chan struct{})}
	w.ticks.Store(1)
	w.wg.Go(func() { w.run(max(timeout/ticksPerHang, time.Millisecond)) })
	return w
}

// begin registers a call and returns its slot, or -1 when none is free.
func (w *watchdog) begin(operation string) int {
	now := w.ticks.Load()
	for i := range w.calls {
		if w.calls[i].since.CompareAndSwap(0, now) {
			w.calls[i].operation.Store(&operation)
			return i
		}
	}
	return -1
}

func (w *watchdog) end(slot int) {
	if slot >= 0 {
		w.calls[slot].since.Store(0)
	}
}

func (w *watchdog) run(tick time.Duration) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-t.C:
			if operation, hung := w.findHung(w.ticks.Add(1)); hung {
				go w.onHang(operation)
				return
			}
		}
	}
}

// findHung returns a call that has been outstanding for longer than the limit.
func (w *watchdog) findHung(now int64) (string, bool) {
	for i := range w.calls {
		if since := w.calls[i].since.Load(); since != 0 && now-since > w.limit {
			if operation := w.calls[i].operation.Load(); operation != nil {
				return *operation, true
			}
		}
	}
	return "", false
}

// idle tells whether no call is outstanding.
func (w *watchdog) idle() bool {
	for i := range w.calls {
		if w.calls[i].since.Load() != 0 {
			return false
		}
	}
	return true
}

func (w *watchdog) close() {
	w.closeOnce.Do(func() { close(w.done) })
	w.wg.Wait()
}
