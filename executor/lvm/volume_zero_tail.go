package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// zeroTail zeroes what lies at the end of a logical volume and must not be seen again: its device on
// top may later cover that range, or DRBD may look there for its metadata.
func (t *thinVolumes) zeroTail(ctx context.Context, name string, tail executor.Extent, chunk int64) error {
	if err := t.activateLV(ctx, name); err != nil {
		return err
	}
	d, err := t.kernel.device(dmName(t.VG, name))
	if err != nil {
		return err
	}
	if d == nil {
		return fmt.Errorf("%s is not active although LVM activated it", name)
	}
	err = zeroRange(ctx, d.path(), tail, chunk)
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("%w: %w", errFull, err)
	}
	if err != nil {
		return t.commandError("zero the end of", name, err)
	}
	return nil
}

// zeroBlock is how many bytes are read and written at once. No pool's chunk is smaller.
const zeroBlock = 64 << 10

// zeroRange makes a range of a device read as zero, durably. Whole chunks are discarded where the
// pool supports it; what still holds data is overwritten.
func zeroRange(ctx context.Context, path string, extent executor.Extent, chunk int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	end := extent.Offset + extent.Length
	discardRange(f, roundUp(extent.Offset, chunk), end)
	buf, zeroes := make([]byte, zeroBlock), make([]byte, zeroBlock)
	for at := extent.Offset; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(zeroBlock-at%zeroBlock, end-at)
		if _, err := io.ReadFull(io.NewSectionReader(f, at, n), buf[:n]); err != nil {
			return fmt.Errorf("read %s at %d: %w", path, at, err)
		}
		if !bytes.Equal(buf[:n], zeroes[:n]) {
			if _, err := f.WriteAt(zeroes[:n], at); err != nil {
				return err
			}
		}
		at += n
	}
	return f.Sync()
}

// discardRange discards a range of a device, where that is supported.
func discardRange(f *os.File, from, to int64) {
	if from >= to {
		return
	}
	bounds := [2]uint64{uint64(from), uint64(to - from)}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKDISCARD, uintptr(unsafe.Pointer(&bounds))) // #nosec G103
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
