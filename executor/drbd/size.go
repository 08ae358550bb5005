package drbd

import "github.com/holdfast-storage/holdfast/fsm"

// What DRBD keeps behind the content of a device with internal metadata, in bytes:
// from the end the superblock, the activity log, and the bitmap. The bitmap has one
// bit for 4 KiB, of the whole device below, in sectors, rounded up to 4 KiB (drbd 8.4,
// drbd_md_set_sector_offsets). DRBD 9 has one such bitmap per peer, of which we have one.
const (
	superblock  = 4 << 10
	activityLog = 32 << 10
	sectorBytes = 512
	sectorMaps  = sectorBytes * 8 * block // 16 MiB
	block       = 4 << 10
)

// metadataBytes is what the metadata take of a device below.
func metadataBytes(backing int64) int64 {
	bitmap := (backing + sectorMaps - 1) / sectorMaps * sectorBytes
	return roundUp(bitmap) + activityLog + superblock
}

// BackingCapacity is the largest volume, in whole units, that a device of so many bytes has
// room for; 0 when it is too small for any.
func (*Replicator) BackingCapacity(backing int64) int64 { return room(backing) }

// BackingSize is how many bytes the device below needs for a volume of size bytes.
func (*Replicator) BackingSize(size int64) int64 {
	backing := roundUp(size) + metadataBytes(size)
	for room(backing) < size {
		backing += block
	}
	return backing
}

func room(backing int64) int64 {
	size := backing - backing%block - metadataBytes(backing)
	return max(0, size-size%fsm.VolumeSizeUnit)
}

func roundUp(n int64) int64 { return (n + block - 1) / block * block }
