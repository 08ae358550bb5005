package loopfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

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

// loopSetupTries bounds the retries when other programs take the same free number.
const loopSetupTries = 64

// setUp sets up a loop device over an open image.
func (l *loopTable) setUp(image *os.File, readOnly bool) (loop, error) {
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return loop{}, fmt.Errorf("open /dev/loop-control: %w", err)
	}
	defer closeFD(control)
	l.setupLock.Lock() // serialises this process's calls: concurrent ones would get the same free number
	defer l.setupLock.Unlock()
	for range loopSetupTries {
		number, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return loop{}, fmt.Errorf("find a free loop device: %w", err)
		}
		made, err := configure(number, image, readOnly)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENXIO) {
			continue
		}
		if err == nil { // BLKROSET may be left over from the number's previous device
			made, err = setWritable(made, readOnly)
		}
		return made, err
	}
	return loop{}, errors.New("find a free loop device: others took each one first")
}

// configure sets one device up in one call. Direct I/O is requested, and the device is used
// without it where the filesystem under the pool does not support it. Logical blocks are always
// 512 bytes: a raw volume must look the same wherever it is activated.
func configure(number int, image *os.File, readOnly bool) (loop, error) {
	mode := unix.O_RDWR
	flags := uint32(flagDirectIO)
	if readOnly {
		mode, flags = unix.O_RDONLY, flags|flagReadOnly
	}
	fd, err := openLoop(number, mode)
	if err != nil {
		return loop{}, fmt.Errorf("open %s: %w", devicePath(number), err)
	}
	defer closeFD(fd)
	config := unix.LoopConfig{Fd: uint32(image.Fd()), Size: 512, Info: unix.LoopInfo64{Flags: flags}}
	copy(config.Info.File_name[:63], image.Name())
	err = unix.IoctlLoopConfigure(fd, &config)
	if errors.Is(err, unix.EINVAL) {
		config.Info.Flags &^= flagDirectIO
		err = unix.IoctlLoopConfigure(fd, &config)
	}
	if err != nil {
		return loop{}, fmt.Errorf("set up %s: %w", devicePath(number), err)
	}
	made, err := loopStatusFD(fd, number)
	if err != nil {
		_ = unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) // it would be in no table
	}
	return made, err
}

// setWritable sets whether a new device refuses writes; if that fails, the device is removed.
func setWritable(dev loop, readOnly bool) (loop, error) {
	ok, err := clearAutoclear(dev, readOnly)
	if err != nil {
		return loop{}, errors.Join(err, detachLoop(dev))
	}
	return ok, nil
}

// clearAutoclear removes the autoclear flag of an adopted device, which would otherwise vanish
// with its last user. It also sets whether writes are refused.
func clearAutoclear(l loop, readOnly bool) (loop, error) {
	if l.flags&flagAutoclear == 0 && l.readOnly == readOnly {
		return l, nil
	}
	fd, err := openLoop(l.number, unix.O_RDONLY)
	if err != nil {
		return l, fmt.Errorf("open %s: %w", l.path(), err)
	}
	defer closeFD(fd)
	if l.flags&flagAutoclear != 0 {
		info, err := unix.IoctlLoopGetStatus64(fd)
		if err != nil {
			return l, fmt.Errorf("adopt %s: %w", l.path(), err)
		}
		info.Flags &^= flagAutoclear
		if err := unix.IoctlLoopSetStatus64(fd, info); err != nil {
			return l, fmt.Errorf("adopt %s: %w", l.path(), err)
		}
	}
	if l.readOnly != readOnly {
		if err := unix.IoctlSetPointerInt(fd, unix.BLKROSET, boolToInt(readOnly)); err != nil {
			return l, fmt.Errorf("make %s read-only %v: %w", l.path(), readOnly, err)
		}
	}
	return loopStatusFD(fd, l.number)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// errInUse: a loop device is open elsewhere.
var errInUse = errors.New("the loop device is in use")

const (
	// detachTries and detachRetryDelay bound how long a temporarily busy device is retried: udev
	// opens devices that changed, and an unmounted filesystem releases its device a moment later.
	detachTries      = 40
	detachRetryDelay = 10 * time.Millisecond
)

// detachLoop clears a device, and retries while it is busy for a short time. A child that this
// process forks holds all of its open files until it executes its program: a second attempt is
// made while no fork is in progress.
func detachLoop(l loop) error {
	err := clearDevice(l)
	for range detachTries {
		if !errors.Is(err, errInUse) {
			break
		}
		syscall.ForkLock.RLock()
		err = clearDevice(l)
		syscall.ForkLock.RUnlock()
		if errors.Is(err, errInUse) {
			time.Sleep(detachRetryDelay)
		}
	}
	return err
}

// clearDevice clears a device if it still has the same backing file, and checks that it is free:
// the kernel defers the clear while another process has the device open.
func clearDevice(l loop) error {
	fd, err := openLoop(l.number, unix.O_RDONLY|unix.O_EXCL)
	switch {
	case errors.Is(err, unix.EBUSY):
		return errInUse // mounted, here or in another mount namespace
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO):
		return nil
	case err != nil:
		return fmt.Errorf("open %s: %w", l.path(), err)
	}
	current, err := loopStatusFD(fd, l.number)
	if err == nil && current.file == l.file {
		_ = unix.IoctlSetPointerInt(fd, unix.BLKROSET, 0) // so that the number's next device is writable
		err = unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0)
	}
	closeFD(fd)
	switch {
	case errors.Is(err, errNotBound), errors.Is(err, unix.ENXIO):
		return nil
	case errors.Is(err, unix.EBUSY):
		return errInUse
	case err != nil:
		return fmt.Errorf("take down %s: %w", l.path(), err)
	}
	return checkFree(l)
}

// checkFree returns nil when the device is free. The clear takes effect when our own descriptor is
// closed, unless another process has the device open.
func checkFree(l loop) error {
	current, err := loopStatus(l.number)
	switch {
	case errors.Is(err, errNotBound):
		return nil
	case err != nil:
		return err
	case current.file != l.file: // another process has been given the number
		return nil
	}
	return errInUse
}

// backingFile is the path of a device's backing file in sysfs; false when it has none.
func backingFile(number int) (path string, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/loop/backing_file", number))
	return strings.TrimSuffix(string(text), "\n"), err == nil
}

// closeFD closes a descriptor that nothing was written through.
func closeFD(fd int) { _ = unix.Close(fd) }

// closeRoot closes a directory.
func closeRoot(root *os.Root) { _ = root.Close() }
