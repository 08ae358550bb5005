package loopfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Map yields where the snapshot holds data, as the extent map of the filesystem under the pool
// says.
func (p *Pool) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	f, size, err := p.openSized(target)
	if err != nil {
		return err
	}
	defer f.Close()
	joined := extentMerger{yield: yield, from: from}
	err = fileExtents(ctx, f, max(from, 0), size, func(e extent) bool { return joined.add(e.Extent) })
	joined.flush()
	if err != nil {
		return fmt.Errorf("map %s: %w", target, err)
	}
	return nil
}

func (p *Pool) openSized(id fsm.SnapshotID) (*os.File, int64, error) {
	f, err := p.openSnapshot(id)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("measure %s: %w", id, err), f.Close())
	}
	return f, info.Size(), nil
}

// Delta yields where two snapshots differ. Where the pool shares blocks, ranges with the same
// physical extents are equal; where it copies, the bytes are compared.
func (p *Pool) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	baseFile, oldSize, err := p.openSized(base)
	if err != nil {
		return err
	}
	defer baseFile.Close()
	if base == target {
		return nil
	}
	targetFile, nowSize, err := p.openSized(target)
	if err != nil {
		return err
	}
	defer targetFile.Close()
	joined := extentMerger{yield: yield, from: from}
	size := max(oldSize, nowSize)
	if p.SharesBlocks() {
		err = deltaByExtents(ctx, baseFile, targetFile, max(from, 0), size, joined.add)
	} else {
		err = deltaByContent(ctx, baseFile, targetFile, max(from, 0), size, joined.add)
	}
	joined.flush()
	if err != nil {
		return fmt.Errorf("compare %s with %s: %w", target, base, err)
	}
	return nil
}

// deltaByExtents compares the extent maps of both files side by side.
func deltaByExtents(ctx context.Context, base, target *os.File, from, size int64, yield func(executor.Extent) bool) error {
	old, stopOld := extentIterator(ctx, base, from, size)
	defer stopOld()
	now, stopNow := extentIterator(ctx, target, from, size)
	defer stopNow()
	a, b := cursor{next: old}, cursor{next: now}
	for at := from; at < size; {
		if err := errors.Join(checkInterrupted(ctx, at), a.advance(at), b.advance(at)); err != nil {
			return err
		}
		end := min(a.until(at, size), b.until(at, size))
		if !sameBlocks(a, b, at) && !yield(executor.Extent{Offset: at, Length: end - at}) {
			return nil
		}
		at = end
	}
	return nil
}

// checkInterrupted returns an *executor.InterruptedError for an offset when the context is done.
func checkInterrupted(ctx context.Context, at int64) error {
	if err := ctx.Err(); err != nil {
		return &executor.InterruptedError{Offset: at, Cause: err}
	}
	return nil
}

// extentIterator returns the extents of a file one by one, as a cursor's source.
func extentIterator(ctx context.Context, f *os.File, from, size int64) (next func() (extent, error, bool), stop func()) {
	return iter.Pull2(func(yield func(extent, error) bool) {
		// The caller of next checks the context: it knows the offset that was reached.
		if err := fileExtents(context.WithoutCancel(ctx), f, from, size, func(e extent) bool { return yield(e, nil) }); err != nil {
			yield(extent{}, err)
		}
	})
}

// cursor is a position in a file's extent map.
type cursor struct {
	next    func() (extent, error, bool)
	current extent
	done    bool
}

// advance drops the extents that end at or before an offset.
func (c *cursor) advance(at int64) error {
	for !c.done && c.current.end() <= at {
		e, err, ok := c.next()
		if err != nil {
			return err
		}
		c.current, c.done = e, !ok
	}
	return nil
}

func (c *cursor) holds(at int64) bool { return !c.done && c.current.Offset <= at }

// until is the end of the extent, or of the hole, in which an offset lies.
func (c *cursor) until(at, size int64) int64 {
	switch {
	case c.done:
		return size
	case c.holds(at):
		return min(c.current.end(), size)
	}
	return min(c.current.Offset, size)
}

// sameBlocks reports whether two files certainly have the same bytes from an offset on.
func sameBlocks(a, b cursor, at int64) bool {
	if !a.holds(at) || !b.holds(at) {
		return a.holds(at) == b.holds(at)
	}
	return a.current.shared && b.current.shared && a.current.physical+at-a.current.Offset == b.current.physical+at-b.current.Offset
}

const (
	compareStep  = 1 << 20
	compareBlock = 4096
)

// deltaByContent compares the bytes wherever one of the files holds data.
func deltaByContent(ctx context.Context, base, target *os.File, from, size int64, yield func(executor.Extent) bool) error {
	from -= from % compareBlock
	a, b := make([]byte, compareStep), make([]byte, compareStep)
	for at := from; at < size; {
		if err := checkInterrupted(ctx, at); err != nil {
			return err
		}
		start, err := firstData(base, target, at, size)
		if err != nil || start >= size {
			return err
		}
		at = start - start%compareBlock
		n := int(min(compareStep, size-at))
		if err := errors.Join(readZeroFilled(base, a[:n], at), readZeroFilled(target, b[:n], at)); err != nil {
			return err
		}
		if !yieldDifferences(a[:n], b[:n], at, yield) {
			return nil
		}
		at += int64(n)
	}
	return nil
}

// firstData is the first offset at or after at where one of the files holds data.
func firstData(a, b *os.File, at, size int64) (int64, error) {
	first := size
	for _, f := range []*os.File{a, b} {
		start, err := nextData(f, at)
		if err != nil {
			return 0, err
		}
		first = min(first, start)
	}
	return first, nil
}

func yieldDifferences(a, b []byte, at int64, yield func(executor.Extent) bool) bool {
	for i := 0; i < len(a); i += compareBlock {
		end := min(i+compareBlock, len(a))
		if !bytes.Equal(a[i:end], b[i:end]) && !yield(executor.Extent{Offset: at + int64(i), Length: int64(end - i)}) {
			return false
		}
	}
	return true
}

// readZeroFilled reads a range; bytes beyond the file's end are zero.
func readZeroFilled(f *os.File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		clear(b[n:])
		return nil
	}
	return err
}
