package loopfile

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errInUse: a loop device is open elsewhere.
var errInUse = errors.New("the loop device is in use")

const (
	// detachPatience bounds how long a busy device is retried: udev opens devices that changed, an unmounted
	// filesystem releases its device a moment later, and a container that starts has copies of all mounts until
	// it has left the host's root.
	detachPatience   = 2 * time.Second
	detachRetryDelay = 10 * time.Millisecond
)

// detachLoop clears a device, and retries while it is busy for a short time. A child that this
// process forks holds all of its open files until it executes its program: a second attempt is
// made while no fork is in progress.
func detachLoop(l loop) error {
	err := clearDevice(l)
	for began := time.Now(); errors.Is(err, errInUse) && time.Since(began) < detachPatience; {
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
