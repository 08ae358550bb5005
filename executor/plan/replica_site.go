package plan

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// nextConvert puts DRBD's metadata behind the content of a plain image (S55): recorded first, then the image is
// extended, and the metadata are made in what was added. From there on it is brought up as every replica.
func nextConvert(want *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case !want.Converting || !want.Seed || h.MetadataMade:
	case h.PlainBytes == 0 && h.Backing.Active():
		return Step{Kind: StepDeactivateBacking} // busy while anybody has it open
	case h.PlainBytes == 0:
		return Step{Kind: StepBeginConversion}
	case h.BackingCapacity < want.Size:
		return Step{Kind: StepExtendBacking}
	}
	return Step{}
}

// makesMetadata: metadata are made for what is being created, and once for a plain image that is converted. Made anew
// later, they would let the other replica's disk be copied over the content.
func (want *ReplicaSpec) makesMetadata(h *ObservedReplica) bool {
	if want.Goal == fsm.GoalCreate {
		return !h.MetadataMade || !h.InKernel && !h.HasMetadata
	}
	return want.Converting && want.Seed && !h.MetadataMade && h.PlainBytes > 0
}

// mayBeOverwritten: the disk has the content that is being copied to the other one for the first time, and its kernel
// would have it copied the other way (S55).
func (want *ReplicaSpec) mayBeOverwritten(h *ObservedReplica) bool {
	return want.Converting && !want.ConversionRestored && want.Seed && h.Disk <= diskInconsistent && !h.JustCreated
}

// isPlain: the device has no metadata of DRBD: none were made yet, or an undone conversion cut them off.
func (h *ObservedReplica) isPlain() bool {
	return !h.InKernel && (!h.MetadataMade || h.PlainBytes > 0 && h.Backing.Size == h.PlainBytes)
}

// nextUnconvert makes the image what it was before its conversion: what was added behind the content is cut off, and
// with it all of DRBD's metadata. The record says how large the image was, and goes last. One that does not say it is of a
// conversion that a restored log does not know of (S1).
func nextUnconvert(want *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case h.Mounted || h.Primary:
	case h.InKernel && h.Connection > connStandAlone:
		return Step{Kind: StepDisconnect}
	case h.InKernel:
		return Step{Kind: StepDownResource}
	case h.HasConfig:
		return Step{Kind: StepRemoveConfig}
	case h.Backing.Active():
		return Step{Kind: StepDeactivateBacking}
	case h.Backing.Absent:
	case h.MetadataMade && h.PlainBytes == 0 && want.Peer != nil:
		return refuse(fsm.Precondition, "the replica was made before the conversion that is undone, which the log does not know of: its peer may have more")
	case h.Backing.Exists && h.PlainBytes > 0 && h.Backing.Size != h.PlainBytes:
		return Step{Kind: StepShrinkBacking}
	case h.Recorded:
		return Step{Kind: StepForgetReplicaRecord}
	}
	return Step{}
}

// nextApart leaves a replica as it is whose content was given up by force: disconnected, and not attached once it is
// out of the kernel (S48). That is not what its peer has, whoever wrote it, so it is kept before it is ever discarded.
func nextApart(want *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case h.InKernel && h.Connection > connStandAlone:
		return Step{Kind: StepDisconnect}
	case h.Recorded && !h.MayHaveWrites && want.Attachment > 0:
		return Step{Kind: StepNoteApart}
	}
	return Step{}
}

// nextRevert gives the device the content of a kept copy. The copy has the metadata of its time, with which two kernels
// would call different contents up to date: they are made anew before the device can be attached (S43).
func nextRevert(want *ReplicaSpec, h *ObservedReplica) Step {
	reverted := h.Reverting == want.RevertTo && h.ContentReverted
	switch {
	case h.RevertedTo == want.RevertTo: // the log takes notice of it before it is attached
	case h.Mounted || h.Primary || h.Suspended:
	case h.InKernel && h.Connection > connStandAlone:
		return Step{Kind: StepDisconnect}
	case h.InKernel:
		return Step{Kind: StepDownResource}
	case !reverted && h.Backing.Active():
		return Step{Kind: StepDeactivateBacking}
	case !reverted:
		return Step{Kind: StepRevertBacking}
	case !h.Backing.Active():
		return Step{Kind: StepActivateBacking}
	case !h.HasConfig || want.Peer != nil && !h.ConfigCurrent:
		return Step{Kind: StepConfigure}
	default:
		return Step{Kind: StepRemakeReverted}
	}
	return Step{}
}

// nextAfterRevert is for a device that was being reverted, or was reverted, when nobody wanted that any more. What it has
// counts for nothing, and is copied from the peer once that has everything.
func nextAfterRevert(want *ReplicaSpec, h *ObservedReplica) Step {
	if s := nextRemakeMetadata(want, h); s.Kind != StepNone {
		return s
	}
	return refuse(fsm.Precondition, "the device of volume %s was being reverted to kept copy %s: it is copied from the other replica when that is up to date", want.Volume, h.Reverting)
}

// nextKeepBeforeSync keeps what a whole secondary has before it is overwritten (S50). What may have writes that its peer
// does not have is kept as the content of every outdated replica is, with copying where it must be (S9).
func nextKeepBeforeSync(want *ReplicaSpec, h *ObservedReplica) Step {
	whole := h.DiskAttached() && h.Disk > diskInconsistent && !h.Primary && !h.Suspended && h.Connection <= connStandAlone
	switch {
	case !want.KeepDue || h.KeepAnswered || !want.Outdated || want.Force || want.Connect || !whole:
		return Step{}
	case h.MayHaveWrites && !h.CopyKept && !want.DiscardUnkept:
		return Step{Kind: StepKeepVictim}
	}
	return Step{Kind: StepKeepBeforeSync}
}

// mustKeep: it may have writes that its peer does not have, and they are not kept yet (S9, S48).
func (want *ReplicaSpec) mustKeep(h *ObservedReplica) bool {
	return want.Outdated && h.MayHaveWrites && !h.CopyKept && !want.DiscardUnkept
}

// FreezesIsolated reports whether the I/O of a replica is to be suspended when no controller was heard for too long:
// it is primary without its peer, so that nobody can stop it (S45).
func FreezesIsolated(h *executor.ResourceStatus) bool {
	return h.InKernel && h.Primary && !h.Suspended && h.Connection < ConnConnected
}
