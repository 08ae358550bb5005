package main

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openDurable opens a ring with what makes its blocks durable. Where it is the write itself there is no flush after
// it: its completion is the acknowledgement. The ring is written first, as only what has its place already needs
// no more than its own block.
func (o *options) openDurable(path string) (*ring, error) {
	if o.durable == "fdatasync" {
		return openRing(path, os.O_CREATE|os.O_RDWR, o.direct, o.blocks)
	}
	if err := o.allocate(path); err != nil {
		return nil, fmt.Errorf("allocate %s: %w", path, err)
	}
	r, err := openRing(path, os.O_RDWR|unix.O_DSYNC, true, o.blocks)
	if err != nil {
		return nil, err
	}
	switch o.durable {
	case "dsync":
		r.put = r.writeDurably
	case "aio":
		r.put, err = newAIO(r.file)
	default:
		err = fmt.Errorf("%q makes nothing durable", o.durable)
	}
	return r, err
}

// allocate writes what is not there of a ring's file. A device is as long as it is.
func (o *options) allocate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is synced
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	zeros := make([]byte, blockSize)
	for at := info.Size() / blockSize; at < int64(o.blocks); at++ {
		if _, err := f.WriteAt(zeros, at*blockSize); err != nil {
			return err
		}
	}
	return f.Sync()
}

func (r *ring) writeDurably(buf []byte, offset int64) error {
	_, err := r.file.WriteAt(buf, offset)
	return err
}

// The kernel's struct iocb and struct io_event.
type (
	iocb struct {
		data          uint64
		key, flags    uint32
		opcode        uint16
		priority      int16
		fd            uint32
		buf, length   uint64
		offset        int64
		_             uint64
		more, eventFD uint32
	}
	ioEvent struct {
		data, object uint64
		result, _    int64
	}
)

const aioWrite = 1

// newAIO writes with the calls of libaio, one request at a time. On a device nothing follows the write then, where a
// call of write flushes after it.
func newAIO(file *os.File) (func([]byte, int64) error, error) {
	var ctx uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&ctx)), 0); errno != 0 {
		return nil, fmt.Errorf("io_setup: %w", errno)
	}
	return func(buf []byte, offset int64) error {
		request := &iocb{opcode: aioWrite, fd: uint32(file.Fd()), buf: uint64(uintptr(unsafe.Pointer(&buf[0]))), length: uint64(len(buf)), offset: offset}
		if _, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, ctx, 1, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return fmt.Errorf("io_submit: %w", errno)
		}
		return awaitAIO(ctx, len(buf))
	}, nil
}

func awaitAIO(ctx uintptr, length int) error {
	for {
		var event ioEvent
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, ctx, 1, 1, uintptr(unsafe.Pointer(&event)), 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("io_getevents: %w", errno)
		case n != 1 || event.result < 0:
			return unix.Errno(-event.result)
		case event.result != int64(length):
			return errors.New("a part of the block was written")
		}
		return nil
	}
}
