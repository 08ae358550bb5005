package plan

import (
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// NextVolumeStep picks the one step that brings have closer to want. It is pure: every rule
// about order and safety is here, and is tested as a table.
func NextVolumeStep(want *VolumeSpec, have *ObservedVolume) Step {
	switch {
	case want.TakeDown:
		return nextTakeDown(want, have)
	case len(want.DropTargets) > 0:
		return Step{Kind: StepUnbind, Path: want.DropTargets[0]}
	case want.Grant != nil && want.Bind != nil:
		return nextBind(want, have)
	case want.Grant != nil:
		return nextBringUp(want, have)
	case want.Goal == fsm.GoalRemove:
		return nextRemove(want, have)
	case want.Goal == fsm.GoalCreate:
		return nextCreate(want, have)
	case have.Absent || !have.Exists:
	case want.mayExpand(have):
		return Step{Kind: StepExpand}
	case want.expands(have) && have.Size < want.Size:
		return refuse(fsm.Precondition, "the image of volume %s has %d bytes, and had %d: it was truncated, and is not grown again, which would hide the loss", want.Volume, have.Size, have.recordedSize)
	case want.Limits != nil && have.Active():
		return NextLimits(want, have)
	}
	return Step{} // a Ready volume without its image is reported missing, never created again (S14)
}

// nextTakeDown ends what is up, targets first. It never ends what it does not know: a
// foreign mount of the volume keeps its device active.
func nextTakeDown(want *VolumeSpec, have *ObservedVolume) Step {
	switch {
	case len(have.BoundTargets) > 0:
		return Step{Kind: StepUnbind, Path: have.BoundTargets[0]}
	case len(have.ForeignMounts) > 0:
		return refuse(fsm.Busy, "volume %s is also mounted at %s", want.Volume, have.ForeignMounts[0])
	case have.Staged:
		return Step{Kind: StepUnmount}
	case have.Crypt != nil && have.Crypt.Mapping.Exists:
		return Step{Kind: StepCloseMapping}
	case have.isActiveBelow():
		return Step{Kind: StepDeactivate}
	}
	return Step{}
}

// nextRemove is for a Deleting volume, or a replica that is removed from this host (S14).
func nextRemove(want *VolumeSpec, have *ObservedVolume) Step {
	switch {
	case have.isUp():
		return nextTakeDown(want, have)
	case have.Absent: // an absent pool does not prove that anything is gone (S12)
		return refuse(fsm.Unreachable, "the pool of volume %s is absent", want.Volume)
	case want.Import != "" && (have.Exists || have.Unfinished):
		return Step{Kind: StepGiveBack}
	case (have.Exists || have.Unfinished) && have.Crypt != nil && !have.Crypt.Wiped && !plantedbug.Is(plantedbug.HeaderLeft):
		return Step{Kind: StepWipeHeader} // who finds the blocks later finds no key for them (S65)
	case have.Exists || have.Unfinished:
		return Step{Kind: StepRemove}
	}
	return Step{}
}

// nextCreate is for a Creating volume (S14).
func nextCreate(want *VolumeSpec, have *ObservedVolume) Step {
	switch {
	case have.Absent:
		return refuse(fsm.Unreachable, "the pool of volume %s is absent", want.Volume)
	case want.Import != "" && !have.Exists:
		return Step{Kind: StepImport}
	case have.Exists && have.mayBeTorn && want.Import == "":
		return Step{Kind: StepRemove} // it was never reported
	case !have.Exists && !want.Source.IsZero():
		return Step{Kind: StepCreateFrom}
	case !have.Exists:
		return Step{Kind: StepCreate}
	case have.Size != want.Size:
		return refuse(fsm.Incompatible, "the image of volume %s has %d bytes, not %d", want.Volume, have.Size, want.Size)
	case want.ImportDRBD != nil:
		return nextImportDRBD(want.ImportDRBD, have)
	}
	return Step{}
}

// nextImportDRBD looks once more at the metadata of a device that nobody finds by its former name any more, and replaces
// them once every host of the resource has done as much.
func nextImportDRBD(want *fsm.DesiredDRBDImport, have *ObservedVolume) Step {
	switch {
	case have.metadataReplaced:
	case !have.importVerified:
		return Step{Kind: StepVerifyImport}
	case want.Replace:
		return Step{Kind: StepReplaceMetadata}
	}
	return Step{}
}
