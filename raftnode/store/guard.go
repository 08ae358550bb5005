package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

var errClosed = errors.New("the store is closed")

// guard stands around every call on the disk. The first failure is final: after
// an fsync failed, what a later one says is worth nothing (S133). Full disks are no
// exception; the disk guard of the member keeps them from being reached (S28).
type guard struct {
	failed  atomic.Pointer[error]
	closed  atomic.Bool
	armed   atomic.Bool // false while Open checks: it returns what it finds
	onFatal func(what string, err error)
	onSync  func(time.Duration)
	watch   *watchdog
}

func newGuard(o Options) *guard {
	return &guard{onFatal: o.OnFatal, onSync: o.OnSync, watch: newWatchdog(o.Hang, o.OnHang)}
}

// call runs fn under the watchdog. An error of fn that benign does not accept
// latches, and no call succeeds from then on, also not one that was under way.
func (g *guard) call(what string, benign error, fn func() error) error {
	if err := g.refused(); err != nil {
		return err
	}
	slot := g.watch.begin(what)
	err := protect(fn)
	g.watch.end(slot)
	if err != nil && (benign == nil || !errors.Is(err, benign)) {
		return g.fail(what, err)
	}
	if refused := g.refused(); refused != nil {
		return refused
	}
	return err
}

// write is call for what has to reach the disk.
func (g *guard) write(what string, fn func() error) error {
	began := time.Now()
	err := g.call(what, nil, fn)
	if err == nil {
		g.onSync(time.Since(began))
	}
	return err
}

// refused is the error that every call gets after a failure or after Close.
func (g *guard) refused() error {
	if p := g.failed.Load(); p != nil {
		return *p
	}
	if g.closed.Load() {
		return errClosed
	}
	return nil
}

// fail latches the first failure and tells about it, once.
func (g *guard) fail(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if g.closed.Load() {
		return err // the files were closed under a call that was late
	}
	if g.failed.CompareAndSwap(nil, &err) && g.armed.Load() {
		g.onFatal(what, err)
	}
	return *g.failed.Load()
}

func (g *guard) close() {
	g.closed.Store(true)
	g.watch.close()
}

// protect turns a panic of a storage library, and a fault on a page that it has
// mapped, into an error: both mean that the file is damaged (S144).
func protect(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the storage library panicked, the file is damaged: %v", p)
		}
	}()
	return fn()
}
