package mount

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// probeBytes is how much of each end is read.
const probeBytes = 1 << 20

// Probe reads both ends of a device and returns what they contain. It parses superblocks itself
// instead of running blkid, whose exit code 2 means both "empty" and "unreadable" (S15). The error of a device that does not answer is
// that of a command that hangs in the kernel.
func (m *Mounter) Probe(ctx context.Context, device string, size int64) (executor.Content, error) {
	content, err := callDevice(ctx, m.answerTimeout, func() (executor.Content, error) { return probe(device, size) }, func(executor.Content) {})
	if err != nil {
		return executor.Content{}, fmt.Errorf("probe %s: %w", device, err)
	}
	return content, nil
}

func probe(device string, size int64) (executor.Content, error) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return executor.Content{}, err
	}
	defer f.Close()
	if current, err := deviceSize(f); err != nil {
		return executor.Content{}, fmt.Errorf("read its size: %w", err)
	} else if current != size {
		return executor.Content{}, fsm.Reject(fsm.Precondition, "%s has %d bytes, not %d", device, current, size)
	}
	return readEnds(f, size)
}

// readEnds reads the first and the last MiB. Once a superblock is found, the rest is not read.
func readEnds(f *os.File, size int64) (executor.Content, error) {
	buf := make([]byte, min(probeBytes, size))
	if _, err := f.ReadAt(buf, 0); err != nil {
		return executor.Content{}, fmt.Errorf("read its beginning: %w", err)
	}
	content := executor.Content{Read: true, Found: detectFilesystem(buf)}
	if content.Found.Type != "" {
		return content, nil
	}
	content.Empty = isZero(buf)
	if _, err := f.ReadAt(buf, size-int64(len(buf))); err != nil {
		return executor.Content{}, fmt.Errorf("read its end: %w", err)
	}
	content.Empty = content.Empty && isZero(buf)
	return content, nil
}

func deviceSize(f *os.File) (int64, error) {
	var size uint64
	err := ioctlPointer(f, unix.BLKGETSIZE64, &size)
	return int64(size), err
}

var zeroes [64 << 10]byte

func isZero(b []byte) bool {
	for len(b) > len(zeroes) {
		if !bytes.Equal(b[:len(zeroes)], zeroes[:]) {
			return false
		}
		b = b[len(zeroes):]
	}
	return bytes.Equal(b, zeroes[:len(b)])
}

// Offsets of fields in superblocks: ext4 in Documentation/filesystems/ext4, xfs in
// fs/xfs/libxfs/xfs_format.h. The ext family is little-endian.
const (
	extSuperblock = 1024
	extMagicAt    = extSuperblock + 0x38
	extIncompatAt = extSuperblock + 0x60
	extUUIDAt     = extSuperblock + 0x68
	extMagic      = 0xEF53
	extExtents    = 0x40
	xfsMagic      = "XFSB"
	xfsUUIDAt     = 32
)

// detectFilesystem returns the filesystem whose superblock a device begins with; empty when there
// is none.
func detectFilesystem(head []byte) executor.Filesystem {
	if len(head) < 2*extSuperblock {
		return executor.Filesystem{}
	}
	if string(head[:4]) == xfsMagic {
		return executor.Filesystem{Type: "xfs", UUID: uuidAt(head, xfsUUIDAt)}
	}
	if binary.LittleEndian.Uint16(head[extMagicAt:]) != extMagic {
		return executor.Filesystem{}
	}
	found := executor.Filesystem{Type: "ext2", UUID: uuidAt(head, extUUIDAt)}
	if binary.LittleEndian.Uint32(head[extIncompatAt:])&extExtents != 0 {
		found.Type = "ext4"
	}
	return found
}

func uuidAt(b []byte, at int) string {
	id, err := uuid.FromBytes(b[at : at+16])
	if err != nil {
		return ""
	}
	return id.String()
}
