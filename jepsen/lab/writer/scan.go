package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/holdfast-storage/holdfast/jepsen/lab/stamps"
)

// scanBytes is read at once, and has a checksum of its own.
const (
	scanBytes   = 1 << 20
	sectorBytes = 512
)

// scanResult is what scan prints, as JSON.
type scanResult struct {
	// Blocks are all whole blocks, wherever they are.
	Blocks []stamps.Block `json:"blocks"`
	// Sums are the checksums of each scanBytes of the content, in order.
	Sums []string `json:"sums"`
}

// scan reads a file or device from its beginning: the ring itself, or the device of a replica below.
func (o *options) scan() error {
	r, err := openRing(o.path, os.O_RDONLY, o.direct, 1)
	if err != nil {
		return err
	}
	found := scanResult{Blocks: []stamps.Block{}, Sums: []string{}}
	buf := aligned(scanBytes + blockSize)
	for at := int64(0); o.bytes == 0 || at < o.bytes; at += scanBytes {
		n, err := io.ReadFull(io.NewSectionReader(r.file, at, scanBytes+blockSize), buf[:o.length(at)])
		found.add(at, buf[:n])
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(json.NewEncoder(os.Stdout).Encode(found), r.file.Close())
}

// length is how much is read at an offset: the scanBytes and, for a block that begins at their end, one block more.
func (o *options) length(at int64) int64 {
	if o.bytes == 0 {
		return scanBytes + blockSize
	}
	return min(scanBytes+blockSize, o.bytes-at)
}

// add looks for blocks that begin in the first scanBytes, at any sector: a small filesystem has smaller blocks.
func (f *scanResult) add(at int64, content []byte) {
	if len(content) == 0 {
		return
	}
	sum := sha256.Sum256(content[:min(len(content), scanBytes)])
	f.Sums = append(f.Sums, hex.EncodeToString(sum[:8]))
	for i := 0; i < scanBytes && i+blockSize <= len(content); i += sectorBytes {
		if b, whole := decode(content[i : i+blockSize]); whole {
			f.Blocks = append(f.Blocks, stamps.Block{At: at + int64(i), Number: b.number, Stamp: b.stamp})
		}
	}
}
