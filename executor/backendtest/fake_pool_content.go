package backendtest

import (
	"bytes"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// FakeContent is what a volume or a snapshot of the fake held at one instant. It costs what was
// written, however large the volume is.
type FakeContent struct {
	Size   int64 // in bytes
	blocks blocks
}

// Content returns what a volume holds; nothing when it does not exist.
func (f *FakePool) Content(id fsm.VolumeID) FakeContent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return FakeContent{f.images[id], f.content[id].truncated(f.images[id])}
}

// SnapshotContent returns what a snapshot holds, and whether the snapshot exists.
func (f *FakePool) SnapshotContent(id fsm.SnapshotID) (FakeContent, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.snapshots[id]
	return FakeContent{s.size, s.content.truncated(s.size)}, ok
}

// Bytes returns all of it.
func (c FakeContent) Bytes() []byte {
	all := make([]byte, c.Size)
	for number, block := range c.blocks {
		copy(all[number*BlockBytes:], block[:])
	}
	return all
}

// ReadAt returns length bytes from an offset.
func (c FakeContent) ReadAt(at, length int64) []byte {
	part := make([]byte, 0, length)
	for end := at + length; at < end; {
		block := c.block(at / BlockBytes)[at%BlockBytes:]
		block = block[:min(int64(len(block)), end-at)]
		part, at = append(part, block...), at+int64(len(block))
	}
	return part
}

// Contains reports whether the text, which is shorter than a block and does not begin or end with
// a zero, is anywhere in it.
func (c FakeContent) Contains(text string) bool {
	for number := range c.blocks {
		if bytes.Contains(c.ReadAt(number*BlockBytes, BlockBytes+int64(len(text))), []byte(text)) {
			return true
		}
	}
	return false
}

// ZeroFrom reports whether nothing but zeros is at an offset and behind it.
func (c FakeContent) ZeroFrom(at int64) bool {
	for number := range c.blocks {
		from := max(at-number*BlockBytes, 0)
		if from < BlockBytes && !isZero(c.block(number)[from:]) {
			return false
		}
	}
	return true
}

func isZero(data []byte) bool {
	return !slices.ContainsFunc(data, func(b byte) bool { return b != 0 })
}

func (c FakeContent) block(number int64) []byte {
	if block := c.blocks[number]; block != nil {
		return block[:]
	}
	return make([]byte, BlockBytes)
}
