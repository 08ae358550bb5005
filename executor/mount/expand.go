package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.FilesystemTools = (*Mounter)(nil)

// growTimeout bounds one run of e2fsck or resize2fs.
const growTimeout = 10 * time.Minute

// ExpandFilesystem grows the filesystem to the device's size; one that has that size is left
// alone. With a path, the filesystem is mounted there. With none it is not mounted, and is mounted
// detached (attached to no path) meanwhile: the kernel grows it within its journal, so the
// filesystem stays consistent if this process is killed.
//
// The kernel grows ext4 only for a process with CAP_SYS_RESOURCE. Without it a mounted ext4 is
// refused with Precondition, and an unmounted one is checked and grown with e2fsck and resize2fs.
func (m *Mounter) ExpandFilesystem(ctx context.Context, device executor.Device, fsType, path string) error {
	if fsType != "ext4" && fsType != "xfs" {
		return fsm.Reject(fsm.Invalid, "the filesystem %q is not one of ext4 and xfs", fsType)
	}
	if path != "" {
		return m.growAtPath(device, fsType, path)
	}
	if fsType == "ext4" {
		current, err := extSize(device.Path)
		if err != nil || current.fillsDevice(device.Path) && !current.growthUnfinished() {
			return err
		}
		if current.growthUnfinished() || !canGrowExt4Online() {
			return m.growUnmounted(ctx, device, current)
		}
	}
	return withDetachedMount(device.Path, fsType, nil, func(root *os.File) error { return growMounted(root, device, fsType) })
}

func (m *Mounter) growAtPath(device executor.Device, fsType, path string) error {
	root, err := m.openMounted(device, path)
	if err != nil {
		return err
	}
	defer root.Close()
	return growMounted(root, device, fsType)
}

// openMounted opens the directory where the device's filesystem is mounted.
func (m *Mounter) openMounted(device executor.Device, path string) (*os.File, error) {
	p, err := m.resolveRoot(path)
	if err != nil {
		return nil, err
	}
	fd, err := openBelow(p.root.fd, p.rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, p.pathRejection(err)
	}
	root := os.NewFile(uintptr(fd), p.real())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != device.Number {
		root.Close()
		return nil, fsm.Reject(fsm.Precondition, "the volume is not mounted on %s", p)
	}
	return root, nil
}

// growMounted grows a mounted filesystem, through an open file in it.
func growMounted(root *os.File, device executor.Device, fsType string) error {
	size, err := devicePathSize(device.Path)
	if err != nil {
		return err
	}
	if fsType == "xfs" {
		err = growXFS(root, size)
	} else {
		err = growExt4(root, device.Path, size)
	}
	var refused *fsm.Rejection
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("grow the filesystem on %s: %w", device.Path, err)
	}
	return err
}

// growXFS extends the filesystem to all complete blocks of the device. The kernel leaves out a
// tail that is too small for an allocation group.
func growXFS(root *os.File, size int64) error {
	current, err := xfsGeometry(root)
	if err != nil {
		return err
	}
	request := xfsGrow{Blocks: uint64(size) / uint64(current.BlockSize), MaxPercent: current.MaxPercent}
	if request.Blocks <= current.DataBlocks {
		return nil
	}
	switch err := ioctlStruct(root, ioctlXFSGrow, &request); {
	case errors.Is(err, unix.EROFS):
		return fsm.Reject(fsm.Precondition, "the filesystem is mounted read-only, so it cannot grow")
	case errors.Is(err, unix.EINVAL) && isTailTooSmall(current, request.Blocks):
		return nil
	case err != nil:
		return err
	}
	return nil
}

// isTailTooSmall reports whether all that could be added is too small for an allocation group:
// where the kernel refuses such a request, the filesystem is as large as it can be.
func isTailTooSmall(current xfsGeom, blocks uint64) bool {
	const leastGroup = 64 // XFS_MIN_AG_BLOCKS
	full := current.DataBlocks%uint64(current.GroupBlocks) == 0
	return full && blocks-current.DataBlocks < leastGroup
}

