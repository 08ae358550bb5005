package plan

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// NextReplicaStep picks the one step that brings a replica closer to its desired state. It
// is pure: every rule about order and safety of replicas is here, and is tested as a table.
// Mounts are none of its steps: NextVolumeStep ends them, before it or in between.
func NextReplicaStep(want *ReplicaSpec, h *ObservedReplica) Step {
	if want.isVictim(h) {
		return nextVictim(h)
	}
	if want.Goal == fsm.GoalRemove {
		return nextRemoveReplica(h)
	}
	if want.Leaving {
		return Step{} // it was given up, but stays until its removal is desired: it may have the last copy (S71)
	}
	switch {
	case want.Unconvert, want.ConversionRestored && want.Seed && h.isPlain():
		return nextUnconvert(want, h)
	case want.Apart:
		return nextApart(want, h)
	case h.Backing.Absent || !h.Backing.Exists || want.Goal == fsm.GoalKeep && !want.InitialSyncDone && !want.Converting:
		return Step{} // NextVolumeStep creates it; it is missing (S14), or creating it failed
	case h.AwaitsImport:
		return Step{} // NextVolumeStep replaces the metadata of others
	case want.RevertTo != "":
		return nextRevert(want, h)
	}
	for _, rule := range []func(*ReplicaSpec, *ObservedReplica) Step{nextConvert, nextAttach, nextConnection, nextInitialSync, NextResize, nextPromote, nextNoteInSync, nextVerify} {
		if s := rule(want, h); s.Kind != StepNone {
			return s
		}
	}
	return Step{}
}

// isVictim reports whether this replica's writers must end: its peer continued without it, as
// the log records; or its I/O is suspended, and its publication was revoked, it is to be removed, or
// nobody will ever complete what waits; or this host began to end them, and took their disk (S9).
func (want *ReplicaSpec) isVictim(h *ObservedReplica) bool {
	revoked := want.Goal == fsm.GoalRemove || want.Revoked
	return h.InKernel && (want.Outdated && (h.Primary || h.Suspended) || h.Suspended && revoked || NobodyCompletes(want.DesiredReplica, &h.ResourceStatus) || h.Primary && h.isDetachedWhole())
}

// NobodyCompletes reports whether suspended I/O is on no whole disk, and no other replica has the data: what waits would
// wait for ever, and the volume could not even be unmounted. Half a copy goes on with its peer's host; once that host's disk
// failed, too, nobody has the other half.
func NobodyCompletes(want *fsm.DesiredReplica, h *executor.ResourceStatus) bool {
	alone := want.Peer == nil || want.Peer.Incomplete
	halfCopied := h.Disk == diskInconsistent && want.Peer != nil && want.Peer.DiskGone
	return want.InitialSyncDone && alone && h.InKernel && h.Suspended && (h.Disk <= DiskDiskless || halfCopied) && h.Connection < ConnConnected
}

// nextVictim makes blocked I/O fail instead of succeed (S9): the disk is detached, and known
// to be, before I/O is resumed.
func nextVictim(h *ObservedReplica) Step {
	switch {
	case h.DiskAttached():
		return Step{Kind: StepDetachDisk}
	case h.Suspended:
		return Step{Kind: StepResumeIO}
	}
	return Step{Kind: StepTearDownVictim}
}

// nextRemoveReplica removes the replica, by its desired state (S14). NextVolumeStep took down
// what was up. The record stays as long as the backing device: without it the replica could
// not be attached again if the removal is taken back (S71).
func nextRemoveReplica(h *ObservedReplica) Step {
	switch {
	case h.Mounted || h.Primary:
	case h.InKernel:
		return Step{Kind: StepDownResource}
	case h.HasConfig:
		return Step{Kind: StepRemoveConfig}
	case h.Backing.Active():
		return Step{Kind: StepDeactivateBacking}
	case h.Recorded && !h.Backing.Absent && !h.Backing.Exists && !h.Backing.Unfinished:
		return Step{Kind: StepForgetReplicaRecord}
	}
	return Step{}
}

