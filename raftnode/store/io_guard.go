package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

var errClosed = errors.New("the store is closed")

// ioGuard stands around every call on the disk. The first failure is final: after
// an fsync failed, what a later one says is worth nothing (S133). Full disks are no
// exception; the disk guard of the member keeps them from being reached (S28).
type ioGuard struct {
	failed   atomic.Pointer[error]
	closed   atomic.Bool
	armed    atomic.Bool // false while Open checks: it returns what it finds
	onFatal  func(what string, err error)
	onSync   func(time.Duration)
	watchdog *watchdog
}

func newIOGuard(o Options) *ioGuard {
	return &ioGuard{onFatal: o.OnFatal, onSync: o.OnSync, watchdog: newWatchdog(o.Hang, o.OnHang)}
}

// do runs fn under the watchdog. An error of fn that benign does not accept
// latches, and no call succeeds from then on, also not one that had started before.
func (g *ioGuard) do(operation string, ignored error, fn func() error) error {
	if err := g.err(); err != nil {
		return err
	}
	slot := g.watchdog.begin(operation)
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

// write is call for what has to reach the disk.
func (g *ioGuard) write(operation string, fn func() error) error {
	start := time.Now()
	err := g.do(operation, nil, fn)
	if err == nil {
		g.onSync(time.Since(start))
	}
	return err
}

// err is the error that every call gets after a failure or after Close.
func (g *ioGuard) err() error {
	if p := g.failed.Load(); p != nil {
		return *p
	}
	if g.closed.Load() {
		return errClosed
	}
	return nil
}

// fail latches the first failure and tells about it, once.
func (g *ioGuard) fail(operation string, err error) error {
	err = fmt.Errorf("%s: %w", operation, err)
	if g.closed.Load() {
		return err // the files were closed under a call that was late
	}
	if g.failed.CompareAndSwap(nil, &err) && g.armed.Load() {
		g.onFatal(operation, err)
	}
	return *g.failed.Load()
}

func (g *ioGuard) close() {
	g.closed.Store(true)
	g.watchdog.close()
}

// catchPanic turns a panic of a storage library, and a fault on a page that it has
// mapped, into an error: both mean that the file is damaged (S144).
func catchPanic(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the storage library panicked, the file is damaged: %v", p)
		}
	}()
	return fn()
}
