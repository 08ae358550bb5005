package loopfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// copyChunk is how many bytes are copied between two checks of the context.
const copyChunk = 8 << 20

// copySparse copies the data of a file's first size bytes, without its holes.
func copySparse(ctx context.Context, from, to *os.File, size int64, progress executor.Progress) error {
	if err := to.Truncate(size); err != nil {
		return err
	}
	segments, total, err := dataExtents(from, 0, size)
	if err != nil {
		return err
	}
	var copied int64
	for _, s := range segments {
		err := inChunks(ctx, s, func(step executor.Extent) error {
			if err := copyRange(from, to, step); err != nil {
				return err
			}
			if copied += step.Length; progress != nil {
				progress(copied, total)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func inChunks(ctx context.Context, e executor.Extent, fn func(executor.Extent) error) error {
	for e.Length > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		step := executor.Extent{Offset: e.Offset, Length: min(e.Length, copyChunk)}
		if err := fn(step); err != nil {
			return err
		}
		e.Offset, e.Length = e.Offset+step.Length, e.Length-step.Length
	}
	return nil
}

// dataExtents lists where a file holds data from an offset on, and returns the total in bytes.
func dataExtents(f *os.File, from, size int64) (segments []executor.Extent, total int64, err error) {
	for at := from; at < size; {
		start, err := nextData(f, at)
		if err != nil {
			return nil, 0, err
		}
		if start >= size {
			break
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return nil, 0, fmt.Errorf("find the holes of %s: %w", f.Name(), err)
		}
		segments = append(segments, executor.Extent{Offset: start, Length: min(end, size) - start})
		total += min(end, size) - start
		at = end
	}
	return segments, total, nil
}

// nextData is the first offset at or after at where the file holds data; beyond any size if there
// is none.
func nextData(f *os.File, at int64) (int64, error) {
	start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return math.MaxInt64, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the data of %s: %w", f.Name(), err)
	}
	return start, nil
}

// copyRange lets the kernel copy, or copies in user space where the kernel cannot.
func copyRange(from, to *os.File, e executor.Extent) error {
	in, out := e.Offset, e.Offset
	for end := e.Offset + e.Length; in < end; {
		n, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), &out, int(end-in), 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case cannotClone(err):
			return copyInUserspace(from, to, executor.Extent{Offset: in, Length: end - in})
		case err != nil:
			return fmt.Errorf("copy %s: %w", from.Name(), err)
		case n == 0:
			return fmt.Errorf("copy %s: it ends at %d, before %d: %w", from.Name(), in, end, io.ErrUnexpectedEOF)
		}
	}
	return nil
}

func copyInUserspace(from, to *os.File, e executor.Extent) error {
	section := io.NewSectionReader(from, e.Offset, e.Length)
	n, err := io.Copy(io.NewOffsetWriter(to, e.Offset), section)
	if err == nil && n != e.Length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", from.Name(), err)
	}
	return nil
}
