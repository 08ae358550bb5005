package executor

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// ExpandRequest asks to grow a staged volume's filesystem to the size of its device.
type ExpandRequest struct {
	Volume     fsm.VolumeID
	Path       string         // where it is staged or bound
	Size       int64          // bytes that are required at least; 0: those of the device
	Limit      int64          // bytes that the device may have at most; 0: any number
	Capability fsm.Capability // zero: not given
	Keys       []Passphrase   // as in StageRequest
}

// ReclaimRequest asks to discard what a staged volume's filesystem does not use.
type ReclaimRequest struct {
	Volume     fsm.VolumeID
	Path       string         // where it is staged or bound
	Capability fsm.Capability // zero: not given
}

// RotateRequest asks to replace the key of an encrypted volume that is staged (S64).
type RotateRequest struct {
	Volume     fsm.VolumeID
	Path       string         // where it is staged or bound; empty: not given
	Capability fsm.Capability // zero: not given
	New        Passphrase
	Old        []Passphrase // of which one may open it; none: the new one does, and gets a slot of its own
}

// SpaceUsage is how many bytes of its pool a volume occupies on this host, as the pool says, before
// and after what it does not use was discarded.
type SpaceUsage struct {
	Known         bool // the pool can tell
	Before, After int64
}

// StageRequest asks to activate a volume and mount it, or bind its device node, at a path.
type StageRequest struct {
	Volume     fsm.VolumeID
	Epoch      fsm.Epoch // of the publication that the caller means (S3)
	Path       string    // absolute
	Capability fsm.Capability
	Flags      []string // mount flags in clear: never logged nor stored
	// Keys open an encrypted volume: the present passphrase, then the one before, where there are any.
	Keys []Passphrase
}

// PublishTargetRequest asks to bind a staged volume to a target path.
type PublishTargetRequest struct {
	Volume      fsm.VolumeID
	Epoch       fsm.Epoch // of the publication that the caller means (S3)
	StagingPath string    // absolute
	TargetPath  string    // absolute; its parent directory exists
	ReadOnly    bool
	Capability  fsm.Capability
	Flags       []string // mount flags in clear: never logged nor stored
	// MountGroup is the group id, in decimal, that may read and write everything on the
	// filesystem; empty leaves it as it is. It is ignored for a read-only target.
	MountGroup string
	// Fingerprint is equal for two calls whose arguments must be equal in a retry.
	Fingerprint string
}
