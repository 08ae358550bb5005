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
}

// StageRequest asks to activate a volume and mount it, or bind its device node, at a path.
type StageRequest struct {
	Volume     fsm.VolumeID
	Epoch      fsm.Epoch // of the publication that the caller means (S3)
	Path       string    // absolute
	Capability fsm.Capability
	Flags      []string // mount flags in clear: never logged nor stored
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
