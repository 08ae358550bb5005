package store

import (
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"

	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

const (
	// walReadSize is how much raft-wal reads for one entry, whose length it does not know, in
	// bytes.
	walReadSize = 64 << 10
	// entryReadSize holds most entries: commands are a few hundred bytes.
	entryReadSize = 4 << 10
	// readAheadSize is read at once where a segment is scanned from its beginning.
	readAheadSize = 256 << 10
)

// segmentFS opens segments so that reading a log costs what it holds: raft-wal reads 64 KiB for
// every entry, and scans the last segment by reads of 8 bytes.
type segmentFS struct {
	privateFS
	// logOpen is set once the log is open: the last segment was scanned.
	logOpen *atomic.Bool
}

func newSegmentFS(d dataDir) segmentFS {
	return segmentFS{privateFS{walfs.New(), d}, new(atomic.Bool)}
}

// Create creates a segment file with mode 0600.
func (s segmentFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := s.privateFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return &activeSegment{WritableFile: f, logOpen: s.logOpen}, nil
}

// OpenReader opens a sealed segment.
func (s segmentFS) OpenReader(dir, name string) (types.ReadableFile, error) {
	f, err := s.privateFS.OpenReader(dir, name)
	if err != nil {
		return nil, err
	}
	return sealedSegment{f}, nil
}

// OpenWriter opens the last segment, which raft-wal then scans.
func (s segmentFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := s.privateFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &activeSegment{WritableFile: f, logOpen: s.logOpen, readAhead: &readAhead{r: f}}, nil
}

// sealedSegment is a finished segment of which only its header, its index and entries are read.
type sealedSegment struct{ types.ReadableFile }

// ReadAt reads only as much as needed of the entry that begins at off.
func (f sealedSegment) ReadAt(p []byte, off int64) (int, error) {
	return readEntry(f.ReadableFile, p, off)
}

// activeSegment is the segment that is appended to. While it is scanned nothing is written.
type activeSegment struct {
	types.WritableFile
	logOpen   *atomic.Bool
	readAhead *readAhead
}

// ReadAt reads ahead while the segment is scanned, and single entries afterwards.
func (f *activeSegment) ReadAt(p []byte, off int64) (int, error) {
	if f.readAhead != nil && !f.logOpen.Load() {
		return f.readAhead.ReadAt(p, off)
	}
	return readEntry(f.WritableFile, p, off)
}

// Sync makes what was written durable.
func (f *activeSegment) Sync() error {
	if plantedbug.Is(plantedbug.FsyncLeftOut) {
		return nil
	}
	return f.WritableFile.Sync()
}

// readEntry answers raft-wal's read of one entry with little more than the entry, as if the file
// ended there: raft-wal accepts a short read when the frame at its beginning is complete. All
// other reads are answered in full.
//
// A read of the content of an entry of 64 KiB has the same size, but is not mistaken for one:
// content begins with the index and the term, and no term is zero.
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

// isWholeEntry reports whether buf begins with the complete frame of an entry.
func isWholeEntry(buf []byte) bool {
	if len(buf) < frameHeader || buf[0] != segment.FrameEntry || buf[1]|buf[2]|buf[3] != 0 {
		return false
	}
	return uint64(binary.LittleEndian.Uint32(buf[4:])) <= uint64(len(buf)-frameHeader)
}

// readAhead serves small reads of a file that does not change from larger ones. It must be used by
// one goroutine.
type readAhead struct {
	r      io.ReaderAt
	buf    []byte
	offset int64 // where buf begins in the file
}

// ReadAt implements io.ReaderAt.
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