// nextAttach keeps the replica attached, after a boot and without a publication as well. Each
// attachment is committed before it is made (S5).
func nextAttach(want *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case !h.Backing.Active():
		return Step{Kind: StepActivateBacking}
	case want.Peer != nil && !h.ConfigCurrent:
		return Step{Kind: StepConfigure}
	case want.IsOnly() && !h.HasConfig && !h.InKernel:
		return Step{Kind: StepConfigure} // it was being removed, and is the volume's only replica now (S71)
	case !h.HasConfig:
		return Step{} // its peer is not known yet
	case h.InKernel && !h.Adjusted:
		return Step{Kind: StepAdjust}
	case h.DiskAttached() && !h.AttachmentRecorded && !h.Primary && !h.Suspended:
		return Step{Kind: StepDownResource} // an attachment that this host did not record (S5)
	case h.DiskAttached() && h.AttachmentForgotten && !want.Fenced:
		return Step{Kind: StepRecommitAttachment}
	case h.DiskAttached() && h.DiskFailed && !h.Primary && !h.Suspended && h.AttachDue && !want.Fenced:
		return nextDetachFailed(want, h)
	case h.DiskAttached():
		return Step{}
	case want.makesMetadata(h):
		return Step{Kind: StepCreateMetadata}
	case !h.MetadataMade || !h.InKernel && !h.HasMetadata:
		return refuse(fsm.Precondition, "the metadata of the replica of volume %s are missing", want.Volume)
	case want.Outdated && h.MayHaveWrites && h.InKernel:
		return Step{Kind: StepDownResource}
	case want.mustKeep(h):
		return Step{Kind: StepKeepVictim}
	case !h.AttachDue, want.Fenced: // the log would refuse it (S58)
		return Step{}
	case h.Reverting != "":
		return nextAfterRevert(want, h)
	case h.DiskFailed && !h.FailureKnown:
		return Step{} // it is reported first: until then its peer may be taken for needless (S71)
	case h.DiskFailed && want.mustRemake(h) && !plantedbug.Is(plantedbug.BitmapTrusted):
		return nextRemakeMetadata(want, h)
	case !h.AttachmentCommitted:
		return Step{Kind: StepProposeAttach}
	}
	return Step{Kind: StepAttachDisk}
}

// mustRemake: by a decision a failed disk continues with what it has, unless it can be copied.
func (want *ReplicaSpec) mustRemake(h *ObservedReplica) bool {
	return !want.Force || nextRemakeMetadata(want, h).Kind == StepRemakeMetadata
}

// nextRemakeMetadata forces a full resync of a disk that the kernel detached after an error:
// neither the bitmap nor the activity log names what a failing pool lost (S67). A disk that may
// be the only good copy is left alone, and waits for its peer or for a decision. The log may not
// know that the peer's disk failed since; so either this kernel sees the peer's disk up to date,
// or the peer's host reported now that its kernel has it attached. That a kernel calls the peer's
// disk up to date is not enough where the log knows that it lacks writes: a kernel without a disk
// has nothing to compare with. Only a primary has, which connects to no content but its own. An outdated
// disk would be discarded for its peer's content anyway, which went on without it.
func nextRemakeMetadata(want *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case want.Peer == nil:
		return Step{} // a replica that the kernel may still see is one that is being removed (S71)
	case want.Outdated && want.Force:
		return Step{} // it was decided to go on with what it has, although its peer has more (S8)
	}
	complete := !want.Peer.Incomplete
	kernelSeesPeer := h.Connection >= ConnConnected && h.PeerDisk == DiskUpToDate && (complete || h.Primary)
	peerAttached := complete && want.Peer.DiskAttached
	peerHasMore := want.Peer.UpToDate || h.PeerWasUpToDate || want.Outdated
	if kernelSeesPeer || peerAttached && peerHasMore {
		return Step{Kind: StepRemakeMetadata}
	}
	return Step{}
}

// nextDetachFailed detaches a disk of which it was learned only after it was attached that it had
// failed before, once it can be copied again.
func nextDetachFailed(want *ReplicaSpec, h *ObservedReplica) Step {
	if nextRemakeMetadata(want, h).Kind == StepRemakeMetadata {
		return Step{Kind: StepDetachDisk}
	}
	return Step{}
}

// awaitsAcknowledgement: this disk left its peer's behind, and the log has not taken notice. If they
// connected before, the peer's disk would be copied by a bitmap that may not name all it lacks (S67).
func (want *ReplicaSpec) awaitsAcknowledgement(h *ObservedReplica) bool {
	noticed := want.Observed.PeerBehind && want.Observed.Generation == want.Generation
	return h.PeerBehind && h.DiskAttached() && !noticed && !want.Outdated && want.Peer != nil && !want.Peer.Incomplete
}

// isDetachedWhole: the disk did not fail, but was detached so that what was suspended fails (S9). A peer that it connected to
// before it is attached again would see a disk that is gone, and take it for one that failed (S67).
func (h *ObservedReplica) isDetachedWhole() bool {
	return h.DetachedHere && !h.DiskAttached() && !h.DiskFailed
}

