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

var _ executor.Freeze = (*activeFreeze)(nil)

// held is one freeze of this process.
type activeFreeze struct {
	freezer  *Freezer
	lease    *recordFile
	target   *os.File
	child    *exec.Cmd
	frozenAt time.Duration // since boot
	duration atomic.Int64  // nanoseconds; 0 while it lasts
	exited   chan struct{} // closed when the child is gone and all is closed

	mu    sync.Mutex // of this process's calls; the lease's lock is for both processes
	ended bool
}

// begin starts the process that thaws, then freezes. It has the lock: a freeze
// that comes late is thawed here, or by the other process as soon as this one
// gives the lock up, be it by dying.
func (h *activeFreeze) begin(ctx context.Context) error {
	defer h.lease.unlock()
	err := h.freeze(ctx)
	if err == nil {
		return nil
	}
	frozen := h.child != nil && h.frozenAt != 0
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
func (h *activeFreeze) freeze(ctx context.Context) (err error) {
	if h.child, err = h.freezer.startThawer(ctx, h.lease); err != nil {
		return err
	}
	now := sinceBoot()
	if err := freezeNow(h.target); err != nil {
		return err
	}
	h.frozenAt = now
	if h.lease.remaining() <= 0 {
		return h.checkDeadline()
	}
	return ctx.Err()
}

func (h *activeFreeze) checkDeadline() error {
	return fsm.Reject(fsm.Busy, "the freeze of %s has ended", h.lease.Volume)
}

// Run runs cut under the lock. What cut made counts only when this returns nil:
// the caller removes it otherwise.
func (h *activeFreeze) Run(ctx context.Context, fn func(context.Context) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return h.checkDeadline()
	}
	if err := h.lease.lock(ctx); err != nil {
		return err
	}
	defer h.lease.unlock()
	if err := h.checkFrozen(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.lease.remaining())
	defer cancel()
	err := fn(ctx)
	if ended := h.checkFrozen(); ended != nil {
		return ended // whatever cut said: a retry is what helps
	}
	if err != nil {
		return fmt.Errorf("cut under the freeze of %s: %w", h.lease.Volume, err)
	}
	return nil
}

// checkFrozen fails when the freeze has ended, by whomever.
func (h *activeFreeze) checkFrozen() error {
	if !h.lease.isLinked() || h.lease.remaining() <= 0 {
		return h.checkDeadline()
	}
	frozen, err := isFrozen(h.target)
	if err != nil {
		return err
	}
	if !frozen {
		return h.checkDeadline()
	}
	return nil
}

// Thaw ends the freeze and waits until its process is gone. After an error the
// freeze lasts until its deadline at most, and Thaw may be called again.
func (h *activeFreeze) Thaw(ctx context.Context) error {
	if err := h.thaw(ctx); err != nil {
		return err
	}
	<-h.exited
	return nil
}

func (h *activeFreeze) thaw(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil
	}
	if err := h.lease.lock(ctx); err != nil {
		return err
	}
	defer h.lease.unlock()
	if h.lease.isLinked() {
		if err := thawNow(h.target); err != nil {
			return err
		}
		h.setDuration()
		if err := h.lease.remove(); err != nil {
			return err
		}
	}
	h.close()
	_ = h.child.Process.Kill() // the record is gone, so it has nothing to do
	return nil
}

func (h *activeFreeze) close() {
	h.ended = true
	h.setDuration()
}

// setDuration notes how long it lasted.
func (h *activeFreeze) setDuration() {
	h.duration.CompareAndSwap(0, int64(max(sinceBoot()-h.frozenAt, 1)))
}

// Elapsed is how long it has been frozen, or was.
func (h *activeFreeze) Elapsed() time.Duration {
	if d := h.duration.Load(); d != 0 {
		return time.Duration(d)
	}
	return sinceBoot() - h.frozenAt
}

// watch awaits the process that thaws. When that is gone before its work is done,
// nobody guards the freeze, so it ends now.
func (h *activeFreeze) watch() {
	_ = h.child.Wait()
	if h.lease.isLinked() {
		h.thawAtDeadline()
	}
	h.mu.Lock()
	h.close()
	_ = h.target.Close()
	_ = h.lease.file.Close()
	h.mu.Unlock()
	h.freezer.release(h.lease.Volume)
	close(h.exited)
}

// thawAtDeadline ends the freeze as the process would have, with a lock of its own.
func (h *activeFreeze) thawAtDeadline() {
	l, err := open(recordPath(h.freezer.dir, h.lease.Volume))
	if err != nil {
		return // it is gone by now
	}
	defer l.file.Close()
	if l.Token == h.lease.Token {
		_ = l.finish(context.Background(), h.target)
	}
}
