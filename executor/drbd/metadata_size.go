package drbd

import "github.com/holdfast-storage/holdfast/fsm"

// What DRBD keeps behind the content of a device with internal metadata, in bytes:
// from the end the superblock, the activity log, and the bitmap. The bitmap has one
// bit for 4 KiB, of the whole device below, in sectors, rounded up to 4 KiB (drbd 8.4,
// drbd_md_set_sector_offsets). DRBD 9 has one such bitmap per peer, of which we have one.
const (
	superblockBytes      = 4 << 10
	activityLogBytes     = 32 << 10
	sectorBytes          = 512
	bytesPerBitmapSector = sectorBytes * 8 * blockBytes // 16 MiB
	blockBytes           = 4 << 10
)

// metadataBytes is what the metadata take of a device below.
func metadataBytes(backing int64) int64 {
	bitmap := (backing + bytesPerBitmapSector - 1) / bytesPerBitmapSector * sectorBytes
	return roundUp(bitmap) + activityLogBytes + superblockBytes
}

// BackingCapacity is the largest volume, in whole units, that a device of so many bytes has
// room for; 0 when it is too small for any.
func (*Replicator) BackingCapacity(backing int64) int64 { return backingCapacity(backing) }

// BackingSize is how many bytes the device below needs for a volume of size bytes.
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
