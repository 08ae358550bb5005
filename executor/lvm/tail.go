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

// blank makes what a copy is not to have of its source read as zero, before the copy is
// ready: its device on top may be as long one day, or DRBD look there for its metadata.
func (p *Pool) blank(ctx context.Context, c *copied) error {
	if err := p.activate(ctx, c.name); err != nil {
		return err
	}
	d, err := p.kernel.device(mapped(p.VG, c.name))
	if err != nil {
		return err
	}
	if d == nil {
		return fmt.Errorf("%s is not active although LVM activated it", c.name)
	}
	err = zero(ctx, d.path(), c.tail, c.chunk)
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("%w: %w", errFull, err)
	}
	if err != nil {
		return p.failure("remove the source's metadata from", c.name, err)
	}
	return nil
}

// zeroStep is how much is read and written at once. No chunk of a pool is smaller.
const zeroStep = 64 << 10

// zero makes a range of a device read as zero, also after a loss of power. Whole chunks
// are given back to the pool where it takes them; what still holds something is
// written over.
func zero(ctx context.Context, path string, where executor.Extent, chunk int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	end := where.Offset + where.Length
	giveBack(f, roundUp(where.Offset, chunk), end)
	have, nothing := make([]byte, zeroStep), make([]byte, zeroStep)
	for at := where.Offset; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(zeroStep-at%zeroStep, end-at)
		if _, err := io.ReadFull(io.NewSectionReader(f, at, n), have[:n]); err != nil {
			return fmt.Errorf("read %s at %d: %w", path, at, err)
		}
		if !bytes.Equal(have[:n], nothing[:n]) {
			if _, err := f.WriteAt(nothing[:n], at); err != nil {
				return err
			}
		}
		at += n
	}
	return f.Sync()
}

// giveBack discards a range of a device, where that can be done.
func giveBack(f *os.File, from, to int64) {
	if from >= to {
		return
	}
	bounds := [2]uint64{uint64(from), uint64(to - from)}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKDISCARD, uintptr(unsafe.Pointer(&bounds))) // #nosec G103
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
