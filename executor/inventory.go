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
	// KindMapping is the mapping of an encrypted volume.
	KindMapping = "mapping"
	// KindHeaderBackup is a file with a copy of a volume's LUKS header.
	KindHeaderBackup = "header_backup"
	// KindHeld is what the host has of a volume for an operator who adopts it after the log was lost; see Held.
	KindHeld = "held"
	// KindHeldSnapshot is KindHeld of a snapshot.
	KindHeldSnapshot = "held_snapshot"
	// KindRevocation is a revocation that a lost log had and no later one was seen to know; see Held.
	KindRevocation = "revocation"
)

// Inventory is what was found on a host.
type Inventory struct {
	Items []InventoryItem
	// Encryption: all mappings and copies of headers are among the items. Without it nothing is known
	// of them.
	Encryption bool
	// Candidates: the host lists what could be imported, and nothing else.
	Candidates bool
}

// InventoryItem is one thing found in a pool's storage, or in the kernel for a device of it.
type InventoryItem struct {
	Kind   string // one of the kinds above
	Volume fsm.VolumeID
	// Snapshot is set instead of Volume for a snapshot, finished or not.
	Snapshot fsm.SnapshotID
	Path     string
	// HeaderRead: the LUKS header was read, of a mapping when it was opened, of a copy, and of the image of an
	// encrypted volume as far as that can be read; HeaderUUID is its UUID, empty where there is no header.
	HeaderRead bool
	HeaderUUID string
	// WrongDevice is, of a mapping, the device below it that is not the volume's; empty: it is, or
	// that is not known.
	WrongDevice string
	// Held is an fsmpb.HeldVolume as it is sent, of kind KindHeld, an fsmpb.HeldSnapshot of kind KindHeldSnapshot, or an
	// fsmpb.RevokeIdentity of kind KindRevocation.
	Held string
	// Candidate is an fsmpb.ImportCandidate as it is sent, of kind KindCandidate.
	Candidate string
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