func growExt4(root *os.File, device string, size int64) error {
	current, err := extSize(device)
	if err != nil || current.fillsDevice(device) {
		return err
	}
	blocks := uint64(size) / uint64(current.blockBytes)
	switch err := ioctlStruct(root, ioctlExt4Resize, &blocks); {
	case errors.Is(err, unix.EPERM):
		return fsm.Reject(fsm.Precondition, "ext4 grows while it is mounted only for a process with CAP_SYS_RESOURCE, which this one does not have: it grows when it is staged the next time")
	case errors.Is(err, unix.EROFS):
		return fsm.Reject(fsm.Precondition, "the filesystem is mounted read-only, so it cannot grow")
	case errors.Is(err, unix.EBUSY):
		return fsm.Reject(fsm.Busy, "the filesystem is being grown")
	case err != nil:
		return err
	}
	return nil
}

// canGrowExt4Online reports whether this process has CAP_SYS_RESOURCE.
func canGrowExt4Online() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[unix.CAP_SYS_RESOURCE/32].Effective&(1<<(unix.CAP_SYS_RESOURCE%32)) != 0
}

// Exit codes of e2fsck; they are bits.
const (
	fsckCorrected   = 1
	fsckUncorrected = 4
)

// growUnmounted checks an unmounted ext4, then grows it.
func (m *Mounter) growUnmounted(ctx context.Context, device executor.Device, current fsSize) error {
	if err := m.fsck(ctx, device.Path, current); err != nil {
		var refused *fsm.Rejection
		if errors.As(err, &refused) {
			return err
		}
		return fmt.Errorf("check the filesystem on %s: %w", device.Path, err)
	}
	_, err := m.runner.Run(ctx, run.Command{Tool: "resize2fs", Args: []string{"--", device.Path}, Timeout: growTimeout})
	if err != nil {
		return fmt.Errorf("grow the filesystem on %s: %w", device.Path, err)
	}
	return nil
}

// fsck checks the filesystem. Errors that e2fsck -p does not correct are an operator's, unless
// they are only what an interrupted growth left. When they come together with other damage, the
// flag of the growth stays set: without it the filesystem would count as having its new size.
func (m *Mounter) fsck(ctx context.Context, device string, current fsSize) error {
	if err := prepareForFsck(device, current); err != nil {
		return err
	}
	err := m.runFsck(ctx, device, "-p")
	if isUncorrected(err) && current.growthUnfinished() {
		err = m.fsckGrowthRemains(ctx, device, err)
	}
	if !isUncorrected(err) {
		return err
	}
	if !current.growthUnfinished() {
		if err := countError(device); err != nil { // replaying the journal may have reset the count
			return err
		}
	}
	return fsm.Reject(fsm.Precondition, "the filesystem on %s has errors that e2fsck does not correct by itself: run `e2fsck -f %s` by hand", device, device)
}

// prepareForFsck repairs a torn superblock, so that e2fsck accepts it, and makes sure that errors
// which e2fsck will record are not mistaken for an interrupted growth.
func prepareForFsck(device string, current fsSize) error {
	if current.superblockTorn {
		return repairTornSuperblock(device)
	}
	if current.growthInterrupted {
		return nil
	}
	return countError(device)
}

// fsckGrowthRemains corrects what an interrupted growth left, if nothing else is wrong; fsckErr is
// the error of the preceding run that corrects only safe problems.
func (m *Mounter) fsckGrowthRemains(ctx context.Context, device string, fsckErr error) error {
	only, err := m.hasOnlyGrowthRemains(ctx, device)
	if err != nil {
		return err
	}
	if !only {
		return fsckErr
	}
	return m.runFsck(ctx, device, "-y")
}

// runFsck forces a complete check; nil when the filesystem is consistent afterwards.
func (m *Mounter) runFsck(ctx context.Context, device, mode string) error {
	return m.runFsckTo(ctx, device, mode, nil)
}

func (m *Mounter) runFsckTo(ctx context.Context, device, mode string, out io.Writer) error {
	_, err := m.runner.Run(ctx, run.Command{Tool: "e2fsck", Args: []string{"-f", mode, "--", device}, Timeout: growTimeout, Stdout: out})
	var failed *run.Error
	if errors.As(err, &failed) && failed.Code == fsckCorrected {
		return nil
	}
	return err
}

func isUncorrected(err error) bool {
	var failed *run.Error
	return errors.As(err, &failed) && failed.Code > 0 && failed.Code&fsckUncorrected != 0
}

func devicePathSize(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", path, err)
	}
	defer f.Close()
	size, err := deviceSize(f)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", path, err)
	}
	return size, nil
}
