package freeze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// lockGrace is how long after the deadline the thaw waits for the lock.
const lockGrace = time.Second

// thawRetryInterval is how often a failed thaw is retried.
const thawRetryInterval = 500 * time.Millisecond

// Thaw is the command `holdfast thaw`: it opens the filesystem that the record names, prints the
// ready line for its parent process, and thaws at the deadline, or when the context ends. It
// returns earlier when the record is removed, since the freeze has ended then.
func Thaw(ctx context.Context, path string, ready io.Writer) error {
	r, err := open(path)
	if err != nil {
		return reportReady(ready, err)
	}
	defer r.file.Close()
	target, err := r.reopen()
	if err != nil {
		return reportReady(ready, err)
	}
	defer target.Close()
	// When memory is short this process should be the last one to be killed.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	if _, err := fmt.Fprintln(ready, readyLine(r.record)); err != nil {
		return fmt.Errorf("report that the thaw process of %s is ready: %w", r.Volume, err)
	}
	for r.isLinked() && r.remaining() > 0 && sleep(ctx, min(pollInterval, r.remaining())) == nil {
	}
	return r.finish(context.WithoutCancel(ctx), target)
}

func readyLine(r record) string { return "ready " + r.Token }

func reportReady(ready io.Writer, err error) error {
	fmt.Fprintln(ready, err)
	return err
}

// reopen opens the filesystem that the record names, at the path where it was mounted.
func (r *recordFile) reopen() (*os.File, error) {
	target, found, err := openRoot(r.Path)
	if err != nil {
		return nil, err
	}
	if found.Device != r.Device {
		return nil, errors.Join(fmt.Errorf("another filesystem is mounted on %s by now", r.Path), target.Close())
	}
	return target, nil
}

// finish thaws and removes the record. It waits for the lock up to lockGrace after the deadline
// and then thaws without it, but removes the record only under the lock, so that a freeze which is
// still in progress is thawed as well.
func (r *recordFile) finish(ctx context.Context, target *os.File) error {
	lockCtx, cancel := context.WithTimeout(ctx, lockGrace)
	err := r.lock(lockCtx)
	cancel()
	if err != nil && r.isLinked() {
		_ = thawNow(target) // repeated below, under the lock
		err = r.lock(ctx)
	}
	if err != nil {
		return err
	}
	defer r.unlock()
	for r.isLinked() {
		if err = thawNow(target); err == nil {
			return r.remove()
		}
		if sleep(ctx, thawRetryInterval) != nil {
			return err
		}
	}
	return nil
}

// recoverRecord thaws the filesystem that a record names, wherever it is mounted now.
func recoverRecord(ctx context.Context, path string) error {
	r, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.file.Close()
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	if !r.isLinked() {
		return nil // its own thaw process was faster
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	if r.Boot == boot { // no freeze survives a reboot
		if err := thawAnywhere(r.fsLocation); err != nil {
			return fmt.Errorf("thaw %s, which was left frozen: %w", r.Volume, err)
		}
	}
	return r.remove()
}
