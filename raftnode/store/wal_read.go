package store

import (
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"

	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

const (
	// walReadSize is what raft-wal asks for to get one entry, whose length it does not know.
	walReadSize = 64 << 10
	// entryReadSize holds most entries: commands are a few hundred bytes.
	entryReadSize = 4 << 10
	// readAheadSize is read at once where a segment is walked from its beginning.
	readAheadSize = 256 << 10
)

// segmentFS opens segments so that reading a log costs what it holds: raft-wal
// copies 64 KiB for every entry, and walks the last segment by reads of 8 bytes.
type segmentFS struct {
	privateFS
	// logOpen is set when the log is open: the last segment was walked.
	logOpen *atomic.Bool
}

func newSegmentFS() segmentFS { return segmentFS{privateFS{walfs.New()}, new(atomic.Bool)} }

// Create makes a segment file, 0600.
func (s segmentFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := s.privateFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return &activeSegment{WritableFile: f, logOpen: s.logOpen}, nil
}

// OpenReader opens a segment that is written to no more.
func (s segmentFS) OpenReader(dir, name string) (types.ReadableFile, error) {
	f, err := s.privateFS.OpenReader(dir, name)
	if err != nil {
		return nil, err
	}
	return sealedSegment{f}, nil
}

// OpenWriter opens the last segment, which raft-wal then walks.
func (s segmentFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := s.privateFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &activeSegment{WritableFile: f, logOpen: s.logOpen, readAhead: &readAhead{r: f}}, nil
}

// sealedSegment is a segment of which only its header, its index and entries are read.
type sealedSegment struct{ types.ReadableFile }

// ReadAt reads no more than needed of what begins at off.
func (f sealedSegment) ReadAt(p []byte, off int64) (int, error) {
	return readEntry(f.ReadableFile, p, off)
}

// activeSegment is the segment that is written to. While it is walked nothing is written.
type activeSegment struct {
	types.WritableFile
	logOpen   *atomic.Bool
	readAhead *readAhead
}

// ReadAt reads ahead while the segment is walked, and entries afterwards.
func (f *activeSegment) ReadAt(p []byte, off int64) (int, error) {
	if f.readAhead != nil && !f.logOpen.Load() {
		return f.readAhead.ReadAt(p, off)
	}
	return readEntry(f.WritableFile, p, off)
}

// readEntry answers a read of one entry with little more than the entry, as if the
// file ended there: raft-wal takes what it gets when the frame at its beginning is
// whole. All other reads are answered in full.
//
// A read of the content of an entry of 64 KiB looks the same, and cannot be taken
// for one: content begins with the index and the term, and no term is zero.
func readEntry(r io.ReaderAt, p []byte, off int64) (int, error) {
	if len(p) != walReadSize {
		return r.ReadAt(p, off)
	}
	n, err := r.ReadAt(p[:entryReadSize], off)
	if err == nil && isWholeEntry(p[:n]) {
		return n, io.EOF
	}
	return r.ReadAt(p, off)
}

// isWholeEntry tells whether buf begins with the whole frame of an entry.
func isWholeEntry(buf []byte) bool {
	if len(buf) < frameHeader || buf[0] != segment.FrameEntry || buf[1]|buf[2]|buf[3] != 0 {
		return false
	}
	return uint64(binary.LittleEndian.Uint32(buf[4:])) <= uint64(len(buf)-frameHeader)
}

// readAhead answers small reads of a file that does not change from large ones. It is
// for one goroutine.
type readAhead struct {
	r      io.ReaderAt
	buf    []byte
	offset int64 // where buf begins in the file
}

// ReadAt is io.ReaderAt's.
func (a *readAhead) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > readAheadSize/2 {
		return a.r.ReadAt(p, off)
	}
	if end := a.offset + int64(len(a.buf)); off < a.offset || off+int64(len(p)) > end {
		if err := a.fill(off); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.buf[off-a.offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (a *readAhead) fill(off int64) error {
	if a.buf == nil {
		a.buf = make([]byte, readAheadSize)
	}
	n, err := a.r.ReadAt(a.buf[:cap(a.buf)], off)
	if err != nil && !errors.Is(err, io.EOF) {
		a.buf = a.buf[:0]
		return err
	}
	a.offset, a.buf = off, a.buf[:n]
	return nil
}
