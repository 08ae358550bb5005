package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	recordSuffix  = ".rec"
	tempSuffix    = ".new"
	pollInterval  = 20 * time.Millisecond
	recordVersion = 1
)

// record is what is known of a freeze before it starts, as it is stored. It holds no secret.
type record struct {
	Version int          `json:"version"`
	Volume  fsm.VolumeID `json:"volume"`
	fsLocation
	Boot string `json:"boot"`
	// Deadline is the time of CLOCK_BOOTTIME at which to thaw, in nanoseconds.
	Deadline time.Duration `json:"deadline_ns"`
	// Token distinguishes two freezes of one volume.
	Token string `json:"token"`
}

func (r record) remaining() time.Duration { return r.Deadline - sinceBoot() }

// recordFile is an open record. The flock of its file is the freeze's one lock.
type recordFile struct {
	record
	file *os.File
}

func recordPath(dir string, id fsm.VolumeID) string {
	return filepath.Join(dir, string(id)+recordSuffix)
}

// create writes a record, synced with its directory, and returns it locked.
func create(dir string, r record) (*recordFile, error) {
	path := recordPath(dir, r.Volume)
	f, err := os.OpenFile(path+tempSuffix, os.O_CREATE|os.O_TRUNC|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the freeze record: %w", err)
	}
	text, err := json.Marshal(r)
	if err == nil {
		_, err = f.Write(text)
	}
	if err = errors.Join(err, f.Sync()); err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, path+tempSuffix, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	if err == nil {
		err = durablefile.SyncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the freeze record: %w", err), f.Close())
	}
	return &recordFile{r, f}, nil
}

// open reads an existing record; fs.ErrNotExist when it was removed.
func open(path string) (*recordFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open the freeze record: %w", err)
	}
	r := &recordFile{file: f}
	if err := json.NewDecoder(f).Decode(&r.record); err != nil {
		return nil, errors.Join(fmt.Errorf("read the freeze record %s: %w", path, err), f.Close())
	}
	if r.Version != recordVersion || !r.Volume.Valid() {
		return nil, errors.Join(fmt.Errorf("the freeze record %s was not written by this program", path), f.Close())
	}
	return r, nil
}

// isLinked reports whether the record's file still has its name. While a record exists, no other
// takes its name.
func (r *recordFile) isLinked() bool {
	var st unix.Stat_t
	return unix.Fstat(int(r.file.Fd()), &st) == nil && st.Nlink > 0
}

// lock waits for the lock until the context ends. Two recordFile values of one process exclude
// each other too.
func (r *recordFile) lock(ctx context.Context) error {
	for {
		err := unix.Flock(int(r.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock the freeze of %s: %w", r.Volume, err)
		case sleep(ctx, pollInterval) != nil:
			return fmt.Errorf("wait for the lock of the freeze of %s: %w", r.Volume, ctx.Err())
		}
	}
}

func (r *recordFile) unlock() { _ = unix.Flock(int(r.file.Fd()), unix.LOCK_UN) }

// remove unlinks the record. The caller holds the lock and has thawed.
func (r *recordFile) remove() error {
	if !r.isLinked() {
		return nil
	}
	path := r.file.Name()
	if filepath.Ext(path) == tempSuffix {
		path = path[:len(path)-len(tempSuffix)]
	}
	if err := durablefile.Remove(path); err != nil {
		return fmt.Errorf("remove the freeze record: %w", err)
	}
	return nil
}

// sleep returns the context's error when it ends before the duration.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
