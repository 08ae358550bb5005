package lvm

import (
	"context"
	"math"

	"github.com/holdfast-storage/holdfast/executor"
)

// compareDumps reads the dumps side by side and yields, in bytes, where they do not map to the
// same block of the pool; of a single dump, where it maps any.
func (t *tools) compareDumps(ctx context.Context, device string, of *thinDevices, from int64, yield func(executor.Extent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var dumps []*thinDump
	for _, id := range of.ids {
		dumps = append(dumps, t.startDump(ctx, device, id))
	}
	defer func() {
		cancel()
		for _, d := range dumps {
			d.wait() // the metadata snapshot must not be released while they read it
		}
	}()
	return mergeDumps(dumps, of.chunk, max(from, 0), of.size, yield)
}

// mergeDumps does the work of compareDumps on dumps that are already running.
func mergeDumps(dumps []*thinDump, chunk, from, size int64, yield func(executor.Extent) error) error {
	last := (size + chunk - 1) / chunk // the volume's size need not be a multiple of the chunk size
	for at := from / chunk; at < last; {
		end := last
		for _, d := range dumps {
			if err := d.advance(at); err != nil {
				return err
			}
			end = min(end, d.sameUntil(at))
		}
		if start := max(at*chunk, from); blocksDiffer(dumps, at) && start < size {
			if err := yield(executor.Extent{Offset: start, Length: min(end*chunk, size) - start}); err != nil {
				return err
			}
		}
		at = end
	}
	for _, d := range dumps { // read to the end: every line must parse, and each dump must say that it is complete
		if err := d.advance(math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}

// blocksDiffer reports whether the dumps map one block of the volume to different blocks of the
// pool.
func blocksDiffer(dumps []*thinDump, at int64) bool {
	first, mapped := dumps[0].poolBlock(at)
	if len(dumps) == 1 {
		return mapped
	}
	second, both := dumps[1].poolBlock(at)
	return mapped != both || first != second
}
