package freeze

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.Freeze = (*held)(nil)

// held is one freeze of this process.
type held struct {
	freezer *Freezer
	lease   *lease
	target  *os.File
	child   *exec.Cmd
	began   time.Duration // since boot
	held    atomic.Int64  // nanoseconds; 0 while it lasts
	done    chan struct{} // closed when the child is gone and all is closed

	mu    sync.Mutex // of this process's calls; the lease's lock is for both processes
	ended bool
}

// begin starts the process that thaws, then freezes. It has the lock: a freeze
// that comes late is thawed here, or by the other process as soon as this one
// gives the lock up, be it by dying.
func (h *held) begin(ctx context.Context) error {
	defer h.lease.unlock()
	err := h.freeze(ctx)
	if err == nil {
		return nil
	}
	frozen := h.child != nil && h.began != 0
	if frozen {
		if thawed := thawNow(h.target); thawed != nil {
			go func() { _ = h.child.Wait() }() // the record stays, and the child tries again
			return errors.Join(err, thawed)
		}
	}
	err = errors.Join(err, h.lease.remove())
	if h.child != nil {
		_ = h.child.Process.Kill()
		_ = h.child.Wait()
	}
	return err
}

// freeze sets began once the kernel froze.
func (h *held) freeze(ctx context.Context) (err error) {
	if h.child, err = h.freezer.start(ctx, h.lease); err != nil {
		return err
	}
	now := sinceBoot()
	if err := freezeNow(h.target); err != nil {
		return err
	}
	h.began = now
	if h.lease.left() <= 0 {
		return h.over()
	}
	return ctx.Err()
}

func (h *held) over() error {
	return fsm.Reject(fsm.Busy, "the freeze of %s has ended", h.lease.Volume)
}

// Run runs cut under the lock. What cut made counts only when this returns nil:
// the caller removes it otherwise.
func (h *held) Run(ctx context.Context, cut func(context.Context) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return h.over()
	}
	if err := h.lease.lock(ctx); err != nil {
		return err
	}
	defer h.lease.unlock()
	if err := h.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.lease.left())
	defer cancel()
	err := cut(ctx)
	if ended := h.check(); ended != nil {
		return ended // whatever cut said: a retry is what helps
	}
	if err != nil {
		return fmt.Errorf("cut under the freeze of %s: %w", h.lease.Volume, err)
	}
	return nil
}

// check fails when the freeze has ended, by whomever.
func (h *held) check() error {
	if !h.lease.linked() || h.lease.left() <= 0 {
		return h.over()
	}
	frozen, err := isFrozen(h.target)
	if err != nil {
		return err
	}
	if !frozen {
		return h.over()
	}
	return nil
}

// Thaw ends the freeze and waits until its process is gone. After an error the
// freeze lasts until its deadline at most, and Thaw may be called again.
func (h *held) Thaw(ctx context.Context) error {
	if err := h.thaw(ctx); err != nil {
		return err
	}
	<-h.done
	return nil
}

func (h *held) thaw(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil
	}
	if err := h.lease.lock(ctx); err != nil {
		return err
	}
	defer h.lease.unlock()
	if h.lease.linked() {
		if err := thawNow(h.target); err != nil {
			return err
		}
		h.stopClock()
		if err := h.lease.remove(); err != nil {
			return err
		}
	}
	h.end()
	_ = h.child.Process.Kill() // the record is gone, so it has nothing to do
	return nil
}

func (h *held) end() {
	h.ended = true
	h.stopClock()
}

// stopClock notes how long it lasted.
func (h *held) stopClock() { h.held.CompareAndSwap(0, int64(max(sinceBoot()-h.began, 1))) }

// Elapsed is how long it has been frozen, or was.
func (h *held) Elapsed() time.Duration {
	if d := h.held.Load(); d != 0 {
		return time.Duration(d)
	}
	return sinceBoot() - h.began
}

// watch awaits the process that thaws. When that is gone before its work is done,
// nobody guards the freeze, so it ends now.
func (h *held) watch() {
	_ = h.child.Wait()
	if h.lease.linked() {
		h.guard()
	}
	h.mu.Lock()
	h.end()
	_ = h.target.Close()
	_ = h.lease.file.Close()
	h.mu.Unlock()
	h.freezer.release(h.lease.Volume)
	close(h.done)
}

// guard ends the freeze as the process would have, with a lock of its own.
func (h *held) guard() {
	l, err := open(recordPath(h.freezer.dir, h.lease.Volume))
	if err != nil {
		return // it is gone by now
	}
	defer l.file.Close()
	if l.Token == h.lease.Token {
		_ = l.finish(context.Background(), h.target)
	}
}
