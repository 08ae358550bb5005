package mount

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"
)

// Offsets in the superblock of an ext4, in bytes (the kernel's fs/ext4/ext4.h).
const (
	extLength       = 1024
	extCountsLength = 8 // counts of inodes and blocks
	extFirstBlockAt = 0x14
	extLogBlockAt   = 0x18
	extPerGroupAt   = 0x20
	extWriteTimeAt  = 0x30
	extLastCheckAt  = 0x40
	extGroupAt      = 0x5a
	extFeaturesRoAt = 0x64
	extErrorCountAt = 0x194
	extChecksumAt   = 0x3fc
	extMetadataCsum = 0x400
)

// extFieldsOfGrowth are the fields that a growth changes, or in which a copy of the superblock
// differs: counts of inodes and blocks, times, mount counts, the state, the group number, the last
// mount path, reserved descriptors, bytes written in total, the overhead, the checksum.
var extFieldsOfGrowth = []struct{ at, length int }{
	{0x00, 20}, {0x2c, 8}, {0x34, 2}, {0x3a, 2}, {0x40, 4}, {0x5a, 2}, {0x88, 64}, {0xce, 2}, {0x150, 12}, {0x178, 8}, {0x248, 4}, {extChecksumAt, 4},
}

// isTornByGrowth reports whether resize2fs was killed while it wrote the superblock. Any other
// damage to it is not repaired here.
func isTornByGrowth(device string, head []byte) bool {
	return repairedSuperblock(device, head[extSuperblock:][:extLength]) != nil
}

// repairedSuperblock returns what to write over a superblock during whose writing resize2fs was
// killed: the same with a valid checksum if resize2fs had only begun, or else the second group's
// copy. It returns nil where neither explains the content, that is, unless the checksum is wrong
// and all fields that a growth does not change equal those of the copy, which must be valid. The
// counts of inodes and blocks may differ only while the state "with errors" is set, which
// resize2fs sets before it changes them and clears afterwards. That state is set in the result, so
// that a check is due until one succeeded.
func repairedSuperblock(device string, super []byte) []byte {
	if !hasChecksumFeature(super) || hasValidChecksum(super) {
		return nil
	}
	if isOnlyBegun(super) {
		return withErrorMark(bytes.Clone(super))
	}
	second, err := secondSuperblock(device, super)
	if err != nil || !hasValidChecksum(second) || !equalButGrowth(super, second) {
		return nil
	}
	if !bytes.Equal(super[:extCountsLength], second[:extCountsLength]) && !hasErrorMark(super) {
		return nil
	}
	binary.LittleEndian.PutUint16(second[extGroupAt:], 0)
	return withErrorMark(second)
}

// maxGrowStartSeconds is how many seconds resize2fs may take at most from the write time in the
// superblock, which it sets before it writes, to read the bitmaps and start.
const maxGrowStartSeconds = 3600

// isOnlyBegun reports whether the wrong checksum matches the superblock without the fields that
// resize2fs writes first: the write time and the state. That needs no copy, and a filesystem of
// one group has none.
func isOnlyBegun(super []byte) bool {
	was := bytes.Clone(super)
	was[extStateAt-extSuperblock] &^= extHasErrors
	checked, written := binary.LittleEndian.Uint32(was[extLastCheckAt:]), binary.LittleEndian.Uint32(was[extWriteTimeAt:])
	for at := written; at >= checked && written-at <= maxGrowStartSeconds; at-- {
		binary.LittleEndian.PutUint32(was[extWriteTimeAt:], at)
		if hasValidChecksum(was) {
			return true
		}
	}
	return false
}

// repairTornSuperblock repairs a superblock during whose writing resize2fs was killed. Nothing is
// lost by it: no tool accepts the old content, and all of its information is in it or in the copy.
// If this is killed too, the superblock is as torn as before.
func repairTornSuperblock(device string) error {
	return rewriteSuperblock(device, func(super []byte) ([]byte, error) {
		if whole := repairedSuperblock(device, super); whole != nil {
			return whole, nil
		}
		return nil, errors.New("the superblock changed meanwhile")
	})
}

// rewriteSuperblock replaces the primary superblock by what change returns, and leaves it where
// that is nil. On a mounted filesystem it fails with EBUSY, since the kernel owns the superblock.
func rewriteSuperblock(device string, change func(super []byte) ([]byte, error)) error {
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	super := make([]byte, extLength)
	if _, err := f.ReadAt(super, extSuperblock); err != nil {
		return err
	}
	next, err := change(super)
	if err != nil || next == nil {
		return err
	}
	if _, err := f.WriteAt(next, extSuperblock); err != nil {
		return err
	}
	return f.Sync()
}

// hasErrorMark reports whether the state "with errors" is set.
func hasErrorMark(super []byte) bool {
	return binary.LittleEndian.Uint16(super[extStateAt-extSuperblock:])&extHasErrors != 0
}

func withErrorMark(super []byte) []byte {
	super[extStateAt-extSuperblock] |= extHasErrors
	binary.LittleEndian.PutUint32(super[extChecksumAt:], checksum(super))
	return super
}

func hasChecksumFeature(super []byte) bool {
	return binary.LittleEndian.Uint32(super[extFeaturesRoAt:])&extMetadataCsum != 0
}

func hasValidChecksum(super []byte) bool {
	return binary.LittleEndian.Uint32(super[extChecksumAt:]) == checksum(super)
}

func checksum(super []byte) uint32 {
	return ^crc32.Checksum(super[:extChecksumAt], crc32.MakeTable(crc32.Castagnoli))
}

// countError sets the superblock's error count to one where it is zero. e2fsck, like resize2fs,
// sets the state "with errors" where it does not correct what it found, but counts no error; where
// all is well afterwards it resets the count.
func countError(device string) error {
	return rewriteSuperblock(device, func(super []byte) ([]byte, error) {
		if binary.LittleEndian.Uint32(super[extErrorCountAt:]) != 0 || hasChecksumFeature(super) && !hasValidChecksum(super) {
			return nil, nil
		}
		binary.LittleEndian.PutUint32(super[extErrorCountAt:], 1)
		if hasChecksumFeature(super) {
			binary.LittleEndian.PutUint32(super[extChecksumAt:], checksum(super))
		}
		return super, nil
	})
}

// secondSuperblock reads the copy at the beginning of the second group.
func secondSuperblock(device string, super []byte) ([]byte, error) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := int64(1024) << binary.LittleEndian.Uint32(super[extLogBlockAt:])
	group := int64(binary.LittleEndian.Uint32(super[extFirstBlockAt:])) + int64(binary.LittleEndian.Uint32(super[extPerGroupAt:]))
	second := make([]byte, extLength)
	_, err = f.ReadAt(second, group*block)
	return second, err
}

func equalButGrowth(super, second []byte) bool {
	a, b := [extLength]byte(super), [extLength]byte(second)
	for _, field := range extFieldsOfGrowth {
		clear(a[field.at:][:field.length])
		clear(b[field.at:][:field.length])
	}
	return a == b
}
