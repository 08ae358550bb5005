package loopfile

import (
	"context"
	"errors"
	"iter"
	"os"

	"github.com/holdfast-storage/holdfast/executor"
)

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