// nextConnection makes the connection what the log says. It is only ended by force, so that
// the side that is up to date stays so (S8). An outdated replica connects with its own data
// discarded, after a copy of them was kept (S9). One whose blocks may not all be on stable
// storage asks for a full resync.
func nextConnection(want *ReplicaSpec, h *ObservedReplica) Step {
	victim := want.Outdated && h.MayHaveWrites
	switch {
	case !h.InKernel:
	case (!want.Connect || h.Frozen) && h.Connection > connStandAlone:
		return Step{Kind: StepDisconnect}
	case h.Frozen: // it is resumed by a verdict, which is about a peer that is not connected (S45)
	case nextKeepBeforeSync(want, h).Kind != StepNone:
		return nextKeepBeforeSync(want, h)
	case want.Outdated && want.Force && !h.Primary && h.Connection == ConnConnecting:
		return Step{Kind: StepDisconnect} // it may have begun to connect with discard before the decision
	case !want.Connect, !h.ConnectDue, want.awaitsAcknowledgement(h), want.mayBeOverwritten(h), h.isDetachedWhole():
	case h.PeerStateLost():
		return Step{Kind: StepDisconnect}
	case h.Connection == ConnConnecting && victim && !h.Discarding:
		return Step{Kind: StepDisconnect}
	case h.Connection > connStandAlone:
	case want.Outdated && want.Force: // it is to continue with its data, not to discard them
	case want.mustKeep(h) && !plantedbug.Is(plantedbug.DiscardUnkept):
		return Step{Kind: StepKeepVictim}
	case h.resyncDoubtful():
		return Step{Kind: StepInvalidate}
	case want.Outdated != plantedbug.Is(plantedbug.ResyncWrongWay):
		return Step{Kind: StepConnectDiscard}
	default:
		return Step{Kind: StepConnect}
	}
	return Step{}
}

// PeerStateLost reports whether the kernel missed that its peer's disk became up to date, and will not hear of it before
// they connect again: a state that the peer sent before the first generation was made may arrive after
// that. A disk that really is Inconsistent beside an UpToDate one is being synchronised, or has
// blocks that are out of sync.
func (h *ObservedReplica) PeerStateLost() bool {
	return h.Connection == ConnConnected && h.Disk == DiskUpToDate && h.PeerDisk == diskInconsistent && h.OutOfSync == 0 && !h.Primary && !h.Suspended
}

// resyncDoubtful: the disk was the target of an unfinished resynchronisation when it was
// attached. DRBD clears a block's bit when the target wrote it, not when it is on stable
// storage: blocks written shortly before a power loss may be gone, and no host's bitmap has
// them. A connection would copy the rest and call the disk UpToDate. After a connection in
// this attachment nothing is in doubt any more.
func (h *ObservedReplica) resyncDoubtful() bool {
	return h.DiskAttached() && !h.ConnectedInAttachment && !h.Primary && !h.JustCreated && h.Disk == diskInconsistent && h.OutOfSync < max(h.Size, 1)
}

// nextInitialSync makes the first generation, once in the volume's life, when both replicas
// were just created. With a source, its content is then copied to the other replica.
func nextInitialSync(want *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case want.InitialSyncDone || want.Goal != fsm.GoalCreate && !want.Converting || h.Connection != ConnConnected || h.Primary:
	case want.Seed && h.JustCreated && h.Disk == diskInconsistent && h.PeerDisk == diskInconsistent:
		return Step{Kind: StepNewUUID}
	case want.Seed == plantedbug.Is(plantedbug.InvalidateGoodSide) && want.SyncFromSeed && h.BothUpToDate():
		return Step{Kind: StepInvalidate}
	}
	return Step{}
}

// BothUpToDate reports whether both disks are up to date.
func (h *ObservedReplica) BothUpToDate() bool {
	return h.Disk == DiskUpToDate && h.PeerDisk == DiskUpToDate
}

// NextResize grows the replicated device of a primary after the backing devices of all replicas have
// grown: with its peer, or without one when the log says that there is none.
func NextResize(want *ReplicaSpec, h *ObservedReplica) Step {
	togetherOrAlone := h.Connection == ConnConnected && h.BothUpToDate() || want.IsOnly() && h.Connection < ConnConnected && h.Disk == DiskUpToDate
	if h.Primary && togetherOrAlone && h.Size > 0 && h.Size < want.Size && want.BackingCapacity >= want.Size {
		return Step{Kind: StepResize}
	}
	return Step{}
}

// nextPromote is for a publication whose host is not primary yet. The step asks for a grant
// of this boot and session, after the observation (S2).
func nextPromote(want *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case !want.Primary || want.PromotionDone || !want.Published || want.HasTeardown || h.Primary || h.Suspended:
	case want.Outdated && !want.Force:
	case !h.DiskAttached() || !h.AttachmentRecorded || h.Disk <= diskInconsistent && !(want.Reverted && want.Force):
	case h.Connection >= ConnConnected && h.Disk != DiskUpToDate:
	default:
		return Step{Kind: StepSetPrimary}
	}
	return Step{}
}

// nextNoteInSync records that the replica has no write that its peer does not have.
func nextNoteInSync(want *ReplicaSpec, h *ObservedReplica) Step {
	if h.MayHaveWrites && !h.Primary && !want.Outdated && h.Connection == ConnConnected && h.BothUpToDate() {
		return Step{Kind: StepNoteInSync}
	}
	return Step{}
}

// nextVerify compares the replicas periodically, from one of the two hosts.
func nextVerify(want *ReplicaSpec, h *ObservedReplica) Step {
	initiates := h.Primary || h.LowerHostID && h.PeerRole == "Secondary"
	if h.VerifyDue && initiates && want.InitialSyncDone && h.Connection == ConnConnected && h.BothUpToDate() {
		return Step{Kind: StepVerify}
	}
	return Step{}
}
