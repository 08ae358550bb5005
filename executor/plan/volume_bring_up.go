package plan

import (
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// nextBringUp brings the volume up as its grant says.
func nextBringUp(want *VolumeSpec, have *ObservedVolume) Step {
	switch {
	case have.Absent:
		return refuse(fsm.Precondition, "the pool of volume %s is absent", want.Volume)
	case !have.Exists:
		return refuse(fsm.Precondition, "the device of volume %s is missing", want.Volume)
	case have.Replica != nil && !want.Replicated && !have.isUp():
		return refuse(fsm.Precondition, "volume %s: %s", want.Volume, UnknownReplica)
	case want.mayExpand(have):
		return Step{Kind: StepExpand}
	case have.Size < want.Size || have.Size < have.recordedSize:
		return refuse(fsm.Precondition, "the image of volume %s has %d bytes, not %d", want.Volume, have.Size, max(want.Size, have.recordedSize))
	case have.olderEpoch && have.isUp():
		return nextTakeDown(want, have) // what is up under an older epoch is taken down first (S3)
	case have.Crypt != nil && !have.Active():
		return nextOpen(want, have)
	case have.wantsHeaderBackup():
		return Step{Kind: StepBackUpHeader}
	case want.Grant.Block:
		return nextBringUpRaw(want, have)
	case have.Staged && have.recorded:
		return nextWhileStaged(want, have) // the log recorded the format before the first mount
	case !have.Active():
		return Step{Kind: StepActivate}
	case !have.Content.Read:
		return Step{Kind: StepProbe}
	case have.Content.Empty && plantedbug.Is(plantedbug.FormatOnDoubt):
		return Step{Kind: StepFormat}
	case want.Grant.Formatting:
		return nextFormat(want, have)
	case want.Grant.Cloned:
		return nextChangeUUID(want, have)
	case have.Content.Found != want.Grant.FS:
		return refuse(fsm.Precondition, "%s of volume %s holds %s, not the %s that was made for it",
			have.Path, want.Volume, describeContent(have.Content), want.Grant.FS.Type)
	case !have.recorded:
		return Step{Kind: StepWriteRecord}
	case want.Private:
		return Step{}
	}
	if s := nextExpandFilesystem(want, have, expandedBeforeMount); s.Kind != StepNone {
		return s
	}
	if s := NextLimits(want, have); s.Kind != StepNone {
		return s
	}
	return Step{Kind: StepMount}
}

// nextWhileStaged does what remains to be done on a mounted filesystem.
func nextWhileStaged(want *VolumeSpec, have *ObservedVolume) Step {
	if s := nextResizeMapping(have); s.Kind != StepNone {
		return s
	}
	if s := NextLimits(want, have); s.Kind != StepNone {
		return s
	}
	return nextExpandFilesystem(want, have, "xfs")
}

// nextBringUpRaw records first: an active raw device may be written to at once.
func nextBringUpRaw(want *VolumeSpec, have *ObservedVolume) Step {
	g := want.Grant
	switch {
	case !have.recorded:
		return Step{Kind: StepWriteRecord}
	case have.Crypt != nil && have.ReadOnly != g.ReadOnly && len(have.BoundTargets) == 0:
		return Step{Kind: StepCloseMapping}
	case nextResizeMapping(have).Kind != StepNone:
		return nextResizeMapping(have)
	case !have.Active(), have.ReadOnly != g.ReadOnly && len(have.BoundTargets) == 0:
		return Step{Kind: StepActivate}
	}
	return NextLimits(want, have)
}

// nextFormat makes the filesystem once in the volume's life. It is repeated only over this
// host's own unfinished mkfs, or over what a replica's peer left of one: the device is neither
// mounted nor handed to a workload while the state is `formatting` (S15).
func nextFormat(want *VolumeSpec, have *ObservedVolume) Step {
	ours := have.Content.Found == want.Grant.FS
	switch {
	case have.Formatted || ours && want.Grant.FormatBegunInLostLog || plantedbug.Is(plantedbug.FormattedBeforeMade):
		return Step{Kind: StepReportFormatted}
	case !have.Content.Empty && !ours && (!have.formatBegun || want.Grant.FormatBegunInLostLog) && !want.mayHavePiecesOfPeer(have):
		return refuse(fsm.Precondition, "%s of volume %s holds %s: no filesystem is made over it", have.Path, want.Volume, describeContent(have.Content))
	case !have.recorded || !have.formatBegun:
		return Step{Kind: StepWriteRecord}
	}
	return Step{Kind: StepFormat}
}

// mayHavePiecesOfPeer reports whether what is on the device of a replica may be of its peer's mkfs.
// That wrote to both disks, and only the peer's record names it; the log says that it was begun.
func (want *VolumeSpec) mayHavePiecesOfPeer(have *ObservedVolume) bool {
	return have.Replica != nil && want.Grant.FormatBegunBefore && have.Content.Found == (executor.Filesystem{})
}

// nextBind binds the volume to a target path.
func nextBind(want *VolumeSpec, have *ObservedVolume) Step {
	switch {
	case !have.recorded || !have.Active() || !want.Grant.Block && !have.Staged:
		return refuse(fsm.Precondition, "volume %s is not staged at %s", want.Volume, want.Grant.Path)
	case !have.targetRecorded:
		return Step{Kind: StepWriteRecord}
	case !slices.Contains(have.BoundTargets, want.Bind.Path):
		return Step{Kind: StepBind, Path: want.Bind.Path}
	}
	return Step{}
}

func describeContent(c executor.Content) string {
	switch {
	case c.Found.Type != "":
		return "another " + c.Found.Type
	case c.Empty:
		return "nothing"
	}
	return "something unknown"
}
