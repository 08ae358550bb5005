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

// maxDefaultMinFree is the default minimum free space on large disks, in bytes.
const maxDefaultMinFree = 256 << 20

// diskGuard refuses commands while the data folder's disk is nearly full (S28, S134):
// before a write fails, because a failed write ends the process.
type diskGuard struct {
	dir              string
	minFree, reserve int64
	statfs           func(string) (free, total int64, err error)
	onFull           func()
	log              *slog.Logger

	// full: commands are refused. appendsRefused: appends too; the reserve is deleted and
	// nearly nothing is left.
	full, appendsRefused atomic.Bool
	free                 atomic.Int64
}

// newDiskGuard checks at once, so that a member on a full disk starts and refuses commands.
func newDiskGuard(cfg *Config, log *slog.Logger, onFull func()) *diskGuard {
	d := &diskGuard{dir: cfg.Dir, minFree: cfg.DiskGuard, reserve: max(0, cfg.DiskReserve), statfs: cfg.statfs, log: log, onFull: func() {}}
	d.check()
	d.onFull = onFull
	return d
}

// check is called each second.
func (d *diskGuard) check() {
	free, total, err := d.statfs(d.dir)
	if err != nil {
		d.log.Warn("cannot read the disk's free space", "folder", d.dir, "error", err)
		return
	}
	d.free.Store(free)
	minFree := d.minFree
	if minFree == 0 {
		minFree = min(total/10, maxDefaultMinFree)
	}
	d.evaluate(free, minFree)
}

// evaluate acts on the free space. A full disk is no longer full when nine eighths of the
// minimum free space are free beside the reserve.
func (d *diskGuard) evaluate(free, minFree int64) {
	reserved := d.reserveExists()
	needed := minFree
	if d.full.Load() {
		needed += minFree / 8
	}
	if !reserved {
		needed += d.reserve
	}
	switch {
	case free >= needed:
		d.resume(reserved)
	case free < minFree || d.full.Load():
		d.refuseCommands(free, minFree, reserved)
	case !reserved: // enough for the minimum free space, not for the reserve
		d.refuseCommands(free, minFree, reserved)
	}
}

func (d *diskGuard) resume(reserved bool) {
	if !reserved {
		if err := d.createReserve(); err != nil {
			d.log.Warn("cannot create the disk reserve", "error", err)
			return
		}
	}
	d.appendsRefused.Store(false)
	if d.full.Swap(false) {
		d.log.Info("the disk has free space again", "folder", d.dir)
	}
}

func (d *diskGuard) refuseCommands(free, minFree int64, reserved bool) {
	if !d.full.Swap(true) {
		d.log.Error("the disk is nearly full: refusing commands", "folder", d.dir, "free_bytes", free, "guard_bytes", minFree)
		d.onFull()
	}
	if free < minFree/4 && reserved && d.reserve > 0 {
		d.log.Error("the disk is full: deleting the disk reserve", "folder", d.dir, "free_bytes", free)
		if err := os.Remove(d.reservePath()); err != nil {
			d.log.Error("cannot delete the disk reserve", "error", err)
		}
		return
	}
	d.appendsRefused.Store(!reserved && free < minFree/8)
}

// checkAppend is called before each append to the log.
func (d *diskGuard) checkAppend() error {
	if d.appendsRefused.Load() {
		return fmt.Errorf("%w: %d bytes are left in %s", ErrDiskFull, d.free.Load(), d.dir)
	}
	return nil
}

func (d *diskGuard) reservePath() string { return filepath.Join(d.dir, reserveName) }

// reserveExists tells whether the reserve exists in its full size.
func (d *diskGuard) reserveExists() bool {
	if d.reserve == 0 {
		return true
	}
	info, err := os.Stat(d.reservePath())
	return err == nil && info.Size() == d.reserve
}

// createReserve creates the reserve, with its blocks allocated.
func (d *diskGuard) createReserve() (err error) {
	f, err := os.OpenFile(d.reservePath(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			if removeErr := os.Remove(d.reservePath()); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
				err = errors.Join(err, removeErr)
			}
		}
	}()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, d.reserve); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("allocate %s: %w", d.reservePath(), err)
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
