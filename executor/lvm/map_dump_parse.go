package lvm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// dumpParser parses what thin_dump prints of one device.
type dumpParser struct {
	ctx     context.Context
	out     chan<- []mapping
	header  string // beginning of the line that must precede the device's mappings
	batch   []mapping
	lastEnd int64 // the block at which the last mapping ended

	sawHeader, complete bool
}

// parseLine parses one line.
func (p *dumpParser) parseLine(line string) error {
	m, ok := parseMapping(line)
	switch {
	case ok:
		return p.add(m, line)
	case line == "</superblock>":
		p.complete = true
	case !isMetaLine(line):
		return fmt.Errorf("thin_dump printed %q, which is not understood", line)
	}
	p.sawHeader = p.sawHeader || strings.HasPrefix(line, p.header)
	return nil
}

// maxBlock is more than the number of blocks of any volume or pool.
const maxBlock = math.MaxInt64 / (1 << 30) / 2

func (p *dumpParser) add(m mapping, line string) error {
	if m.volumeBlock < p.lastEnd || m.blocks <= 0 || m.poolBlock < 0 || max(m.volumeBlock, m.poolBlock, m.blocks) > maxBlock {
		return fmt.Errorf("thin_dump printed %q, which cannot follow block %d", line, p.lastEnd)
	}
	if !p.sawHeader {
		return fmt.Errorf("thin_dump printed %q of another device", line)
	}
	p.lastEnd = m.end()
	if p.batch = append(p.batch, m); len(p.batch) < mappingBatch {
		return nil
	}
	return p.flush()
}

func (p *dumpParser) flush() error {
	select {
	case p.out <- p.batch:
		p.batch = nil
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// finish passes on the last mappings. Output without the closing lines is incomplete, which is an
// error.
func (p *dumpParser) finish() error {
	if !p.sawHeader || !p.complete {
		return errors.New("the output of thin_dump is incomplete")
	}
	return p.flush()
}

// isMetaLine reports whether a line is one of those that describe no block. Any other line that
// does not parse could be a mapping.
func isMetaLine(line string) bool {
	name, _, _ := strings.Cut(line, " ")
	switch name {
	case "", "<superblock", "<device", "</device>":
		return true
	}
	return false
}

// parseMapping parses a line of thin_dump that maps blocks. A number that does not parse results
// in an invalid mapping.
func parseMapping(line string) (mapping, bool) {
	name, attributes, _ := strings.Cut(strings.TrimPrefix(line, "<"), " ")
	read := func(name string) int64 { return parseNumber(attribute(attributes, name)) }
	switch name {
	case "range_mapping":
		return mapping{read("origin_begin"), read("data_begin"), read("length")}, true
	case "single_mapping":
		return mapping{read("origin_block"), read("data_block"), 1}, true
	}
	return mapping{}, false
}

func parseNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// attribute returns the value of an XML attribute, empty without it.
func attribute(attributes, name string) string {
	for field := range strings.FieldsSeq(attributes) {
		if value, ok := strings.CutPrefix(field, name+`="`); ok {
			value, _, _ = strings.Cut(value, `"`)
			return value
		}
	}
	return ""
}
