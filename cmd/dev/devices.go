package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/loopfile"
)

// detachTimeout is how long the kernel may take to release a loop device.
const detachTimeout = 5 * time.Second

// loop is a loop device over a file of the cluster.
type loop struct {
	name         string // loop3
	major, minor int
	pool         bool // it is the filesystem of a pool
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// releaseDevices unmounts and detaches every loop device whose file is, or was, below a directory. They
// are found in the kernel's tables, not in records.
func releaseDevices(ctx context.Context, folder string) error {
	loops, err := loopsBelow(folder)
	if err != nil {
		return err
	}
	for _, l := range loops {
		if err := l.unmount(); err != nil {
			return err
		}
		if err := l.detach(ctx); err != nil {
			return err
		}
	}
	return nil
}

func loopsBelow(folder string) ([]loop, error) {
	real, err := filepath.EvalSymlinks(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var loops []loop
	for _, path := range files {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENXIO) {
			continue // it was detached meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read the loop devices: %w", err)
		}
		if !strings.HasPrefix(string(text), real+"/") {
			continue
		}
		l, err := readLoop(filepath.Base(filepath.Dir(filepath.Dir(path))))
		if err != nil {
			return nil, err
		}
		l.pool = filepath.Base(string(text)) == loopfile.FilesystemImage+"\n"
		loops = append(loops, l)
	}
	// Volumes on a pool's own filesystem are released before that filesystem.
	slices.SortStableFunc(loops, func(a, b loop) int { return cmp.Compare(boolToInt(a.pool), boolToInt(b.pool)) })
	return loops, nil
}

func readLoop(name string) (loop, error) {
	l := loop{name: name}
	text, err := os.ReadFile(filepath.Join("/sys/block", name, "dev"))
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d:%d", &l.major, &l.minor)
	}
	if err != nil {
		return l, fmt.Errorf("read the number of %s: %w", name, err)
	}
	return l, nil
}

// unmount ends every mount of the device's filesystem and of its device node, the newest first.
func (l loop) unmount() error {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return !l.isMount(m), false })
	if err != nil {
		return fmt.Errorf("read what is mounted: %w", err)
	}
	slices.SortFunc(mounts, func(a, b *mountinfo.Info) int { return cmp.Compare(b.ID, a.ID) })
	for _, m := range mounts {
		if err := unix.Unmount(m.Mountpoint, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w; end what uses it and try again", m.Mountpoint, err)
		}
	}
	return nil
}

// isMount reports whether a mount shows the device: as a filesystem, or its device node bound to a file.
func (l loop) isMount(m *mountinfo.Info) bool {
	if m.Major == l.major && m.Minor == l.minor {
		return true
	}
	if filepath.Base(m.Root) != l.name || m.FSType != "devtmpfs" && m.FSType != "tmpfs" {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(m.Mountpoint, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK &&
		st.Rdev == unix.Mkdev(uint32(l.major), uint32(l.minor)) //nolint:gosec // the kernel's numbers
}

// detach detaches the file from the device and waits until the kernel has released it.
func (l loop) detach(ctx context.Context) error {
	fd, err := unix.Open("/dev/"+l.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/%s: %w", l.name, err)
	}
	err = unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0)
	_ = unix.Close(fd) // the kernel detaches with the last close
	if err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("detach /dev/%s: %w", l.name, err)
	}
	for end := time.Now().Add(detachTimeout); l.attached(); {
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("detach /dev/%s: it is still in use; end what uses it and try again", l.name)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func (l loop) attached() bool {
	_, err := os.Stat(filepath.Join("/sys/block", l.name, "loop", "backing_file"))
	return err == nil
}
