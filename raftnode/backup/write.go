package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

const (
	magic = "HFBACKUP"
	// format is what this build writes and the only one it reads.
	format = 1
	// frameBytes is the size of a frame; maxFrameBytes bounds what a damaged length makes a reader allocate.
	frameBytes    = 64 << 10
	maxFrameBytes = 1 << 20
	maxHeader     = 64 << 10
)

// write writes a backup with the body that fill writes.
func write(w io.Writer, h Header, fill func(io.Writer) error) error {
	text, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("write the header of a backup: %w", err)
	}
	out := &writer{w: w, sum: sha256.New(), frame: make([]byte, 0, frameBytes)}
	out.raw(binary.BigEndian.AppendUint32([]byte(magic), format))
	out.raw(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) //nolint:gosec // some hundred bytes
	out.raw(text)
	if out.err == nil {
		if err := fill(out); err != nil {
			return err
		}
	}
	out.flush()
	out.raw(make([]byte, 4))
	out.raw(out.sum.Sum(nil))
	return out.err
}

// writer cuts what is written into frames, and keeps their sum and the first error.
type writer struct {
	w     io.Writer
	sum   hash.Hash
	frame []byte
	err   error
}

func (o *writer) raw(b []byte) {
	if o.err != nil {
		return
	}
	o.sum.Write(b)
	_, o.err = o.w.Write(b)
}

func (o *writer) flush() {
	if len(o.frame) == 0 {
		return
	}
	o.raw(binary.BigEndian.AppendUint32(nil, uint32(len(o.frame)))) //nolint:gosec // frameBytes at most
	o.raw(o.frame)
	o.frame = o.frame[:0]
}

// Write appends to the body.
func (o *writer) Write(b []byte) (n int, err error) {
	for len(b) > 0 && o.err == nil {
		part := min(len(b), frameBytes-len(o.frame))
		o.frame = append(o.frame, b[:part]...)
		n, b = n+part, b[part:]
		if len(o.frame) == frameBytes {
			o.flush()
		}
	}
	return n, o.err
}
