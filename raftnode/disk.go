package raftnode

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// reserveName is the file that is deleted when the disk is full.
const reserveName = "reserve"

// maxGuard is the default guard on large disks, in bytes.
const maxGuard = 256 << 20

// diskGuard refuses commands while the data folder's disk is nearly full (S28, S134):
// before a write fails, because a failed write ends the process.
type diskGuard struct {
	dir            string
	guard, reserve int64
	statfs         func(string) (free, total int64, err error)
	onFull         func()
	log            *slog.Logger

	// full: mutations are refused. spent: appends too; the reserve is gone and
	// nearly nothing is left.
	full, spent atomic.Bool
	free        atomic.Int64
}

// newDiskGuard looks at once, so that a member on a full disk starts, and refuses.
func newDiskGuard(cfg *Config, log *slog.Logger, onFull func()) *diskGuard {
	d := &diskGuard{dir: cfg.Dir, guard: cfg.DiskGuard, reserve: max(0, cfg.DiskReserve), statfs: cfg.statfs, log: log, onFull: func() {}}
	d.look()
	d.onFull = onFull
	return d
}

// look is called each second.
func (d *diskGuard) look() {
	free, total, err := d.statfs(d.dir)
	if err != nil {
		d.log.Warn("ask how full the disk is", "folder", d.dir, "error", err)
		return
	}
	d.free.Store(free)
	guard := d.guard
	if guard == 0 {
		guard = min(total/10, maxGuard)
	}
	d.judge(free, guard)
}

// judge acts on the free space. A full disk is no longer full when the guard and
// an eighth are free beside the reserve.
func (d *diskGuard) judge(free, guard int64) {
	held := d.held()
	enough := guard
	if d.full.Load() {
		enough += guard / 8
	}
	if !held {
		enough += d.reserve
	}
	switch {
	case free >= enough:
		d.recover(held)
	case free < guard || d.full.Load():
		d.refuse(free, guard, held)
	case !held: // room for the guard, none for the reserve
		d.refuse(free, guard, held)
	}
}

func (d *diskGuard) recover(held bool) {
	if !held {
		if err := d.hold(); err != nil {
			d.log.Warn("keep a disk reserve", "error", err)
			return
		}
	}
	d.spent.Store(false)
	if d.full.Swap(false) {
		d.log.Info("the disk has room again", "folder", d.dir)
	}
}

func (d *diskGuard) refuse(free, guard int64, held bool) {
	if !d.full.Swap(true) {
		d.log.Error("the disk is nearly full: refusing commands", "folder", d.dir, "free_bytes", free, "guard_bytes", guard)
		d.onFull()
	}
	if free < guard/4 && held && d.reserve > 0 {
		d.log.Error("deleting the disk reserve", "folder", d.dir, "free_bytes", free)
		if err := os.Remove(d.path()); err != nil {
			d.log.Error("delete the disk reserve", "error", err)
		}
		return
	}
	d.spent.Store(!held && free < guard/8)
}

// refuseWrites is asked before each append to the log.
func (d *diskGuard) refuseWrites() error {
	if d.spent.Load() {
		return fmt.Errorf("%w: %d bytes are left in %s", ErrDiskFull, d.free.Load(), d.dir)
	}
	return nil
}

func (d *diskGuard) path() string { return filepath.Join(d.dir, reserveName) }

// held tells whether the reserve is there, whole.
func (d *diskGuard) held() bool {
	if d.reserve == 0 {
		return true
	}
	info, err := os.Stat(d.path())
	return err == nil && info.Size() == d.reserve
}

// hold makes the reserve, with its blocks.
func (d *diskGuard) hold() (err error) {
	f, err := os.OpenFile(d.path(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			if gone := os.Remove(d.path()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, d.reserve); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("allocate %s: %w", d.path(), err)
	}
	return f.Truncate(d.reserve)
}

// statfs is how much of a disk ordinary writers may use, and its size, in bytes.
func statfs(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}
