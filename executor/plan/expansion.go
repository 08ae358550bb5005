package plan

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// expandedBeforeMount is the filesystem that is expanded before it is mounted; the other
// kind can only be expanded while it is mounted.
const expandedBeforeMount = "ext4"

// mayExpand reports whether the image may grow: the log has a larger size, and the image is
// not smaller than recorded. One that lost its end is never grown: that would put zeros where data was.
func (d *VolumeSpec) mayExpand(have *ObservedVolume) bool {
	return d.expands(have) && have.Exists && have.Size < d.Size && have.Size >= have.recordedSize
}

// expands: an image is extended only as what the spec was made for. One whose volume became a replica since has less room
// than the volume's size, as DRBD's metadata take some of it: its conversion extends it, after it recorded how large it
// was (S55).
func (d *VolumeSpec) expands(have *ObservedVolume) bool {
	return d.Expanding && d.Replicated == (have.Replica != nil)
}

// nextExpandFilesystem grows a filesystem to its device, once for each size of the device.
// It does not ask the filesystem for its size: filesystems round down, and one whose
// expansion was killed may claim blocks that it does not have.
func nextExpandFilesystem(want *VolumeSpec, have *ObservedVolume, kind string) Step {
	if !want.CanExpandFilesystem || want.Grant.ReadOnly || want.Grant.FS.Type != kind || have.FilesystemFor == have.DeviceSize() {
		return Step{}
	}
	return Step{Kind: StepExpandFilesystem}
}

// nextChangeUUID gives a clone a filesystem UUID of its own before its first mount, and has
// that committed. A clone is never formatted (S15).
func nextChangeUUID(want *VolumeSpec, have *ObservedVolume) Step {
	switch {
	case have.Content.Found == want.Grant.FS:
		return Step{Kind: StepReportFormatted}
	case have.Content.Found.Type != want.Grant.FS.Type:
		return refuse(fsm.Precondition, "%s of volume %s holds %s, not the %s of its source",
			have.Path, want.Volume, describeContent(have.Content), want.Grant.FS.Type)
	case !want.CanExpandFilesystem:
		return refuse(fsm.Precondition, "volume %s is a clone, and this host cannot give its filesystem an identity", want.Volume)
	}
	return Step{Kind: StepChangeUUID}
}
