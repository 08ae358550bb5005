package backup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxEntryBytes bounds what a damaged length makes a reader allocate.
const maxEntryBytes = 64 << 20

// entry is one command of an increment: index, term and length as varints, a byte that is 1 where operators
// had it skipped, and the command.
type entry struct {
	index, term uint64
	skipped     bool
	command     []byte
}

func (e entry) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, e.index)
	b = binary.AppendUvarint(b, e.term)
	b = binary.AppendUvarint(b, uint64(len(e.command)))
	skipped := byte(0)
	if e.skipped {
		skipped = 1
	}
	return append(append(b, skipped), e.command...)
}

// readEntry is io.EOF at the end of the increment.
func readEntry(r *bufio.Reader) (e entry, err error) {
	if _, err := r.Peek(1); errors.Is(err, io.EOF) {
		return e, io.EOF
	}
	var size uint64
	for _, number := range []*uint64{&e.index, &e.term, &size} {
		if *number, err = binary.ReadUvarint(r); err != nil {
			return e, readError(err)
		}
	}
	skipped, err := r.ReadByte()
	if err != nil {
		return e, readError(err)
	}
	if size > maxEntryBytes || skipped > 1 {
		return e, fmt.Errorf("%w: the entry after index %d cannot be read", ErrDamaged, e.index)
	}
	e.skipped, e.command = skipped == 1, make([]byte, size)
	if _, err := io.ReadFull(r, e.command); err != nil {
		return e, readError(err)
	}
	return e, nil
}
