package mount

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctlPointer is an ioctl with a pointer to a number, for which x/sys has no function.
func ioctlPointer[T int32 | uint64](f *os.File, request uint, value *T) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(unsafe.Pointer(value))) // #nosec G103
	if errno != 0 {
		return errno
	}
	return nil
}

// closeFD closes a descriptor whose loss of nothing could be told of.
func closeFD(fd int) { _ = unix.Close(fd) }
