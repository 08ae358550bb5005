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

// bitmapWordBytes is how much of a device one word of the bitmap in the kernel stands for. When the kernel has read a
// bitmap whose last word is fully used it clears that word (drbd 8.4, bm_count_bits): what was out
// of sync there is forgotten, and never copied. So no device has a size that is a multiple of this.
const bitmapWordBytes = 64 * blockBytes

// maxExtentBytes is the largest extent, a power of two, to which a pool is expected to round sizes up.
const maxExtentBytes = 64 << 20

// metadataBytes is the size of the metadata on a backing device of so many bytes.
func metadataBytes(backing int64) int64 {
	bitmap := (backing + bytesPerBitmapSector - 1) / bytesPerBitmapSector * sectorBytes
	return roundUp(bitmap) + activityLogBytes + superblockBytes
}

// BackingCapacity returns the size in bytes of the largest volume, in whole units, that fits on a
// backing device of the given size with its metadata; 0 when it is too small for any.
func (*Replicator) BackingCapacity(backing int64) int64 { return backingCapacity(backing) }

// BackingSize returns how many bytes the backing device needs for a volume of size bytes, so that no bitmap above it,
// also if its pool rounds the size up, has a last word that is fully used.
func (*Replicator) BackingSize(size int64) int64 {
	backing := roundUp(size) + metadataBytes(size)
	for backingCapacity(backing) < size || losesMarks(backing) {
		backing += blockBytes
	}
	return backing
}

// losesMarks reports whether the kernel would forget marks of the device above a backing device of so many bytes, or
// above one that is rounded up to whole extents.
func losesMarks(backing int64) bool {
	for extent := int64(blockBytes); extent <= maxExtentBytes; extent *= 2 {
		rounded := (backing + extent - 1) / extent * extent
		if deviceBytes(rounded)%bitmapWordBytes == 0 {
			return true
		}
	}
	return false
}

// deviceBytes is the size of the replicated device above a backing device of so many bytes.
func deviceBytes(backing int64) int64 {
	return max(0, backing-backing%blockBytes-metadataBytes(backing))
}

func backingCapacity(backing int64) int64 {
	size := deviceBytes(backing)
	return size - size%fsm.VolumeSizeUnit
}

func roundUp(n int64) int64 { return (n + blockBytes - 1) / blockBytes * blockBytes }
