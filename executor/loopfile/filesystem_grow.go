package loopfile

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// minFreeBytes is the minimum free space of a pool's own filesystem while there is space
	// below: more than writers fill within growInterval.
	minFreeBytes = 2 << 30
	// growInterval is how often the free space is checked: a check costs two system calls.
	growInterval = 200 * time.Millisecond
	// growStep is the minimum growth in bytes, and growDivisor the divisor of the size for larger
	// ones.
	growStep    = 1 << 30
	growDivisor = 4

	ioctlXFSGrow = 0x4010586E // XFS_IOC_FSGROWFSDATA
	// xfsInodePercent limits the space that inodes may take, as mkfs.xfs sets it.
	xfsInodePercent = 25
)

// xfsGrow is struct xfs_growfs_data.
type xfsGrow struct {
	Blocks     uint64
	MaxPercent uint32
	_          uint32
}

// KeepGrown calls Grow every growInterval until ctx ends. Errors are passed to failed, and growth
// is tried again.
func (f *Filesystem) KeepGrown(ctx context.Context, failed func(error)) {
	ticker := time.NewTicker(growInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := f.Grow(); err != nil {
			failed(err)
		}
	}
}

// Grow extends the filesystem when it has little free space, by blocks that are allocated in the
// image before the filesystem is extended. When there is no space below, it does nothing.
func (f *Filesystem) Grow() error {
	var st unix.Statfs_t
	if err := unix.Statfs(f.dir, &st); err != nil {
		return fmt.Errorf("measure %s: %w", f.dir, err)
	}
	if int64(st.Bavail)*st.Bsize >= minFreeBytes {
		return nil
	}
	info, err := f.image.Stat()
	if err != nil {
		return err
	}
	room, err := f.spaceBelow()
	if err != nil {
		return err
	}
	step := min(max(growStep, info.Size()/growDivisor), room)
	if step -= step % (1 << 20); step < 64<<20 {
		return f.growTo(info.Size()) // a growth that an earlier process did not complete
	}
	if err := unix.Fallocate(int(f.image.Fd()), 0, info.Size(), step); err != nil {
		return fmt.Errorf("allocate %d bytes more for %s: %w", step, f.image.Name(), err)
	}
	return f.growTo(info.Size() + step)
}

// growTo extends the loop device and the filesystem to the image's size.
func (f *Filesystem) growTo(size int64) error {
	fd, err := openLoop(f.loop.number, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("open %s: %w", f.loop.path(), err)
	}
	defer closeFD(fd)
	if now, err := loopStatusFD(fd, f.loop.number); err != nil || now.file != f.loop.file {
		return fmt.Errorf("grow %s: %s is not its device any more", f.dir, f.loop.path())
	}
	if err := unix.IoctlSetInt(fd, unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("grow %s: %w", f.loop.path(), err)
	}
	var st unix.Statfs_t
	dir, err := unix.Open(f.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", f.dir, err)
	}
	defer closeFD(dir)
	if err := unix.Fstatfs(dir, &st); err != nil || st.Type != unix.XFS_SUPER_MAGIC {
		return fmt.Errorf("grow %s: it is not mounted", f.dir)
	}
	g := xfsGrow{Blocks: uint64(size / st.Bsize), MaxPercent: xfsInodePercent}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(dir), ioctlXFSGrow, uintptr(unsafe.Pointer(&g))); errno != 0 { // #nosec G103
		return fmt.Errorf("grow the xfs at %s to %d bytes: %w", f.dir, size, errno)
	}
	return nil
}
