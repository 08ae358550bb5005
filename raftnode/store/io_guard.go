package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

var errClosed = errors.New("the store is closed")

// ioGuard wraps every call that does I/O. The first failure is final: after a failed fsync, a
// later successful one proves nothing (S133). ENOSPC is no exception; the minimum of free space
// that the member keeps prevents it (S28).
type ioGuard struct {
	failed   atomic.Pointer[error]
	closed   atomic.Bool
	armed    atomic.Bool // false while Open checks the files and returns the errors itself
	onFatal  func(what string, err error)
	onSync   func(time.Duration)
	watchdog *watchdog
	begin    func(operation string) // of a simulated disk, which may block; nil without one
}

func newIOGuard(o Options) *ioGuard {
	g := &ioGuard{onFatal: o.OnFatal, onSync: o.OnSync, watchdog: newWatchdog(o.Hang, o.OnHang)}
	if o.Disk != nil {
		g.begin = o.Disk.Begin
	}
	return g
}

// do runs fn under the watchdog. An error other than ignored latches, and no call succeeds from
// then on, not even one that had already started.
func (g *ioGuard) do(operation string, ignored error, fn func() error) error {
	if err := g.err(); err != nil {
		return err
	}
	slot := g.watchdog.begin(operation)
	if g.begin != nil {
		g.begin(operation)
	}
	err := catchPanic(fn)
	g.watchdog.end(slot)
	if err != nil && (ignored == nil || !errors.Is(err, ignored)) {
		return g.fail(operation, err)
	}
	if failed := g.err(); failed != nil {
		return failed
	}
	return err
}

// write is do for a call that must reach the disk: no error is ignored.
func (g *ioGuard) write(operation string, fn func() error) error {
	start := time.Now()
	err := g.do(operation, nil, fn)
	if err == nil {
		g.onSync(time.Since(start))
	}
	return err
}

// err is the error that every call returns after a failure or after Close; nil before.
func (g *ioGuard) err() error {
	if p := g.failed.Load(); p != nil {
		if g.begin != nil {
			g.begin(AfterFailure)
		}
		return *p
	}
	if g.closed.Load() {
		return errClosed
	}
	return nil
}

// fail latches the first failure and reports it, once.
func (g *ioGuard) fail(operation string, err error) error {
	err = fmt.Errorf("%s: %w", operation, err)
	if g.closed.Load() {
		return err // a call that was still running when Close closed the files
	}
	if g.failed.CompareAndSwap(nil, &err) && g.armed.Load() {
		g.onFatal(operation, err)
	}
	return *g.failed.Load()
}

// close tells whether every operation since the files were checked has succeeded and returned. It is
// false when it is called again.
func (g *ioGuard) close() (inOrder bool) {
	first := !g.closed.Swap(true)
	g.watchdog.close()
	return first && g.armed.Load() && g.failed.Load() == nil && g.watchdog.idle()
}

// catchPanic turns a panic of a storage library, or a fault on a page that it has mapped, into an
// error: both mean that the file is damaged (S144).
func catchPanic(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the storage library panicked, the file is damaged: %v", p)
		}
	}()
	return fn()
}
