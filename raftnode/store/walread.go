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
	// walRead is what raft-wal asks for to get one entry, whose length it does not know.
	walRead = 64 << 10
	// entryRead holds most entries: commands are a few hundred bytes.
	entryRead = 4 << 10
	// aheadRead is read at once where a segment is walked from its beginning.
	aheadRead = 256 << 10
)

// segmentFS opens segments so that reading a log costs what it holds: raft-wal
// copies 64 KiB for every entry, and walks the last segment by reads of 8 bytes.
type segmentFS struct {
	privateFS
	// opened is set when the log is open: the last segment was walked.
	opened *atomic.Bool
}

func newSegmentFS() segmentFS { return segmentFS{privateFS{walfs.New()}, new(atomic.Bool)} }

// Create makes a segment file, 0600.
func (s segmentFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := s.privateFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return &tailFile{WritableFile: f, walked: s.opened}, nil
}

// OpenReader opens a segment that is written to no more.
func (s segmentFS) OpenReader(dir, name string) (types.ReadableFile, error) {
	f, err := s.privateFS.OpenReader(dir, name)
	if err != nil {
		return nil, err
	}
	return sealedFile{f}, nil
}

// OpenWriter opens the last segment, which raft-wal then walks.
func (s segmentFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := s.privateFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &tailFile{WritableFile: f, walked: s.opened, ahead: &ahead{r: f}}, nil
}

// sealedFile is a segment of which only its header, its index and entries are read.
type sealedFile struct{ types.ReadableFile }

// ReadAt reads no more than needed of what begins at off.
func (f sealedFile) ReadAt(p []byte, off int64) (int, error) {
	return readEntry(f.ReadableFile, p, off)
}

// tailFile is the segment that is written to. While it is walked nothing is written.
type tailFile struct {
	types.WritableFile
	walked *atomic.Bool
	ahead  *ahead
}

// ReadAt reads ahead while the segment is walked, and entries afterwards.
func (f *tailFile) ReadAt(p []byte, off int64) (int, error) {
	if f.ahead != nil && !f.walked.Load() {
		return f.ahead.ReadAt(p, off)
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
	if len(p) != walRead {
		return r.ReadAt(p, off)
	}
	n, err := r.ReadAt(p[:entryRead], off)
	if err == nil && wholeEntry(p[:n]) {
		return n, io.EOF
	}
	return r.ReadAt(p, off)
}

// wholeEntry tells whether buf begins with the whole frame of an entry.
func wholeEntry(buf []byte) bool {
	if len(buf) < frameHeader || buf[0] != segment.FrameEntry || buf[1]|buf[2]|buf[3] != 0 {
		return false
	}
	return uint64(binary.LittleEndian.Uint32(buf[4:])) <= uint64(len(buf)-frameHeader)
}

// ahead answers small reads of a file that does not change from large ones. It is
// for one goroutine.
type ahead struct {
	r   io.ReaderAt
	buf []byte
	at  int64 // where buf begins in the file
}

// ReadAt is io.ReaderAt's.
func (a *ahead) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > aheadRead/2 {
		return a.r.ReadAt(p, off)
	}
	if end := a.at + int64(len(a.buf)); off < a.at || off+int64(len(p)) > end {
		if err := a.fill(off); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.buf[off-a.at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (a *ahead) fill(off int64) error {
	if a.buf == nil {
		a.buf = make([]byte, aheadRead)
	}
	n, err := a.r.ReadAt(a.buf[:cap(a.buf)], off)
	if err != nil && !errors.Is(err, io.EOF) {
		a.buf = a.buf[:0]
		return err
	}
	a.at, a.buf = off, a.buf[:n]
	return nil
}
