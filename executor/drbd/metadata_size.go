package drbd

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// Sizes of DRBD's internal metadata, in bytes. They lie behind the content, from the device's end:
// the superblock, the activity log, and the bitmap. The bitmap has one bit for 4 KiB of the whole
// backing device; it is counted in sectors and rounded up to 4 KiB (drbd 8.4,
// drbd_md_set_sector_offsets). DRBD 9 has one such bitmap per peer; there is one peer here.
const (
	superblockBytes      = 4 << 10
	activityLogBytes     = 32 << 10
	sectorBytes          = 512
	bytesPerBitmapSector = sectorBytes * 8 * blockBytes // 16 MiB
	blockBytes           = 4 << 10
)

// metadataBytes is the size of the metadata on a backing device of so many bytes.
func metadataBytes(backing int64) int64 {
	bitmap := (backing + bytesPerBitmapSector - 1) / bytesPerBitmapSector * sectorBytes
	return roundUp(bitmap) + activityLogBytes + superblockBytes
}

// BackingCapacity returns the size in bytes of the largest volume, in whole units, that fits on a
// backing device of the given size with its metadata; 0 when it is too small for any.
func (*Replicator) BackingCapacity(backing int64) int64 { return backingCapacity(backing) }

// BackingSize returns how many bytes the backing device needs for a volume of size bytes.
func (*Replicator) BackingSize(size int64) int64 {
	backing := roundUp(size) + metadataBytes(size)
	for backingCapacity(backing) < size {
		backing += blockBytes
	}
	return backing
}

func backingCapacity(backing int64) int64 {
	size := backing - backing%blockBytes - metadataBytes(backing)
	return max(0, size-size%fsm.VolumeSizeUnit)
}

func roundUp(n int64) int64 { return (n + blockBytes - 1) / blockBytes * blockBytes }
