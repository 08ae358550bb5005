package mount

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Stats measures the filesystem mounted at a path, or a raw device; in bytes and inodes.
func (m *Mounter) Stats(_ context.Context, device executor.Device, path string, block bool) (executor.VolumeStats, error) {
	if block {
		return blockStats(device)
	}
	p, err := m.resolveRoot(path)
	if err != nil {
		return executor.VolumeStats{}, err
	}
	fd, err := p.open(unix.O_DIRECTORY)
	if err != nil {
		return executor.VolumeStats{}, fsm.Reject(fsm.NotFound, "the volume is not at %s", p)
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != device.Number {
		return executor.VolumeStats{}, fsm.Reject(fsm.NotFound, "the volume is not at %s", p)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return executor.VolumeStats{}, fmt.Errorf("measure %s: %w", p, err)
	}
	condition, err := m.condition(p)
	return fileStats(&fs, condition), err
}

func fileStats(fs *unix.Statfs_t, condition fsm.Condition) executor.VolumeStats {
	return executor.VolumeStats{
		Bytes: executor.Usage{
			Total:     int64(fs.Blocks) * fs.Bsize,
			Used:      int64(fs.Blocks-fs.Bfree) * fs.Bsize,
			Available: int64(fs.Bavail) * fs.Bsize,
		},
		Inodes:    executor.Usage{Total: int64(fs.Files), Used: int64(fs.Files - fs.Ffree), Available: int64(fs.Ffree)},
		Condition: condition,
	}
}

// condition is abnormal when the filesystem stopped writing by itself after an error.
func (m *Mounter) condition(p rootedPath) (fsm.Condition, error) {
	lines, err := readTable()
	if err != nil {
		return fsm.Condition{}, err
	}
	top, ok := lines.top(p.real())
	if ok && !top.hasOption("ro") && slices.Contains(strings.Split(top.VFSOptions, ","), "ro") {
		return fsm.Condition{Abnormal: true, Message: "the filesystem went read-only after an error"}, nil
	}
	return fsm.Condition{Message: "mounted"}, nil
}

func blockStats(device executor.Device) (executor.VolumeStats, error) {
	f, err := os.OpenFile(device.Path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return executor.VolumeStats{}, fmt.Errorf("measure %s: %w", device.Path, err)
	}
	defer f.Close()
	size, err := deviceSize(f)
	if err != nil {
		return executor.VolumeStats{}, fmt.Errorf("measure %s: %w", device.Path, err)
	}
	return executor.VolumeStats{Block: true, Bytes: executor.Usage{Total: size}, Condition: fsm.Condition{Message: "attached"}}, nil
}
