package drbd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// What is read of a content: so many parts of so many bytes, the first at its beginning and the last at its end.
const (
	digestParts     = 8
	digestPartBytes = 1 << 20
	digestTimeout   = 5 * time.Second // less than what lists the candidates waits for a host
)

// ContentDigest reads parts of a device's content, which a filesystem's superblock is among. Others than DRBD may have
// written to it, which no metadata tell. It writes nothing.
func (*Replicator) ContentDigest(ctx context.Context, path string, content int64) (digest []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, digestTimeout)
	defer cancel()
	f, err := os.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("read parts of %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// DRBD writes below the device's pages in memory.
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return nil, fmt.Errorf("read parts of %s: forget its pages in memory: %w", path, err)
	}
	sum := sha256.New()
	for part := range int64(digestParts) {
		if err = ctx.Err(); err == nil {
			err = addPart(sum, f, part, content)
		}
		if err != nil {
			return nil, fmt.Errorf("read parts of %s: %w", path, err)
		}
	}
	return sum.Sum(nil), nil
}

// addPart reads one part. Those of a small content overlap, and are all of it.
func addPart(sum hash.Hash, f *os.File, part, content int64) error {
	length := min(digestPartBytes, content)
	at := (content - length) / (digestParts - 1) * part
	if part == digestParts-1 {
		at = content - length
	}
	n, err := io.Copy(sum, io.NewSectionReader(f, at, length))
	if err == nil && n != length {
		err = fmt.Errorf("it ends %d bytes after %d: %w", n, at, io.ErrUnexpectedEOF)
	}
	return err
}
