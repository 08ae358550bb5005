package loopfile

import (
	"context"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// Constants of linux/fs.h and linux/fiemap.h that x/sys does not have.
const (
	ioctlFiemap = 0xC020660B

	fiemapSync = 1

	extentLast      = 0x1
	extentUnknown   = 0x2
	extentDelalloc  = 0x4
	extentEncoded   = 0x8
	extentEncrypted = 0x80
	extentUnaligned = 0x100
	extentInline    = 0x200
	extentTail      = 0x400
	extentUnwritten = 0x800
	extentShared    = 0x2000

	// extentOpaque are the flags of an extent whose physical address must not be compared.
	extentOpaque = extentUnknown | extentDelalloc | extentEncoded | extentEncrypted | extentUnaligned | extentInline | extentTail
)

// fiemapExtent is struct fiemap_extent.
type fiemapExtent struct {
	Logical, Physical, Length uint64
	_                         [2]uint64
	Flags                     uint32
	_                         [3]uint32
}

// fiemapBatch is how many extents one request returns at most.
const fiemapBatch = 512

// fiemapRequest is struct fiemap with room for the returned extents.
type fiemapRequest struct {
	Start, Length          uint64
	Flags, Mapped, Room, _ uint32
	Extents                [fiemapBatch]fiemapExtent
}

// extent is a range of a file and its physical address. Ranges that read as zero without reading a
// block are left out.
type extent struct {
	executor.Extent
	physical int64
	shared   bool // and its address is known: equal addresses mean equal bytes
}

func (e extent) end() int64 { return e.Offset + e.Length }

// fileExtents yields a file's extents from an offset on, in order, clipped to the offset and the
// size, until yield returns false.
func fileExtents(ctx context.Context, f *os.File, from, size int64, yield func(extent) bool) error {
	request := &fiemapRequest{}
	for at := from; at < size; {
		if err := checkInterrupted(ctx, at); err != nil {
			return err
		}
		request.Start, request.Length = uint64(at), uint64(size-at)
		request.Flags, request.Room, request.Mapped = fiemapSync, fiemapBatch, 0
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ioctlFiemap, uintptr(unsafe.Pointer(request))) // #nosec G103
		switch {
		case errno == unix.EOPNOTSUPP || errno == unix.ENOTTY: // tmpfs
			return dataSegments(f, at, size, yield)
		case errno != 0:
			return fmt.Errorf("map %s: %w", f.Name(), errno)
		}
		found := request.Extents[:min(request.Mapped, fiemapBatch)]
		for _, raw := range found {
			if e, ok := raw.clip(at, size); ok && !yield(e) {
				return nil
			}
		}
		if len(found) == 0 || found[len(found)-1].Flags&extentLast != 0 {
			return nil
		}
		last := found[len(found)-1]
		at = int64(last.Logical + last.Length)
	}
	return nil
}

// dataSegments yields where a file holds data, on a filesystem without an extent map.
func dataSegments(f *os.File, from, size int64, yield func(extent) bool) error {
	found, _, err := dataExtents(f, from, size)
	if err != nil {
		return err
	}
	for _, e := range found {
		if !yield(extent{Extent: e}) {
			break
		}
	}
	return nil
}

// clip clips an extent to a range; false when no data is left of it.
func (r fiemapExtent) clip(from, size int64) (extent, bool) {
	e := extent{physical: int64(r.Physical), shared: r.Flags&extentShared != 0 && r.Flags&extentOpaque == 0}
	e.Offset, e.Length = int64(r.Logical), int64(r.Length)
	if skipped := from - e.Offset; skipped > 0 {
		e.Offset, e.Length, e.physical = from, e.Length-skipped, e.physical+skipped
	}
	e.Length = min(e.Length, size-e.Offset)
	return e, e.Length > 0 && r.Flags&extentUnwritten == 0
}
