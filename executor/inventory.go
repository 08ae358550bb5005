package executor

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// Kinds of inventory items.
const (
	// KindImage is a finished image of a volume.
	KindImage = "image"
	// KindUnfinished is what an interrupted create left.
	KindUnfinished = "unfinished"
	// KindDevice is a block device of an image.
	KindDevice = "loop"
	// KindMount is a mount of such a device.
	KindMount = "mount"
	// KindSnapshot is a finished snapshot.
	KindSnapshot = "snapshot"
	// KindResource is a replicated volume's resource, in the kernel or in files.
	KindResource = "resource"
)

// InventoryItem is one thing found in a pool's storage, or in the kernel for a device of it.
type InventoryItem struct {
	Kind   string // one of the kinds above
	Volume fsm.VolumeID
	// Snapshot is set instead of Volume for a snapshot, finished or not.
	Snapshot fsm.SnapshotID
	Path     string
}

// PoolFacts is what was measured of a pool.
type PoolFacts struct {
	ID         fsm.PoolID
	Free       int64 // bytes
	Capacity   int64 // bytes
	Absent     bool  // not mounted, or without its id file (S12)
	FullCopies bool  // a snapshot or a clone is a complete copy: it shares no blocks
	Detail     string
}
