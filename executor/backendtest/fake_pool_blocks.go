package backendtest

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
)

// BlockBytes is the size of the blocks in which the fake stores content, in bytes.
const BlockBytes = 4096

// blocks is content by block number; a missing block reads as zero. Blocks are replaced, never
// changed, so copies of the map share them.
type blocks map[int64]*[BlockBytes]byte

// truncated is the content up to a size; the rest is dropped.
func (b blocks) truncated(size int64) blocks {
	kept := blocks{}
	for number, block := range b {
		switch at := number * BlockBytes; {
		case at+BlockBytes <= size:
			kept[number] = block
		case at < size:
			part := &[BlockBytes]byte{}
			copy(part[:], block[:size-at])
			kept[number] = part
		}
	}
	return kept
}

// fakeSnapshot is a snapshot of a volume's content.
type fakeSnapshot struct {
	size    int64
	content blocks
}

// extents yields, from an offset on, the blocks that are wanted of those that this snapshot or an
// older one has.
func (s fakeSnapshot) extents(ctx context.Context, old fakeSnapshot, from int64, want func(old, now *[BlockBytes]byte) bool, yield func(executor.Extent) bool) error {
	both := maps.Clone(s.content)
	if both == nil {
		both = blocks{}
	}
	maps.Copy(both, old.content)
	for _, number := range slices.Sorted(maps.Keys(both)) {
		start, end := max(number*BlockBytes, from), min((number+1)*BlockBytes, max(old.size, s.size))
		if start >= end || !want(old.content[number], s.content[number]) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return &executor.InterruptedError{Offset: start, Cause: err}
		}
		if !yield(executor.Extent{Offset: start, Length: end - start}) {
			return nil
		}
	}
	return nil
}

// equal reports whether two blocks read the same; a missing one reads as zero.
func equal(a, b *[BlockBytes]byte) bool {
	var zero [BlockBytes]byte
	if a == nil {
		a = &zero
	}
	if b == nil {
		b = &zero
	}
	return a == b || bytes.Equal(a[:], b[:])
}
