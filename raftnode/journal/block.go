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
	blockMagic      = 0x31424648 // "HFB1"
	blockHeaderSize = 40
	// blockBytes is how much is collected before it is compressed and written.
	blockBytes = 64 << 10
	// maxBlockBytes bounds the sizes that a header may claim for reading and decoding.
	maxBlockBytes = 1 << 30

	recordEntry = 1
	recordGap   = 2
	// recordLinked is an entry with its link, which stands before the outcome. It is written from the feature
	// level on that has links, below which older builds read the journal.
	recordLinked = 3
	linkBytes    = 32
	// A record: length u32, CRC32C u32; then kind u8, index u64, term or last index of the gap
	// u64, length of the command u32, command, outcome or reason
	recordHeaderSize = 8
	recordMinBody    = 1 + 8 + 8 + 4
)

var (
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
	errChecksum = errors.New("checksum mismatch")
)

// block is a sequence of records and the range of indexes that they cover, including indexes
// without a command.
type block struct {
	first, last uint64
	raw         []byte
}

// isEmpty: it covers no index.
func (b *block) isEmpty() bool { return b.last < b.first }

// buffers are reused for the records of blocks.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, blockBytes+blockBytes/8); return &b }}

func newBuffer() []byte { return *buffers.Get().(*[]byte) }

// release returns the block's buffer to the pool.
func (b *block) release() {
	if cap(b.raw) <= 2*blockBytes {
		raw := b.raw[:0]
		buffers.Put(&raw)
	}
}

// blockHeader precedes the payload of a block on disk.
type blockHeader struct {
	first, last  uint64
	raw, encoded uint32
	sum          uint32
}

func (h blockHeader) append(to []byte) []byte {
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

// parseBlockHeader returns the header at the beginning of buf; ok is false unless it is valid.
func parseBlockHeader(buf []byte) (h blockHeader, ok bool) {
	le := binary.LittleEndian
	if len(buf) < blockHeaderSize || le.Uint32(buf) != blockMagic ||
		le.Uint32(buf[blockHeaderSize-4:]) != crc32.Checksum(buf[:blockHeaderSize-4], castagnoli) {
		return blockHeader{}, false
	}
	h = blockHeader{first: le.Uint64(buf[4:]), last: le.Uint64(buf[12:]), raw: le.Uint32(buf[20:]), encoded: le.Uint32(buf[24:]), sum: le.Uint32(buf[28:])}
	return h, h.first <= h.last+1 && h.raw <= maxBlockBytes && h.encoded <= maxBlockBytes
}

// The codec is shared: EncodeAll and DecodeAll may be called from any goroutine.
// Frames carry no checksum of their own, blocks do.
var (
	encoder = mustCodec(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(blockBytes), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true)))
	decoder = mustCodec(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBlockBytes)))
)

func mustCodec[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options above are wrong
	}
	return v
}

// encode appends the block in its on-disk form.
func (b *block) encode(to []byte) []byte {
	at := len(to)
	to = append(to, make([]byte, blockHeaderSize)...)
	if len(b.raw) > 0 {
		to = encoder.EncodeAll(b.raw, to)
	}
	content := to[at+blockHeaderSize:]
	h := blockHeader{first: b.first, last: b.last, raw: uint32(len(b.raw)), encoded: uint32(len(content)), sum: crc32.Checksum(content, castagnoli)}
	h.append(to[at:at:len(to)])
	return to
}

// matches reports whether the payload of a block has the header's checksum.
func (h blockHeader) matches(content []byte) bool {
	return crc32.Checksum(content, castagnoli) == h.sum
}

// decode returns the decompressed records of a block.
func (h blockHeader) decode(content []byte) ([]byte, error) {
	if !h.matches(content) {
		return nil, errChecksum
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

// addRecord appends the record of an entry or of a gap.
func (b *block) addRecord(e Entry) {
	kind, termOrGapEnd, text := byte(recordEntry), e.Term, e.Outcome
	if e.Gap {
		kind, termOrGapEnd, text = recordGap, e.GapTo, []byte(e.Reason)
	}
	var link []byte
	if !e.Gap && len(e.Chain) == linkBytes {
		kind, link = recordLinked, e.Chain
	}
	at := len(b.raw)
	raw := binary.LittleEndian.AppendUint32(b.raw, uint32(recordMinBody+len(e.Command)+len(link)+len(text)))
	raw = append(raw, 0, 0, 0, 0, kind)
	raw = binary.LittleEndian.AppendUint64(raw, e.Index)
	raw = binary.LittleEndian.AppendUint64(raw, termOrGapEnd)
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(e.Command)))
	raw = append(append(append(raw, e.Command...), link...), text...)
	binary.LittleEndian.PutUint32(raw[at+4:], crc32.Checksum(raw[at+recordHeaderSize:], castagnoli))
	b.raw = raw
}

// eachRecord yields the records of a decoded block; ok is false when fn stopped it.
func eachRecord(raw []byte, fn func(Entry) bool) (ok bool, err error) {
	le := binary.LittleEndian
	for len(raw) > 0 {
		if len(raw) < recordHeaderSize+recordMinBody {
			return true, errChecksum
		}
		n := uint64(le.Uint32(raw))
		if n < recordMinBody || n > uint64(len(raw)-recordHeaderSize) {
			return true, errChecksum
		}
		body := raw[recordHeaderSize : recordHeaderSize+n]
		if crc32.Checksum(body, castagnoli) != le.Uint32(raw[4:]) {
			return true, errChecksum
		}
		e, err := parseRecord(body)
		if err != nil {
			return true, err
		}
		if !fn(e) {
			return false, nil
		}
		raw = raw[recordHeaderSize+n:]
	}
	return true, nil
}

func parseRecord(body []byte) (Entry, error) {
	le := binary.LittleEndian
	e := Entry{Index: le.Uint64(body[1:])}
	termOrGapEnd, size, rest := le.Uint64(body[9:]), uint64(le.Uint32(body[17:])), body[recordMinBody:]
	if size > uint64(len(rest)) {
		return e, errChecksum
	}
	switch body[0] {
	case recordEntry:
		e.Term, e.Command, e.Outcome = termOrGapEnd, rest[:size:size], rest[size:]
	case recordLinked:
		if uint64(len(rest))-size < linkBytes {
			return e, errChecksum
		}
		e.Term, e.Command, e.Chain, e.Outcome = termOrGapEnd, rest[:size:size], rest[size:size+linkBytes:size+linkBytes], rest[size+linkBytes:]
	case recordGap:
		e.Gap, e.GapTo, e.Reason = true, termOrGapEnd, string(rest)
	default:
		return e, fmt.Errorf("record of unknown kind %d", body[0])
	}
	return e, nil
}
