package loopfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// Flags of struct loop_info64, linux/loop.h, that x/sys does not have.
const (
	flagReadOnly  = 1
	flagAutoclear = 4
	flagDirectIO  = 16
)

// loop is a loop device with a backing file.
type loop struct {
	number   int
	device   uint64 // as in stat's st_rdev
	file     inode  // of the backing file
	flags    uint32
	readOnly bool
}

func (l loop) path() string { return devicePath(l.number) }

func devicePath(number int) string { return "/dev/loop" + strconv.Itoa(number) }

func (l loop) describe(d *executor.Device) {
	d.Path, d.Number, d.ReadOnly = l.path(), l.device, l.readOnly
}

// errNotBound: a loop device has no backing file.
var errNotBound = errors.New("the loop device is free")

// loopStatus reads a loop device's state from the kernel; errNotBound when it has no backing file.
func loopStatus(number int) (loop, error) {
	fd, err := openLoop(number, unix.O_RDONLY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) {
		return loop{}, errNotBound
	}
	if err != nil {
		return loop{}, fmt.Errorf("open %s: %w", devicePath(number), err)
	}
	defer closeFD(fd)
	return loopStatusFD(fd, number)
}

func loopStatusFD(fd, number int) (loop, error) {
	info, err := unix.IoctlLoopGetStatus64(fd)
	if errors.Is(err, unix.ENXIO) {
		return loop{}, errNotBound
	}
	if err != nil {
		return loop{}, fmt.Errorf("read the state of %s: %w", devicePath(number), err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return loop{}, fmt.Errorf("read the state of %s: %w", devicePath(number), err)
	}
	ro, err := unix.IoctlGetInt(fd, unix.BLKROGET)
	if err != nil {
		return loop{}, fmt.Errorf("read the state of %s: %w", devicePath(number), err)
	}
	return loop{number: number, device: st.Rdev, file: inode{info.Device, info.Inode}, flags: info.Flags, readOnly: ro != 0}, nil
}

// openLoop opens a loop device's node, and creates the node where there is no devtmpfs.
func openLoop(number, mode int) (int, error) {
	fd, err := unix.Open(devicePath(number), mode|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	text, sysErr := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/dev", number))
	if sysErr != nil {
		return -1, err
	}
	var major, minor uint32
	if _, scanErr := fmt.Sscanf(string(text), "%d:%d", &major, &minor); scanErr != nil {
		return -1, err
	}
	err = unix.Mknod(devicePath(number), unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor)))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return unix.Open(devicePath(number), mode|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

// inUse reports whether the device is held exclusively, as by a mount.
func inUse(l loop) bool {
	fd, err := openLoop(l.number, unix.O_RDONLY|unix.O_EXCL)
	if err != nil {
		return errors.Is(err, unix.EBUSY)
	}
	closeFD(fd)
	return false
}

func syncDevice(l loop) error {
	fd, err := openLoop(l.number, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("open %s: %w", l.path(), err)
	}
	defer closeFD(fd)
	if err := unix.Fsync(fd); err != nil {
		return fmt.Errorf("sync %s: %w", l.path(), err)
	}
	return nil
}

// backingFile is the path of a device's backing file in sysfs; false when it has none.
func backingFile(number int) (path string, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/loop/backing_file", number))
	return strings.TrimSuffix(string(text), "\n"), err == nil
}

// closeFD closes a descriptor that nothing was written through.
func closeFD(fd int) { _ = unix.Close(fd) }
