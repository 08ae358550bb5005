package plan

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// expandedBeforeMount is the filesystem that is grown before it is mounted; the other kind
// can only be grown while it is.
const expandedBeforeMount = "ext4"

// mayExpand: the log decided a larger size, and nothing of what was there is lost. A
// device that lost its end is never made larger: that would put zeros where data was.
func (d *VolumeSpec) mayExpand(have *ObservedVolume) bool {
	return d.Expanding && have.Exists && have.Size < d.Size && have.Size >= have.recordedSize
}

// growFilesystem makes a filesystem as large as its device, once for each size of it.
// What it says of its own size is not asked: filesystems round down, and one whose
// growth was killed may claim what it does not have.
func nextExpandFilesystem(want *VolumeSpec, have *ObservedVolume, kind string) Step {
	if !want.CanExpandFilesystem || want.Grant.ReadOnly || want.Grant.FS.Type != kind || have.FilesystemFor == have.DeviceSize() {
		return Step{}
	}
	return Step{Kind: StepExpandFilesystem}
}

// nextChangeUUID gives a clone an identity of its own before its first mount, and has that
// committed. It is never formatted (S15).
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
