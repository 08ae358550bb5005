package freeze

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Constants of linux/fs.h that x/sys does not have.
const (
	ioctlFreeze  = 0xC0045877 // FIFREEZE
	ioctlThaw    = 0xC0045878 // FITHAW
	ioctlDiskSeq = 0x80081280 // BLKGETDISKSEQ
)

// freezableTypes that can be frozen here, by statfs's f_type.
var freezableTypes = map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs"}

func ioctl(f *os.File, request uintptr) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// freezeNow returns once the filesystem is frozen: no write passes any more.
func freezeNow(f *os.File) error {
	err := ioctl(f, ioctlFreeze)
	switch {
	case errors.Is(err, unix.EBUSY):
		return fsm.Reject(fsm.Busy, "the filesystem on %s is frozen by somebody else", f.Name())
	case errors.Is(err, unix.EOPNOTSUPP):
		return fsm.Reject(fsm.Precondition, "the filesystem on %s cannot be frozen", f.Name())
	case err != nil:
		return fmt.Errorf("freeze the filesystem on %s: %w", f.Name(), err)
	}
	return nil
}

// thawNow thaws the filesystem. One that is not frozen is no error.
func thawNow(f *os.File) error {
	if err := ioctl(f, ioctlThaw); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("thaw the filesystem on %s: %w", f.Name(), err)
	}
	return nil
}

// isFrozen tries to freeze again, which the kernel refuses with EBUSY on a frozen filesystem. It
// detects that an operator thawed the filesystem by hand.
func isFrozen(f *os.File) (bool, error) {
	err := ioctl(f, ioctlFreeze)
	switch {
	case errors.Is(err, unix.EBUSY):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look whether the filesystem on %s is frozen: %w", f.Name(), err)
	}
	return false, thawNow(f)
}

// sinceBoot is the time of CLOCK_BOOTTIME.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("freeze: the kernel has no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(now.Nano())
}

func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// fsLocation identifies a filesystem by its path, its device and its type.
type fsLocation struct {
	// Path is where it was mounted when it was frozen.
	Path string `json:"path"`
	// Device is the device's number, as in stat's st_dev, and DevPath its node.
	Device  uint64 `json:"device"`
	DevPath string `json:"dev_path"`
	// DiskSeq distinguishes disks that get the same number within one boot; 0: unknown.
	DiskSeq uint64 `json:"disk_seq"`
	// FSType is "ext4" or "xfs".
	FSType string `json:"fs_type"`
}

// openRoot opens the root of a mount. Any other directory is refused: freezing it would freeze the
// filesystem that the volume should be mounted on.
func openRoot(path string) (*os.File, fsLocation, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fsLocation{}, fmt.Errorf("open %s to freeze it: %w", path, err)
	}
	p, err := locate(f)
	if err != nil {
		return nil, fsLocation{}, errors.Join(err, f.Close())
	}
	return f, p, nil
}

func locate(f *os.File) (fsLocation, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return fsLocation{}, fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return fsLocation{}, fsm.Reject(fsm.Precondition, "nothing is mounted on %s", f.Name())
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return fsLocation{}, fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	kind, ok := freezableTypes[int64(fs.Type)] //nolint:unconvert // its type differs between architectures
	if !ok {
		return fsLocation{}, fsm.Reject(fsm.Precondition, "the filesystem on %s is neither ext4 nor xfs", f.Name())
	}
	p := fsLocation{Path: f.Name(), Device: unix.Mkdev(st.Dev_major, st.Dev_minor), FSType: kind}
	p.DevPath, p.DiskSeq = blockDeviceOf(p.Device)
	return p, nil
}

// blockDeviceOf returns a block device's node and disk sequence number, as far as they are known.
func blockDeviceOf(device uint64) (path string, seq uint64) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/uevent", unix.Major(device), unix.Minor(device)))
	if err != nil {
		return "", 0
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			path = "/dev/" + name
		}
	}
	return path, diskSeq(path)
}

func diskSeq(path string) (seq uint64) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ioctlDiskSeq, uintptr(unsafe.Pointer(&seq))); errno != 0 { // #nosec G103
		return 0
	}
	return seq
}
