package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// The layout of a raft-wal segment (raft-wal segment/format.go).
const (
	segmentHeader = 32
	frameHeader   = 8 // type u8, three zero bytes, length or CRC u32
)

// segmentTail is what is valid of a segment that is still appended to.
type segmentTail struct {
	end       int64  // of the last complete commit
	entries   uint64 // up to there
	index     uint64 // offset of the index of entries before it; 0 when the segment is not sealed
	tornIndex bool   // an incomplete index follows end
}

// repairTail completes a change of segments that was interrupted. raft-wal writes the index of a
// full segment first and the list of segments later, in the background. When it is stopped in
// between, by a crash or by Close, it opens the segment for writing again and then refuses every
// write to it permanently. The same happens when the index itself is torn.
//
// Nothing is changed when the segment lost acknowledged entries: that is refused later.
func repairTail(d dataDir, meta *walMeta, acknowledged uint64, segmentSize int) error {
	state, err := meta.Load("")
	if err != nil || len(state.Segments) == 0 {
		return err
	}
	last := &state.Segments[len(state.Segments)-1]
	path := filepath.Join(d.walPath(), segment.FileName(*last))
	t, err := readTail(path)
	if errors.Is(err, os.ErrNotExist) || !last.SealTime.IsZero() {
		return nil // raft-wal creates a segment that is listed but missing
	}
	if err != nil {
		return fmt.Errorf("read segment %s: %w", path, err)
	}
	switch {
	case last.BaseIndex+t.entries <= acknowledged:
		return nil
	case t.index != 0:
		return finishRotation(meta, state, last, t, segmentSize)
	case t.tornIndex:
		return truncateTail(d, path, t.end)
	}
	return nil
}

// finishRotation writes the list of segments that raft-wal had not yet written.
func finishRotation(meta *walMeta, state types.PersistentState, last *types.SegmentInfo, t segmentTail, segmentSize int) error {
	now := time.Now()
	last.MaxIndex, last.IndexStart, last.SealTime = last.BaseIndex+t.entries-1, t.index, now
	next := types.SegmentInfo{
		ID: state.NextSegmentID, BaseIndex: last.MaxIndex + 1, MinIndex: last.MaxIndex + 1,
		SizeLimit: uint32(segmentSize), Codec: last.Codec, CreateTime: now,
	}
	state.NextSegmentID++
	state.Segments = append(state.Segments, next)
	return meta.CommitState(state)
}

// truncateTail zeroes what follows the last complete commit; the file keeps its size.
func truncateTail(d dataDir, path string, end int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil {
		err = errors.Join(f.Truncate(end), f.Truncate(st.Size()), d.syncBy(path, f.Sync))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("truncate segment %s: %w", path, err)
	}
	return nil
}

// readTail scans the frames of a segment as raft-wal's recovery does.
func readTail(path string) (segmentTail, error) {
	f, err := os.Open(path)
	if err != nil {
		return segmentTail{}, err
	}
	defer func() { _ = f.Close() }()
	return walkTail(&readAhead{r: f})
}

func walkTail(f io.ReaderAt) (segmentTail, error) {
	var committed, current segmentTail
	var begin int64 // of what the next commit covers
	buf := make([]byte, 32<<10)
	for at := int64(segmentHeader); ; {
		kind, length, ok := readFrame(f, at)
		if !ok {
			break
		}
		next := at + frameHeader + (int64(length)+frameHeader-1)&^(frameHeader-1)
		switch kind {
		case segment.FrameEntry:
			current.entries++
		case segment.FrameIndex:
			current.index = uint64(at) + frameHeader
		case segment.FrameCommit:
			next = at + frameHeader
			valid, err := checksumMatches(f, begin, at, length, buf)
			if err != nil {
				return segmentTail{}, err
			}
			if !valid { // torn or damaged: what follows is not valid
				committed.tornIndex = committed.tornIndex || current.index != committed.index
				return committed, nil
			}
			current.end, begin = next, next
			committed = current
		}
		at = next
	}
	committed.tornIndex = current.index != committed.index
	return committed, nil
}

// readFrame returns the kind of a frame and its length, or its checksum for a commit.
func readFrame(f io.ReaderAt, at int64) (kind uint8, value uint32, ok bool) {
	var head [frameHeader]byte
	if n, _ := f.ReadAt(head[:], at); n < frameHeader {
		return 0, 0, false
	}
	kind = head[0]
	return kind, binary.LittleEndian.Uint32(head[4:]), kind >= segment.FrameEntry && kind <= segment.FrameCommit
}

// checksumMatches reports whether the bytes of one commit match its checksum; buf is scratch
// space.
func checksumMatches(f io.ReaderAt, from, to int64, want uint32, buf []byte) (bool, error) {
	sum := crc32.New(castagnoli)
	if _, err := io.CopyBuffer(sum, io.NewSectionReader(f, from, to-from), buf); err != nil {
		return false, err
	}
	return sum.Sum32() == want, nil
}
