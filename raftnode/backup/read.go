package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Check reads a backup to its end and compares its checksum. Nothing of one that was not checked may be used.
func Check(r io.Reader) (Header, error) {
	in, err := newReader(r)
	if err != nil {
		return Header{}, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return Header{}, err
	}
	return in.header, in.header.check()
}

// ReadHeader reads what a backup says of itself, without checking that the rest is whole.
func ReadHeader(r io.Reader) (Header, error) {
	in, err := newReader(r)
	if err != nil {
		return Header{}, err
	}
	return in.header, in.header.check()
}

// reader reads the body of a backup, and at its end the checksum.
type reader struct {
	header Header
	r      *bufio.Reader
	sum    hash.Hash
	left   int // of the frame
	done   bool
}

func newReader(r io.Reader) (*reader, error) {
	in := &reader{r: bufio.NewReaderSize(r, frameBytes), sum: sha256.New()}
	begin, err := in.next(len(magic) + 4)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(begin[:len(magic)], []byte(magic)) {
		return nil, fmt.Errorf("%w: it does not begin as a backup of Holdfast does", ErrDamaged)
	}
	if f := binary.BigEndian.Uint32(begin[len(magic):]); f != format {
		return nil, fmt.Errorf("%w: its format is %d, this build reads %d only", ErrNewer, f, format)
	}
	size, err := in.length(maxHeader)
	if err != nil {
		return nil, err
	}
	text, err := in.next(size)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &in.header); err != nil {
		return nil, fmt.Errorf("%w: its header cannot be read: %w", ErrDamaged, err)
	}
	return in, nil
}

func (in *reader) next(size int) ([]byte, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(in.r, b); err != nil {
		return nil, readError(err)
	}
	in.sum.Write(b)
	return b, nil
}

func (in *reader) length(most uint32) (int, error) {
	b, err := in.next(4)
	if err != nil {
		return 0, err
	}
	size := binary.BigEndian.Uint32(b)
	if size > most {
		return 0, fmt.Errorf("%w: it announces %d bytes where %d are the most: it is damaged", ErrDamaged, size, most)
	}
	return int(size), nil
}

// Read reads the body. At its end it compares the checksum, and nothing may follow.
func (in *reader) Read(b []byte) (int, error) {
	if in.done {
		return 0, io.EOF
	}
	if in.left == 0 {
		size, err := in.length(maxFrameBytes)
		if err != nil {
			return 0, err
		}
		if size == 0 {
			in.done = true
			return 0, in.trailer()
		}
		in.left = size
	}
	n, err := in.r.Read(b[:min(len(b), in.left)])
	in.sum.Write(b[:n])
	in.left -= n
	if err != nil {
		return n, readError(err)
	}
	return n, nil
}

// trailer is io.EOF when the checksum is right and nothing follows it.
func (in *reader) trailer() error {
	want := in.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in.r, got); err != nil {
		return readError(err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: its checksum is wrong: it is damaged", ErrDamaged)
	}
	switch _, err := in.r.ReadByte(); {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return readError(err)
	}
	return fmt.Errorf("%w: something follows its checksum", ErrDamaged)
}

// readError tells an early end from a file that cannot be read or decrypted.
func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early: it is truncated", ErrDamaged)
	}
	return fmt.Errorf("%w: read it: %w", ErrDamaged, err)
}

// Receive checks a backup while receive writes it to w.
func Receive(w io.Writer, receive func(io.Writer) error) (Header, error) {
	type result struct {
		header Header
		err    error
	}
	in, out := io.Pipe()
	checked := make(chan result, 1)
	go func() {
		h, err := Check(in)
		_, _ = io.Copy(io.Discard, in) // a backup that is refused must not block its writer
		checked <- result{h, err}
	}()
	err := receive(io.MultiWriter(w, out))
	_ = out.CloseWithError(err) // it never fails; nil is an orderly end
	r := <-checked
	if err != nil {
		return Header{}, err
	}
	return r.header, r.err
}
