package lvm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// lineLimit is longer than any line that the thin tools print.
const lineLimit = 4096

// lines hands on what is written to it line by line, until one is refused: then what
// writes is stopped.
type lines struct {
	each func(line string) error
	stop func(cause error)
	rest []byte
	err  error
}

// Write takes all that it is given: a tool that gets an error would say so in its own words.
func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for l.err == nil {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		l.rest = rest
		l.err = l.each(strings.TrimSpace(string(line)))
	}
	if l.err == nil && len(l.rest) > lineLimit {
		l.err = fmt.Errorf("a line of more than %d bytes", lineLimit)
	}
	if l.err != nil {
		l.rest = nil
		l.stop(l.err)
	}
	return len(b), nil
}

// holdsNothing tells whether a line is one of those that say nothing of any block, or
// that two are equal. What is not understood could be a difference.
func holdsNothing(line string) bool {
	name, _, _ := strings.Cut(line, " ")
	switch name {
	case "", "<superblock", "<diff", "</diff>", "<same", "<device", "</device>":
		return true
	}
	return false
}

// differences reads a line of thin_delta. Its elements are ranges in ascending order;
// what is "same" lies in one place in both.
func differences(line string) (blocks, bool) {
	name, attributes, _ := strings.Cut(strings.TrimPrefix(line, "<"), " ")
	switch name {
	case "different", "left_only", "right_only":
		return blockRange(attributes, "begin", "length")
	}
	return blocks{}, false
}

// mappings reads a line of thin_dump, which was asked for one device.
func mappings(line string) (blocks, bool) {
	name, attributes, _ := strings.Cut(strings.TrimPrefix(line, "<"), " ")
	switch name {
	case "range_mapping":
		return blockRange(attributes, "origin_begin", "length")
	case "single_mapping":
		return blockRange(attributes, "origin_block", "")
	}
	return blocks{}, false
}

// blockRange reads where a range begins and how long it is; one block without a length. A
// number that cannot be read makes a range that cannot be.
func blockRange(attributes, begin, length string) (blocks, bool) {
	b := blocks{begin: number(attribute(attributes, begin)), length: 1}
	if length != "" {
		b.length = number(attribute(attributes, length))
	}
	return b, true
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// attribute is the value of one attribute, empty without it.
func attribute(attributes, name string) string {
	for field := range strings.FieldsSeq(attributes) {
		if value, ok := strings.CutPrefix(field, name+`="`); ok {
			value, _, _ = strings.Cut(value, `"`)
			return value
		}
	}
	return ""
}
