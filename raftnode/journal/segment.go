package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const segmentSuffix = ".hfj"

// segment is one file of the journal.
type segment struct {
	first uint64 // first index
	path  string
	size  int64 // how many bytes may be read
}

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

// openSegments lists the segments and truncates the last one after its last valid block. It
// returns the index up to which history is covered.
func openSegments(o Options) (segments []segment, covered uint64, err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, 0, err
	}
	if segments, err = listSegments(o.Dir); err != nil {
		return nil, 0, err
	}
	for len(segments) > 0 {
		last := &segments[len(segments)-1]
		end, covered, err := lastWholeBlock(*last)
		if err != nil {
			return nil, 0, err
		}
		if end < last.size {
			o.Logger.Warn("the journal's incomplete tail is truncated", "file", last.path, "bytes", last.size-end)
			if err := os.Truncate(last.path, end); err != nil {
				return nil, 0, err
			}
			last.size = end
		}
		if end > 0 {
			return segments, covered, nil
		}
		if err := os.Remove(last.path); err != nil {
			return nil, 0, err
		}
		segments = segments[:len(segments)-1]
	}
	return nil, 0, nil
}

func listSegments(dir string) (segments []segment, err error) {
	entries, err := os.ReadDir(dir) // sorted by name, and so by index
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var first uint64
		if _, err := fmt.Sscanf(e.Name(), "%020d"+segmentSuffix, &first); err != nil || e.Name() != segmentName(first) {
			continue
		}
		st, err := e.Info()
		if err != nil {
			return nil, err
		}
		segments = append(segments, segment{first: first, path: filepath.Join(dir, e.Name()), size: st.Size()})
	}
	return segments, nil
}

// lastWholeBlock returns where the last complete block of a segment ends, and the last index that
// it covers.
func lastWholeBlock(s segment) (end int64, lastIndex uint64, err error) {
	err = s.walkBlocks(func(at int64, h blockHeader, content func() ([]byte, error)) bool {
		data, err := content()
		if err != nil {
			return true
		}
		if h.matches(data) {
			end, lastIndex = at+blockHeaderSize+int64(h.encoded), h.last
		}
		return true
	})
	return end, lastIndex, err
}

// walkBlocks visits the blocks of a segment that have valid headers, until visit returns
// false. After a damaged header it searches for the next one.
func (s segment) walkBlocks(visit func(at int64, h blockHeader, content func() ([]byte, error)) bool) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for at := int64(0); at+blockHeaderSize <= s.size; {
		var buf [blockHeaderSize]byte
		if _, err := f.ReadAt(buf[:], at); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", s.path, err)
		}
		h, ok := parseBlockHeader(buf[:])
		if !ok || at+blockHeaderSize+int64(h.encoded) > s.size {
			if at, err = nextBlockHeader(f, at+1, s.size); err != nil {
				return fmt.Errorf("read %s: %w", s.path, err)
			}
			continue
		}
		content := func() ([]byte, error) {
			data := make([]byte, h.encoded)
			_, err := f.ReadAt(data, at+blockHeaderSize)
			return data, err
		}
		if !visit(at, h, content) {
			return nil
		}
		at += blockHeaderSize + int64(h.encoded)
	}
	return nil
}

// nextBlockHeader returns where the next valid header begins, or size.
func nextBlockHeader(f io.ReaderAt, from, size int64) (int64, error) {
	rest, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return size, err
	}
	magic := binary.LittleEndian.AppendUint32(nil, blockMagic)
	for at := 0; ; at++ {
		n := bytes.Index(rest[at:], magic)
		if n < 0 {
			return size, nil
		}
		at += n
		if h, ok := parseBlockHeader(rest[at:]); ok && from+int64(at)+blockHeaderSize+int64(h.encoded) <= size {
			return from + int64(at), nil
		}
	}
}

// lastSegment returns the segment that is appended to.
func (j *Journal) lastSegment() (segment, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segments) == 0 {
		return segment{}, false
	}
	return j.segments[len(j.segments)-1], true
}

func (j *Journal) addSegment(s segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segments = append(j.segments, s)
}

// setLastSize sets how many bytes of the last segment may be read.
func (j *Journal) setLastSize(size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segments[len(j.segments)-1].size = size
}

// removeLastSegment removes the last segment from the list.
func (j *Journal) removeLastSegment() (segment, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.segments) - 1
	if n < 0 {
		return segment{}, false
	}
	s := j.segments[n]
	j.segments = j.segments[:n:n]
	return s, true
}

// expire removes the oldest segments above retain bytes from the list, and returns them. The last
// one always stays.
func (j *Journal) expire(retain int64) (old []segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var total int64
	for _, s := range j.segments {
		total += s.size
	}
	n := 0
	for ; total > retain && n < len(j.segments)-1; n++ {
		total -= j.segments[n].size
	}
	old = slices.Clone(j.segments[:n])
	j.segments = slices.Clone(j.segments[n:])
	return old
}
