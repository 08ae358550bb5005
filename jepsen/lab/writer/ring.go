package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	blockSize  = 4096
	magic      = "HFRING01"
	stampBytes = 64
)

// block is one acknowledged unit: its number, and who wrote it.
type block struct {
	number uint64
	stamp  string
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// marshal fills a buffer with the block; all of it depends on the number, so that a torn or old block is
// detected.
func (b block) marshal(buf []byte) {
	for i := 96; i+8 <= blockSize; i += 8 {
		binary.LittleEndian.PutUint64(buf[i:], b.number*0x9e3779b97f4a7c15+uint64(i))
	}
	copy(buf, magic)
	binary.LittleEndian.PutUint64(buf[8:], b.number)
	copy(buf[16:16+stampBytes], make([]byte, stampBytes))
	copy(buf[16:16+stampBytes], b.stamp)
	binary.LittleEndian.PutUint32(buf[80:], 0)
	binary.LittleEndian.PutUint32(buf[80:], crc32.Checksum(buf[:blockSize], castagnoli))
}

// decode reads a block; false for one that was not written completely.
func decode(buf []byte) (block, bool) {
	if len(buf) < blockSize || string(buf[:8]) != magic {
		return block{}, false
	}
	sum := binary.LittleEndian.Uint32(buf[80:])
	binary.LittleEndian.PutUint32(buf[80:], 0)
	whole := crc32.Checksum(buf[:blockSize], castagnoli) == sum
	binary.LittleEndian.PutUint32(buf[80:], sum) // the buffer is as it was
	if !whole {
		return block{}, false
	}
	return block{
		number: binary.LittleEndian.Uint64(buf[8:]),
		stamp:  string(bytes.TrimRight(buf[16:16+stampBytes], "\x00")),
	}, true
}

// ring is the file or device.
type ring struct {
	file   *os.File
	blocks uint64
	buf    []byte // aligned, for O_DIRECT
	// put makes one write durable.
	put func(buf []byte, offset int64) error
}

func openRing(path string, flags int, direct bool, blocks uint64) (*ring, error) {
	if direct {
		flags |= unix.O_DIRECT
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if blocks == 0 {
		return nil, fmt.Errorf("a ring has at least one block")
	}
	r := &ring{file: f, blocks: blocks, buf: aligned(blockSize)}
	r.put = r.writeAndSync
	return r, nil
}

// aligned is a buffer for O_DIRECT: it starts at a multiple of a block.
func aligned(size int) []byte {
	raw := make([]byte, size+blockSize)
	skip := (blockSize - int(uintptr(unsafe.Pointer(&raw[0]))%blockSize)) % blockSize
	return raw[skip : skip+size]
}

func (r *ring) offset(number uint64) int64 { return int64(number%r.blocks) * blockSize }

// writeBlock writes one block and returns when it is on stable storage.
func (r *ring) writeBlock(b block) error {
	b.marshal(r.buf)
	return r.put(r.buf, r.offset(b.number))
}

func (r *ring) writeAndSync(buf []byte, offset int64) error {
	if _, err := r.file.WriteAt(buf, offset); err != nil {
		return err
	}
	return unix.Fdatasync(int(r.file.Fd()))
}

// readBlock reads what is at the place of a number.
func (r *ring) readBlock(number uint64) (block, bool, error) {
	if _, err := r.file.ReadAt(r.buf, r.offset(number)); err != nil {
		return block{}, false, err
	}
	b, ok := decode(r.buf)
	return b, ok, nil
}
