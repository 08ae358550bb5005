package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
}

// options are the flags of all verbs.
type options struct {
	path, acks, stamp   string
	durable             string
	then                []string
	direct              bool
	from, acked, blocks uint64
	most                uint64
	eager               uint64
	pause               time.Duration
	bytes               int64
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: writer write|check|scan|fill|empty --path P ...")
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.path, "path", "", "file or device of the ring")
	flags.Func("then", "`file` or device of a ring that each block is written to after that; repeated: in this order", func(path string) error {
		o.then = append(o.then, path)
		return nil
	})
	flags.StringVar(&o.acks, "acks", "", "file that says what was acknowledged")
	flags.StringVar(&o.stamp, "stamp", "", "who writes")
	flags.BoolVar(&o.direct, "direct", false, "past the page cache")
	flags.StringVar(&o.durable, "durable", "fdatasync", "`what` makes a block durable: fdatasync after it; or the write itself, by dsync or aio")
	flags.Uint64Var(&o.from, "from", 1, "first number to write")
	flags.Uint64Var(&o.eager, "eager", 0, "how many blocks to write before the first pause")
	flags.DurationVar(&o.pause, "pause", 0, "between two blocks")
	flags.Uint64Var(&o.acked, "acked", 0, "last number that was acknowledged")
	flags.Uint64Var(&o.blocks, "blocks", 1024, "length of the ring")
	flags.Uint64Var(&o.most, "most", 0, "how many thin devices to make; 0: all that there is room for")
	flags.Int64Var(&o.bytes, "bytes", 0, "how much to scan; 0: all")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "write":
		return o.write()
	case "check":
		return o.check()
	case "scan":
		return o.scan()
	case "fill":
		return o.fill()
	case "empty":
		return o.empty()
	}
	return fmt.Errorf("there is no verb %q", args[0])
}

// write writes until it fails or is killed.
func (o *options) write() error {
	said, err := openAcks(o.acks)
	if err != nil {
		return err
	}
	rings, err := o.openRings()
	if err != nil {
		return errors.Join(err, said.failed(err))
	}
	for number := o.from; ; number++ {
		if err := writeEach(rings, block{number: number, stamp: o.stamp}); err != nil {
			err = fmt.Errorf("write block %d: %w", number, err)
			return errors.Join(err, said.failed(err))
		}
		if err := said.acknowledged(number); err != nil {
			return err
		}
		if number-o.from >= o.eager {
			time.Sleep(o.pause)
		}
	}
}

// openRings opens the ring and those that are written after it.
func (o *options) openRings() (all []*ring, err error) {
	for _, path := range append([]string{o.path}, o.then...) {
		r, err := o.openDurable(path)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// writeEach writes a block to one ring after the other: a later one never has what an earlier one lacks.
func writeEach(rings []*ring, b block) error {
	for _, r := range rings {
		if err := r.writeBlock(b); err != nil {
			return fmt.Errorf("%s: %w", r.file.Name(), err)
		}
	}
	return nil
}

// checkResult is what check prints, as JSON.
type checkResult struct {
	Highest uint64   `json:"highest"` // highest number found
	Missing []uint64 `json:"missing"` // acknowledged, and not found
	// Stamps are the stamps of the writers of the ring, in the order of the numbers.
	Stamps []string `json:"stamps"`
}

// check reads the ring: every acknowledged number of its last turn must be there, or a later one in its
// place.
func (o *options) check() error {
	r, err := openRing(o.path, os.O_RDONLY, o.direct, o.blocks)
	if err != nil {
		return err
	}
	found, err := r.findMissing(o.acked)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func (r *ring) findMissing(acked uint64) (checkResult, error) {
	f := checkResult{Missing: []uint64{}, Stamps: []string{}}
	first := uint64(1)
	if acked > r.blocks {
		first = acked - r.blocks + 1
	}
	var found []block
	for number := first; number <= acked; number++ {
		b, whole, err := r.readBlock(number)
		if err != nil {
			return f, fmt.Errorf("read the place of block %d: %w", number, err)
		}
		if !whole || b.number < number || b.number%r.blocks != number%r.blocks {
			f.Missing = append(f.Missing, number)
			continue
		}
		found = append(found, b)
	}
	f.print(found)
	return f, nil
}

// print prints the result. A place may hold a later number than the expected one: the last block written need
// not have been acknowledged.
func (f *checkResult) print(found []block) {
	slices.SortFunc(found, func(a, b block) int { return cmp.Compare(a.number, b.number) })
	for _, b := range found {
		if f.Highest = max(f.Highest, b.number); len(f.Stamps) == 0 || f.Stamps[len(f.Stamps)-1] != b.stamp {
			f.Stamps = append(f.Stamps, b.stamp)
		}
	}
}
