package mount

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctlPointer is an ioctl with a pointer to an integer, for which x/sys has no function.
func ioctlPointer[T int32 | uint64](f *os.File, request uint, value *T) error {
	return ioctlStruct(f, uintptr(request), value)
}

// ioctlStruct is an ioctl with a pointer to a struct.
func ioctlStruct[T any](f *os.File, request uintptr, value *T) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(value))) // #nosec G103
	if errno != 0 {
		return errno
	}
	return nil
}

// closeFD closes a descriptor whose close error has no consequence.
func closeFD(fd int) { _ = unix.Close(fd) }
