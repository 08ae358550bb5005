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

// lockGrace is how long after the deadline the lock is waited for.
const lockGrace = time.Second

// thawRetryInterval is how often a thaw that failed is tried again.
const thawRetryInterval = 500 * time.Millisecond

// Thaw is the work of `holdfast thaw`: it opens what the record names, says so to
// the one that started it, and thaws at the deadline, or when the context ends.
// It returns earlier when the record is removed, for then the freeze has ended.
func Thaw(ctx context.Context, path string, ready io.Writer) error {
	l, err := open(path)
	if err != nil {
		return reportReady(ready, err)
	}
	defer l.file.Close()
	target, err := l.reopen()
	if err != nil {
		return reportReady(ready, err)
	}
	defer target.Close()
	// When memory is short this process is the last that should be ended.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	if _, err := fmt.Fprintln(ready, readyLine(l.record)); err != nil {
		return fmt.Errorf("say that the thaw of %s is ready: %w", l.Volume, err)
	}
	for l.isLinked() && l.remaining() > 0 && sleep(ctx, min(pollInterval, l.remaining())) == nil {
	}
	return l.finish(context.WithoutCancel(ctx), target)
}

func readyLine(r record) string { return "ready " + r.Token }

func reportReady(ready io.Writer, err error) error {
	fmt.Fprintln(ready, err)
	return err
}

// reopen opens the filesystem that the record names, where it was mounted.
func (l *recordFile) reopen() (*os.File, error) {
	target, found, err := openRoot(l.Path)
	if err != nil {
		return nil, err
	}
	if found.Device != l.Device {
		return nil, errors.Join(fmt.Errorf("another filesystem is mounted on %s by now", l.Path), target.Close())
	}
	return target, nil
}

// finish thaws and ends the record. It takes the lock; who holds it for longer
// than the grace is not waited for, but the record ends under the lock only, so
// that a freeze which is under way is thawed after all.
func (l *recordFile) finish(ctx context.Context, target *os.File) error {
	patience, cancel := context.WithTimeout(ctx, lockGrace)
	err := l.lock(patience)
	cancel()
	if err != nil && l.isLinked() {
		_ = thawNow(target) // tried again below, under the lock
		err = l.lock(ctx)
	}
	if err != nil {
		return err
	}
	defer l.unlock()
	for l.isLinked() {
		if err = thawNow(target); err == nil {
			return l.remove()
		}
		if sleep(ctx, thawRetryInterval) != nil {
			return err
		}
	}
	return nil
}

// recoverRecord thaws what a record names, wherever that is by now.
func recoverRecord(ctx context.Context, path string) error {
	l, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.file.Close()
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if !l.isLinked() {
		return nil // its own process was faster
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	if l.Boot == boot { // a freeze does not outlive the kernel
		if err := thawAnywhere(l.fsLocation); err != nil {
			return fmt.Errorf("thaw %s, which was left frozen: %w", l.Volume, err)
		}
	}
	return l.remove()
}
