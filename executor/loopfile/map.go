package loopfile

import (
	"context"
	"fmt"

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

// checkInterrupted returns an *executor.InterruptedError for an offset when the context is done.
func checkInterrupted(ctx context.Context, at int64) error {
	if err := ctx.Err(); err != nil {
		return &executor.InterruptedError{Offset: at, Cause: err}
	}
	return nil
}

// extentMerger merges adjacent ranges before it passes them on, and leaves out what lies before an
// offset.
type extentMerger struct {
	yield   func(executor.Extent) bool
	from    int64
	pending executor.Extent
	ended   bool
}

func (m *extentMerger) add(e executor.Extent) bool {
	if skipped := m.from - e.Offset; skipped > 0 {
		e.Offset, e.Length = m.from, e.Length-skipped
	}
	if m.pending.Length > 0 && m.pending.Offset+m.pending.Length == e.Offset {
		m.pending.Length += e.Length
		return !m.ended
	}
	m.flush()
	m.pending = e
	return !m.ended
}

func (m *extentMerger) flush() {
	if m.pending.Length > 0 && !m.ended {
		m.ended = !m.yield(m.pending)
	}
	m.pending = executor.Extent{}
}
