package lvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The layout of struct dm_ioctl and struct dm_target_spec, and the numbers, are those
// of linux/dm-ioctl.h, version 4.
const (
	dmControl = "/dev/mapper/control"

	dmHeader      = 312
	dmDataSizeAt  = 12
	dmDataStartAt = 16
	dmTargetsAt   = 20
	dmOpenAt      = 24
	dmFlagsAt     = 28
	dmDevAt       = 40
	dmNameAt      = 48
	dmUUIDAt      = 176
	dmNameLength  = 128
	dmUUIDLength  = 129

	dmSpec       = 40
	dmSpecTypeAt = 24
	dmSpecType   = 16

	dmReadOnly = 1 << 0
	dmSuspend  = 1 << 1
	dmNoFlush  = 1 << 11

	dmDevStatus   = 7
	dmTableStatus = 12

	// dmBufferBytes has room for the status of one target, which is less than a page.
	dmBufferBytes = 16 << 10
)

// kernelDM is the dmReader of the running kernel.
type kernelDM struct{}

func (kernelDM) device(name string) (*dmDevice, error) {
	buf, err := dmIoctl(dmDevStatus, name)
	if err != nil || buf == nil {
		return nil, err
	}
	dev := binary.NativeEndian.Uint64(buf[dmDevAt:])
	flags := binary.NativeEndian.Uint32(buf[dmFlagsAt:])
	return &dmDevice{
		major: unix.Major(dev), minor: unix.Minor(dev),
		open:     int32(binary.NativeEndian.Uint32(buf[dmOpenAt:])), //nolint:gosec // the kernel's is signed
		readOnly: flags&dmReadOnly != 0, suspended: flags&dmSuspend != 0,
		uuid: cString(buf[dmUUIDAt : dmUUIDAt+dmUUIDLength]),
	}, nil
}

func (kernelDM) status(name string) (target, params string, err error) {
	buf, err := dmIoctl(dmTableStatus, name)
	if err != nil || buf == nil {
		return "", "", err
	}
	at := int(binary.NativeEndian.Uint32(buf[dmDataStartAt:]))
	if binary.NativeEndian.Uint32(buf[dmTargetsAt:]) == 0 || at < dmHeader || at+dmSpec > len(buf) {
		return "", "", fmt.Errorf("read the status of %s: it has no table", name)
	}
	spec := buf[at:]
	return cString(spec[dmSpecTypeAt : dmSpecTypeAt+dmSpecType]), cString(spec[dmSpec:]), nil
}

// dmIoctl makes one request about a device; nil when the device does not exist.
func dmIoctl(request uintptr, name string) ([]byte, error) {
	if len(name) >= dmNameLength {
		return nil, fmt.Errorf("the device's name %s is too long", name)
	}
	control, err := os.OpenFile(dmControl, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the module is not loaded, so there are no devices; LVM loads it when it activates one
	}
	if err != nil {
		return nil, fmt.Errorf("query the device mapper: %w", err)
	}
	defer control.Close()
	buf := make([]byte, dmBufferBytes)
	binary.NativeEndian.PutUint32(buf, 4) // the interface's major version
	binary.NativeEndian.PutUint32(buf[dmDataSizeAt:], dmBufferBytes)
	binary.NativeEndian.PutUint32(buf[dmDataStartAt:], dmHeader)
	// No flush: reading a status must not wait for a pool that hangs.
	binary.NativeEndian.PutUint32(buf[dmFlagsAt:], dmNoFlush)
	copy(buf[dmNameAt:], name)
	const readWrite, kind = 3, 0xfd
	code := uintptr(readWrite)<<30 | uintptr(dmHeader)<<16 | uintptr(kind)<<8 | request
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), code, uintptr(unsafe.Pointer(&buf[0]))) // #nosec G103
	switch {
	case errors.Is(errno, unix.ENXIO):
		return nil, nil
	case errno != 0:
		return nil, fmt.Errorf("query the device mapper about %s: %w", name, errno)
	}
	return buf, nil
}

func cString(b []byte) string {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return strings.TrimSpace(string(b))
}
