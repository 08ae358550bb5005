package loopfile

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
	return loop{}, errors.New("find a free loop device: other programs took each one first")
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

// setCapacity makes the loop device as large as its file and checks the result.
func setCapacity(path string, want int64) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	current, err := deviceSize(f)
	if err != nil || current >= want {
		return err
	}
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return err
	}
	if current, err = deviceSize(f); err == nil && current < want {
		err = fmt.Errorf("%s has %d bytes, not %d", path, current, want)
	}
	return err
}

// deviceSize returns a block device's size in bytes.
func deviceSize(f *os.File) (int64, error) {
	var size uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&size))); errno != 0 { // #nosec G103
		return 0, fmt.Errorf("measure %s: %w", f.Name(), errno)
	}
	return int64(size), nil
}
