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

// holdsNothing tells whether a line is one of those that say nothing of any block. What
// is not understood could be a mapping.
func holdsNothing(line string) bool {
	name, _, _ := strings.Cut(line, " ")
	switch name {
	case "", "<superblock", "<device", "</device>":
		return true
	}
	return false
}

// readMapping reads a line of thin_dump that says where blocks lie. A number that
// cannot be read makes a mapping that cannot be.
func readMapping(line string) (mapping, bool) {
	name, attributes, _ := strings.Cut(strings.TrimPrefix(line, "<"), " ")
	read := func(name string) int64 { return number(attribute(attributes, name)) }
	switch name {
	case "range_mapping":
		return mapping{read("origin_begin"), read("data_begin"), read("length")}, true
	case "single_mapping":
		return mapping{read("origin_block"), read("data_block"), 1}, true
	}
	return mapping{}, false
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
