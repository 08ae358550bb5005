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

// activeFreeze is one freeze by this process.
type activeFreeze struct {
	freezer  *Freezer
	record   *recordFile
	target   *os.File
	child    *exec.Cmd
	frozenAt time.Duration // since boot
	duration atomic.Int64  // nanoseconds; 0 while it is frozen
	exited   chan struct{} // closed when the thaw process has exited and all files are closed

	mu    sync.Mutex // for calls within this process; the record's lock is for both processes
	ended bool
}

// begin starts the thaw process, then freezes. It holds the record's lock: if the freeze completes
// late, it is thawed here, or by the thaw process as soon as this process releases the lock, even
// by dying.
func (h *activeFreeze) begin(ctx context.Context) error {
	defer h.record.unlock()
	err := h.freeze(ctx)
	if err == nil {
		return nil
	}
	frozen := h.child != nil && h.frozenAt != 0
	if frozen {
		if thawed := thawNow(h.target); thawed != nil {
			go func() { _ = h.child.Wait() }() // the record is kept, and the thaw process retries
			return errors.Join(err, thawed)
		}
	}
	err = errors.Join(err, h.record.remove())
	if h.child != nil {
		_ = h.child.Process.Kill()
		_ = h.child.Wait()
	}
	return err
}

// freeze freezes the filesystem and sets frozenAt.
func (h *activeFreeze) freeze(ctx context.Context) (err error) {
	if h.child, err = h.freezer.startThawer(ctx, h.record); err != nil {
		return err
	}
	now := sinceBoot()
	if err := freezeNow(h.target); err != nil {
		return err
	}
	h.frozenAt = now
	if h.record.remaining() <= 0 {
		return h.checkDeadline()
	}
	return ctx.Err()
}

func (h *activeFreeze) checkDeadline() error {
	return fsm.Reject(fsm.Busy, "the freeze of %s has ended", h.record.Volume)
}

// Run calls fn, which takes the snapshot, under the record's lock. What fn created counts only
// when Run returns nil: otherwise the caller removes it.
func (h *activeFreeze) Run(ctx context.Context, fn func(context.Context) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return h.checkDeadline()
	}
	if err := h.record.lock(ctx); err != nil {
		return err
	}
	defer h.record.unlock()
	if err := h.checkFrozen(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.record.remaining())
	defer cancel()
	err := fn(ctx)
	if ended := h.checkFrozen(); ended != nil {
		return ended // whatever fn returned: a retry can succeed
	}
	if err != nil {
		return fmt.Errorf("take the snapshot while %s is frozen: %w", h.record.Volume, err)
	}
	return nil
}

// checkFrozen fails when the filesystem has been thawed, by any process.
func (h *activeFreeze) checkFrozen() error {
	if !h.record.isLinked() || h.record.remaining() <= 0 {
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

// Thaw thaws the filesystem and waits until the thaw process has exited. After an error the freeze
// lasts until its deadline at most, and Thaw may be called again.
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
	if err := h.record.lock(ctx); err != nil {
		return err
	}
	defer h.record.unlock()
	if h.record.isLinked() {
		if err := thawNow(h.target); err != nil {
			return err
		}
		h.setDuration()
		if err := h.record.remove(); err != nil {
			return err
		}
	}
	h.close()
	_ = h.child.Process.Kill() // the record is removed, so it has nothing left to do
	return nil
}

func (h *activeFreeze) close() {
	h.ended = true
	h.setDuration()
}

// setDuration records how long the freeze lasted.
func (h *activeFreeze) setDuration() {
	h.duration.CompareAndSwap(0, int64(max(sinceBoot()-h.frozenAt, 1)))
}

// Elapsed returns how long the filesystem has been frozen, or was.
func (h *activeFreeze) Elapsed() time.Duration {
	if d := h.duration.Load(); d != 0 {
		return time.Duration(d)
	}
	return sinceBoot() - h.frozenAt
}

// watch waits for the thaw process. If that exits before the thaw, no process guarantees the
// deadline any more, so the filesystem is thawed now.
func (h *activeFreeze) watch() {
	_ = h.child.Wait()
	if h.record.isLinked() {
		h.thawAtDeadline()
	}
	h.mu.Lock()
	h.close()
	_ = h.target.Close()
	_ = h.record.file.Close()
	h.mu.Unlock()
	h.freezer.release(h.record.Volume)
	close(h.exited)
}

// thawAtDeadline thaws as the thaw process would have, with a lock of its own.
func (h *activeFreeze) thawAtDeadline() {
	r, err := open(recordPath(h.freezer.dir, h.record.Volume))
	if err != nil {
		return // the freeze has ended already
	}
	defer r.file.Close()
	if r.Token == h.record.Token {
		_ = r.finish(context.Background(), h.target)
	}
}
