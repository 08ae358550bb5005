package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's struct dm_ioctl, as far as a message to a target needs it.
const (
	dmHeader      = 312
	dmBufferBytes = 16384
	dmNameAt      = 48
	dmMessage     = 14
	// emptied is how many numbers beyond the last that was there are tried.
	emptied = 1000
)

// fill makes thin devices until the pool's metadata has no room for one more, or there are as many as asked for, and prints how many.
func (o *options) fill() error {
	for number := o.from; ; number++ {
		if o.most > 0 && number == o.from+o.most {
			fmt.Printf("%d thin devices\n", o.most)
			return nil
		}
		if err := sendMessage(o.path, fmt.Sprintf("create_thin %d", number)); err != nil {
			fmt.Printf("%d thin devices, then: %v\n", number-o.from, err)
			return nil
		}
	}
}

// empty deletes them; those that the pool had not committed are not there.
func (o *options) empty() error {
	deleted := 0
	for number, missing := o.from, 0; missing < emptied; number++ {
		err := sendMessage(o.path, fmt.Sprintf("delete %d", number))
		switch {
		case err == nil:
			deleted, missing = deleted+1, 0
		case errors.Is(err, unix.ENODATA):
			missing++
		default:
			return err
		}
	}
	fmt.Printf("%d thin devices deleted\n", deleted)
	return nil
}

// sendMessage sends a device of device-mapper a message: a program started for each would take a guest minutes.
func sendMessage(device, message string) error {
	buf := make([]byte, dmBufferBytes)
	binary.NativeEndian.PutUint32(buf, 4) // the interface's version
	binary.NativeEndian.PutUint32(buf[12:], dmBufferBytes)
	binary.NativeEndian.PutUint32(buf[16:], dmHeader)
	copy(buf[dmNameAt:], filepath.Base(device))
	copy(buf[dmHeader+8:], message) // behind a sector, which no thin pool needs
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }() // the kernel has answered
	code := uintptr(3)<<30 | uintptr(dmHeader)<<16 | uintptr(0xfd)<<8 | dmMessage
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), code, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
		return fmt.Errorf("tell %s %q: %w", device, message, errno)
	}
	return nil
}
