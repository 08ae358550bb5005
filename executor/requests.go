package executor

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// ExpandRequest asks to make a staged volume's filesystem as large as its device.
type ExpandRequest struct {
	Volume     fsm.VolumeID
	Path       string         // where it is staged or bound
	Size       int64          // bytes that are needed at least; 0: those of the device
	Capability fsm.Capability // the zero Capability: not said
}

// StageRequest asks to bring a volume up at a path.
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
	TargetPath  string    // absolute; its parent folder exists
	ReadOnly    bool
	Capability  fsm.Capability
	Flags       []string // mount flags in clear: never logged nor stored
	// MountGroup is the group id, in decimal, that may read and write everything on the
	// filesystem; empty: all is left as it is. It says nothing where nothing is written.
	MountGroup string
	// Fingerprint is equal when all arguments are that must be when the call is repeated.
	Fingerprint string
}
