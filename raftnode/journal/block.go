package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	blockMagic = 0x31424648 // "HFB1"
	headSize   = 40
	// blockBytes is how much is gathered before it is compressed and written.
	blockBytes = 64 << 10
	// maxBlock bounds what a head can ask to be read or decoded into.
	maxBlock = 1 << 30

	recordEntry = 1
	recordGap   = 2
	// length u32, CRC32C u32; then kind u8, index u64, term or last index of the gap
	// u64, length of the command u32, command, outcome or reason
	recordHead = 8
	recordBody = 1 + 8 + 8 + 4
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errDamaged = errors.New("checksum mismatch")
)

// block is a row of records and the indexes that they cover, holes between
// commands included.
type block struct {
	first, last uint64
	raw         []byte
}

// buffers are what blocks are gathered in.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, blockBytes+blockBytes/8); return &b }}

func newBuffer() []byte { return *buffers.Get().(*[]byte) }

// release lets the block's buffer be used again.
func (b *block) release() {
	if cap(b.raw) <= 2*blockBytes {
		raw := b.raw[:0]
		buffers.Put(&raw)
	}
}

// head is what stands before the content of a block on disk.
type head struct {
	first, last  uint64
	raw, encoded uint32
	sum          uint32
}

func (h head) append(to []byte) []byte {
	at := len(to)
	to = binary.LittleEndian.AppendUint32(to, blockMagic)
	to = binary.LittleEndian.AppendUint64(to, h.first)
	to = binary.LittleEndian.AppendUint64(to, h.last)
	to = binary.LittleEndian.AppendUint32(to, h.raw)
	to = binary.LittleEndian.AppendUint32(to, h.encoded)
	to = binary.LittleEndian.AppendUint32(to, h.sum)
	to = binary.LittleEndian.AppendUint32(to, 0)
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[at:], castagnoli))
}

// readHead returns the head at the beginning of buf, if there is a whole one.
func readHead(buf []byte) (h head, ok bool) {
	le := binary.LittleEndian
	if len(buf) < headSize || le.Uint32(buf) != blockMagic ||
		le.Uint32(buf[headSize-4:]) != crc32.Checksum(buf[:headSize-4], castagnoli) {
		return head{}, false
	}
	h = head{first: le.Uint64(buf[4:]), last: le.Uint64(buf[12:]), raw: le.Uint32(buf[20:]), encoded: le.Uint32(buf[24:]), sum: le.Uint32(buf[28:])}
	return h, h.first <= h.last+1 && h.raw <= maxBlock && h.encoded <= maxBlock
}

// The codec is shared: EncodeAll and DecodeAll may be called from any goroutine.
// Frames carry no checksum of their own, blocks do.
var (
	encoder = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(blockBytes), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true)))
	decoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBlock)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options above are wrong
	}
	return v
}

// encode appends a block as it is on disk.
func (b *block) encode(to []byte) []byte {
	at := len(to)
	to = append(to, make([]byte, headSize)...)
	if len(b.raw) > 0 {
		to = encoder.EncodeAll(b.raw, to)
	}
	content := to[at+headSize:]
	h := head{first: b.first, last: b.last, raw: uint32(len(b.raw)), encoded: uint32(len(content)), sum: crc32.Checksum(content, castagnoli)}
	h.append(to[at:at:len(to)])
	return to
}

// matches tells whether the content of a block is what was written.
func (h head) matches(content []byte) bool { return crc32.Checksum(content, castagnoli) == h.sum }

// decode returns the records of a block.
func (h head) decode(content []byte) ([]byte, error) {
	if !h.matches(content) {
		return nil, errDamaged
	}
	if h.raw == 0 {
		return nil, nil
	}
	raw, err := decoder.DecodeAll(content, make([]byte, 0, h.raw))
	if err == nil && len(raw) != int(h.raw) {
		err = fmt.Errorf("%d bytes instead of %d", len(raw), h.raw)
	}
	return raw, err
}

// add appends the record of an entry or of a gap.
func (b *block) add(e Entry) {
	kind, second, text := byte(recordEntry), e.Term, e.Outcome
	if e.Gap {
		kind, second, text = recordGap, e.GapTo, []byte(e.Why)
	}
	at := len(b.raw)
	raw := binary.LittleEndian.AppendUint32(b.raw, uint32(recordBody+len(e.Command)+len(text)))
	raw = append(raw, 0, 0, 0, 0, kind)
	raw = binary.LittleEndian.AppendUint64(raw, e.Index)
	raw = binary.LittleEndian.AppendUint64(raw, second)
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(e.Command)))
	raw = append(append(raw, e.Command...), text...)
	binary.LittleEndian.PutUint32(raw[at+4:], crc32.Checksum(raw[at+recordHead:], castagnoli))
	b.raw = raw
}

// records yields the records of a decoded block; ok is false when fn ended it.
func records(raw []byte, fn func(Entry) bool) (ok bool, err error) {
	le := binary.LittleEndian
	for len(raw) > 0 {
		if len(raw) < recordHead+recordBody {
			return true, errDamaged
		}
		n := uint64(le.Uint32(raw))
		if n < recordBody || n > uint64(len(raw)-recordHead) {
			return true, errDamaged
		}
		body := raw[recordHead : recordHead+n]
		if crc32.Checksum(body, castagnoli) != le.Uint32(raw[4:]) {
			return true, errDamaged
		}
		e, err := parse(body)
		if err != nil {
			return true, err
		}
		if !fn(e) {
			return false, nil
		}
		raw = raw[recordHead+n:]
	}
	return true, nil
}

func parse(body []byte) (Entry, error) {
	le := binary.LittleEndian
	e := Entry{Index: le.Uint64(body[1:])}
	second, size, rest := le.Uint64(body[9:]), uint64(le.Uint32(body[17:])), body[recordBody:]
	if size > uint64(len(rest)) {
		return e, errDamaged
	}
	switch body[0] {
	case recordEntry:
		e.Term, e.Command, e.Outcome = second, rest[:size:size], rest[size:]
	case recordGap:
		e.Gap, e.GapTo, e.Why = true, second, string(rest)
	default:
		return e, fmt.Errorf("record of unknown kind %d", body[0])
	}
	return e, nil
}
