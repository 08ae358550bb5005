package lvm

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

// mapping says where a range of a volume's blocks lies in the pool, in blocks.
type mapping struct{ volumeBlock, poolBlock, blocks int64 }

func (m mapping) end() int64 { return m.volumeBlock + m.blocks }

// mappingBatch is how many mappings are passed on at once.
const mappingBatch = 1024

// thinDump is one thin device's mappings, in ascending order, while thin_dump prints them.
type thinDump struct {
	batches chan []mapping
	err     error // valid once batches is closed

	pending []mapping
	cur     mapping // of length 0 before the first
	done    bool
}

// startDump runs thin_dump for one device. Each device needs a run of its own: given several,
// newer versions print the mappings that they share separately.
func (t *tools) startDump(ctx context.Context, device string, thin uint64) *thinDump {
	d := &thinDump{batches: make(chan []mapping, 2)}
	go func() {
		defer close(d.batches)
		d.err = t.printDump(ctx, device, thin, d.batches)
	}()
	return d
}

func (t *tools) printDump(ctx context.Context, device string, thin uint64, batches chan<- []mapping) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parser := &dumpParser{ctx: ctx, out: batches, header: fmt.Sprintf("<device dev_id=\"%d\" ", thin)}
	out := &lineWriter{handle: parser.parseLine, stop: cancel}
	err := t.runThinTool(ctx, out, "thin_dump", "-m", "--dev-id", strconv.FormatUint(thin, 10), device)
	switch {
	case out.err != nil:
		return out.err // thin_dump was killed because of it
	case err != nil:
		return err
	}
	return parser.finish()
}

// wait returns when the tool has exited, or is stuck after SIGKILL.
func (d *thinDump) wait() {
	for range d.batches { //nolint:revive // what is left is of no use
	}
}

// advance drops the mappings that end at or before a block.
func (d *thinDump) advance(at int64) error {
	for !d.done && d.cur.end() <= at {
		if len(d.pending) == 0 {
			batch, ok := <-d.batches
			if !ok {
				d.done = true
				return d.err
			}
			d.pending = batch
			continue // a batch may be empty
		}
		d.cur, d.pending = d.pending[0], d.pending[1:]
	}
	return nil
}

// poolBlock returns where a block of the volume lies in the pool; false when it is not mapped.
func (d *thinDump) poolBlock(at int64) (int64, bool) {
	if d.done || at < d.cur.volumeBlock {
		return 0, false
	}
	return d.cur.poolBlock + at - d.cur.volumeBlock, true
}

// sameUntil returns the block before which all blocks are like the one at a position: consecutive
// in the pool, or not mapped.
func (d *thinDump) sameUntil(at int64) int64 {
	switch {
	case d.done:
		return math.MaxInt64
	case at < d.cur.volumeBlock:
		return d.cur.volumeBlock
	}
	return d.cur.end()
}
