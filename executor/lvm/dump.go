package lvm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// mapping says where a range of a volume's blocks lies in the pool.
type mapping struct{ begin, data, length int64 }

func (m mapping) end() int64 { return m.begin + m.length }

// mappingBatch is how many mappings are handed over at once.
const mappingBatch = 1024

// dump is one thin device's mappings, in ascending order, while thin_dump prints them.
type dump struct {
	batches chan []mapping
	err     error // valid once batches is closed

	rest []mapping
	cur  mapping // of no length before the first
	done bool
}

// dump starts thin_dump for one device. One for each: of several at once its newer
// versions say what they share apart from each.
func (t *tools) dump(ctx context.Context, device string, thin uint64) *dump {
	d := &dump{batches: make(chan []mapping, 2)}
	go func() {
		defer close(d.batches)
		d.err = t.printDump(ctx, device, thin, d.batches)
	}()
	return d
}

func (t *tools) printDump(ctx context.Context, device string, thin uint64, to chan<- []mapping) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &dumpReader{ctx: ctx, to: to, begins: fmt.Sprintf("<device dev_id=\"%d\" ", thin)}
	out := &lines{each: r.take, stop: cancel}
	err := t.thin(ctx, out, "thin_dump", "-m", "--dev-id", strconv.FormatUint(thin, 10), device)
	switch {
	case out.err != nil:
		return out.err // the tool was stopped for it
	case err != nil:
		return err
	}
	return r.end()
}

// wait returns when the tool has ended, or is as good as gone.
func (d *dump) wait() {
	for range d.batches { //nolint:revive // what is left is of no use
	}
}

// advance drops the mappings that end at or before a block.
func (d *dump) advance(at int64) error {
	for !d.done && d.cur.end() <= at {
		if len(d.rest) == 0 {
			batch, ok := <-d.batches
			if !ok {
				d.done = true
				return d.err
			}
			d.rest = batch
			continue // which may be empty
		}
		d.cur, d.rest = d.rest[0], d.rest[1:]
	}
	return nil
}

// block is where a block of the volume lies in the pool, if it is there.
func (d *dump) block(at int64) (int64, bool) {
	if d.done || at < d.cur.begin {
		return 0, false
	}
	return d.cur.data + at - d.cur.begin, true
}

// until is the block before which all are as the one at a place: behind each other in
// the pool, or not there.
func (d *dump) until(at int64) int64 {
	switch {
	case d.done:
		return math.MaxInt64
	case at < d.cur.begin:
		return d.cur.begin
	}
	return d.cur.end()
}

// dumpReader reads what thin_dump prints of one device.
type dumpReader struct {
	ctx    context.Context
	to     chan<- []mapping
	begins string // how the line begins without which the tool said nothing of the device
	batch  []mapping
	last   int64 // the block at which the last mapping ended

	began, whole bool
}

// take reads one line.
func (r *dumpReader) take(line string) error {
	m, ok := readMapping(line)
	switch {
	case ok:
		return r.add(m, line)
	case line == "</superblock>":
		r.whole = true
	case !holdsNothing(line):
		return fmt.Errorf("thin_dump says %q, which is not understood", line)
	}
	r.began = r.began || strings.HasPrefix(line, r.begins)
	return nil
}

// maxBlock is more than any volume or pool has.
const maxBlock = math.MaxInt64 / (1 << 30) / 2

func (r *dumpReader) add(m mapping, line string) error {
	if m.begin < r.last || m.length <= 0 || m.data < 0 || max(m.begin, m.data, m.length) > maxBlock {
		return fmt.Errorf("thin_dump says %q, which cannot be behind block %d", line, r.last)
	}
	if !r.began {
		return fmt.Errorf("thin_dump says %q of another device", line)
	}
	r.last = m.end()
	if r.batch = append(r.batch, m); len(r.batch) < mappingBatch {
		return nil
	}
	return r.hand()
}

func (r *dumpReader) hand() error {
	select {
	case r.to <- r.batch:
		r.batch = nil
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// end hands over the last mappings. A tool that ends without an error says so of all.
func (r *dumpReader) end() error {
	if !r.began || !r.whole {
		return errors.New("thin_dump says less than everything")
	}
	return r.hand()
}
