package lvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Map yields where the snapshot has blocks of the pool.
func (p *Pool) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	v, lv, size, err := p.compared(ctx, target)
	if err != nil {
		return err
	}
	ask := asked{tool: "thin_dump", args: []string{"-m", "--dev-id", strconv.FormatUint(lv.thin, 10)},
		parse: mappings, begins: fmt.Sprintf("<device dev_id=\"%d\" ", lv.thin)}
	if err := p.pages(ctx, v.chunk, from, size, ask, yield); err != nil {
		return fmt.Errorf("map %s: %w", target, err)
	}
	return nil
}

// Delta yields where two snapshots do not have the same block of the pool.
func (p *Pool) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	_, old, oldSize, err := p.compared(ctx, base)
	if err != nil {
		return err
	}
	v, now, nowSize, err := p.compared(ctx, target)
	if err != nil || base == target {
		return err
	}
	ask := asked{tool: "thin_delta", parse: differences, begins: fmt.Sprintf("<diff left=\"%d\" right=\"%d\"", old.thin, now.thin),
		args: []string{"-m", "--snap1", strconv.FormatUint(old.thin, 10), "--snap2", strconv.FormatUint(now.thin, 10)}}
	if err := p.pages(ctx, v.chunk, from, max(oldSize, nowSize), ask, yield); err != nil {
		return fmt.Errorf("compare %s with %s: %w", target, base, err)
	}
	return nil
}

// compared is a snapshot whose blocks are asked for.
func (p *Pool) compared(ctx context.Context, id fsm.SnapshotID) (*view, *volume, int64, error) {
	if err := checkSnapshotID(id); err != nil {
		return nil, nil, 0, err
	}
	v, err := p.recent(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	lv, size, err := v.ready(string(id))
	if err == nil && lv == nil {
		err = fsm.Reject(fsm.Precondition, "there is no snapshot %s in pool %s", id, p.name())
	}
	return v, lv, size, err
}

// asked is one of the thin tools, and how its lines are read.
type asked struct {
	tool  string
	args  []string
	parse func(line string) (blocks, bool)
	// begins is how the line begins without which the tool said nothing of what was
	// asked: thin_dump is silent about a device that is not there.
	begins string
}

// blocks is a range of the pool's blocks, by their places in a volume.
type blocks struct{ begin, length int64 }

// pageLength is how many extents are kept at once: the metadata snapshot is not held
// while a reader takes his time. Snapshots do not change between two pages.
const pageLength = 64 << 10

var errPageFull = errors.New("the page is full")

// pages asks the tool, page by page, and yields what it says as bytes.
func (p *Pool) pages(ctx context.Context, chunk, from, size int64, ask asked, yield func(executor.Extent) bool) error {
	for from = max(from, 0); from < size; {
		page := &page{asked: ask, chunk: chunk, from: from, size: size, limit: pageLength}
		if err := p.fill(ctx, page); err != nil {
			return err
		}
		for _, e := range page.extents {
			if !yield(e) {
				return nil
			}
		}
		from = page.next()
	}
	return nil
}

// fill asks the tool for one page.
func (p *Pool) fill(ctx context.Context, page *page) error {
	pool, _, err := p.poolDevice()
	if err != nil {
		return err
	}
	return p.withMetadata(ctx, pool, func(device string) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		out := &lines{each: page.take, stop: cancel}
		err := p.tools.thin(ctx, out, page.tool, append(slices.Clone(page.args), device)...)
		switch {
		case page.full:
			return nil // the tool was stopped, or did not notice
		case out.err != nil:
			return out.err
		case err == nil && !(page.began && page.whole):
			return fmt.Errorf("%s says less than everything", page.tool)
		}
		return err
	})
}

// page is a part of a map or a delta.
type page struct {
	asked
	chunk, from, size int64 // bytes
	limit             int
	extents           []executor.Extent
	full              bool
	began, whole      bool // the tool said what this is about, and that it was all
}

// take reads one line of what a tool prints.
func (g *page) take(line string) error {
	switch b, ok := g.parse(line); {
	case g.full:
		return errPageFull
	case ok && (b.begin < 0 || b.length <= 0 || b.begin > math.MaxInt64/g.chunk-b.length):
		return fmt.Errorf("the range of %d blocks at %d cannot be", b.length, b.begin)
	case ok:
		return g.add(b.begin*g.chunk, (b.begin+b.length)*g.chunk)
	case line == "</superblock>":
		g.whole = true
	case !holdsNothing(line):
		return fmt.Errorf("%s says %q, which is not understood", g.tool, line)
	}
	g.began = g.began || strings.HasPrefix(line, g.begins)
	return nil
}

// add takes a range from the page's beginning on and within the volume, joined with
// the one before it.
func (g *page) add(begin, end int64) error {
	begin, end = max(begin, g.from), min(end, g.size)
	if begin >= end {
		return nil
	}
	if n := len(g.extents); n > 0 {
		last := &g.extents[n-1]
		if begin < last.Offset+last.Length {
			return fmt.Errorf("the range at %d comes after one that ends at %d", begin, last.Offset+last.Length)
		}
		if begin == last.Offset+last.Length {
			last.Length = end - last.Offset
			return nil
		}
		if n == g.limit {
			g.full = true
			return errPageFull
		}
	}
	g.extents = append(g.extents, executor.Extent{Offset: begin, Length: end - begin})
	return nil
}

// next is where the page after this one begins.
func (g *page) next() int64 {
	if !g.full {
		return g.size
	}
	last := g.extents[len(g.extents)-1]
	return last.Offset + last.Length
}

var _ io.Writer = (*lines)(nil)
