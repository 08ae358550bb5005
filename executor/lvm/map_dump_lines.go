package lvm

import (
	"bytes"
	"fmt"
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
