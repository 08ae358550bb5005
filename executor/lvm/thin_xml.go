package lvm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// maxLineBytes is longer than any line that the thin tools print.
const maxLineBytes = 4096

// lineWriter hands on what is written to it line by line, until one is refused: then what
// writes is stopped.
type lineWriter struct {
	handle  func(line string) error
	stop    func(cause error)
	partial []byte
	err     error
}

// Write takes all that it is given: a tool that gets an error would say so in its own words.
func (l *lineWriter) Write(b []byte) (int, error) {
	l.partial = append(l.partial, b...)
	for l.err == nil {
		line, tail, ok := bytes.Cut(l.partial, []byte("\n"))
		if !ok {
			break
		}
		l.partial = tail
		l.err = l.handle(strings.TrimSpace(string(line)))
	}
	if l.err == nil && len(l.partial) > maxLineBytes {
		l.err = fmt.Errorf("a line of more than %d bytes", maxLineBytes)
	}
	if l.err != nil {
		l.partial = nil
		l.stop(l.err)
	}
	return len(b), nil
}

// isMetaLine tells whether a line is one of those that say nothing of any block. What
// is not understood could be a mapping.
func isMetaLine(line string) bool {
	name, _, _ := strings.Cut(line, " ")
	switch name {
	case "", "<superblock", "<device", "</device>":
		return true
	}
	return false
}

// parseMapping reads a line of thin_dump that says where blocks lie. A number that
// cannot be read makes a mapping that cannot be.
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
