package lvm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// maxLineBytes is longer than any line that the thin tools print.
const maxLineBytes = 4096

// lineWriter passes on what is written to it line by line, until a line is refused: then the
// command that writes is stopped.
type lineWriter struct {
	handle  func(line string) error
	stop    func(cause error)
	partial []byte
	err     error
}

// Write always accepts all bytes: on an error the tool would report a failure of its own.
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
