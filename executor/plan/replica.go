package plan

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// NextReplicaStep picks the one step that brings a replica closer to what the log wants.
// It is pure: every rule about order and safety of replicas is here, and is tested as a
// table. Mounts are ended by next, before or between.
func NextReplicaStep(w *ReplicaSpec, h *ObservedReplica) Step {
	if w.isVictim(h) {
		return nextVictim(h)
	}
	if w.Goal == fsm.GoalRemove {
		return nextRemoveReplica(h)
	}
	if w.Leaving {
		return Step{} // no side of the volume, but perhaps the last that has its content (S71)
	}
	if h.Backing.Absent || !h.Backing.Exists || w.Goal == fsm.GoalKeep && !w.InitialSyncDone {
		return Step{} // made by next, missing (S14), or failed before its birth
	}
	for _, rule := range []func(*ReplicaSpec, *ObservedReplica) Step{nextAttach, nextConnection, nextInitialSync, NextResize, nextPromote, nextNoteInSync, nextVerify} {
		if s := rule(w, h); s.Kind != StepNone {
			return s
		}
	}
	return Step{}
}

// isVictim: its peer went on without it, by the log's word; or its I/O is frozen, and
// nobody may write to it here any more (S9).
func (w *ReplicaSpec) isVictim(h *ObservedReplica) bool {
	revoked := w.Goal == fsm.GoalRemove || w.HasTeardown && !w.Published
	return h.InKernel && (w.Outdated && (h.Primary || h.Suspended) || h.Suspended && revoked)
}

// nextVictim ends in errors what is blocked, none in success (S9): so the disk goes, and
// is gone, before the freeze does.
func nextVictim(h *ObservedReplica) Step {
	switch {
	case h.DiskAttached():
		return Step{Kind: StepDetachDisk}
	case h.Suspended:
		return Step{Kind: StepResumeIO}
	}
	return Step{Kind: StepTearDownVictim}
}

// nextRemoveReplica is said by the log (S14). What is up is taken down by next before. The
// record is there as long as the device below: without it the replica could not be
// attached again, if the log takes back that it was given up (S71).
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

// nextAttach keeps the replica attached, also after a boot and without a publication. The
// log hears of each attachment first (S5).
func nextAttach(w *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case !h.Backing.Active():
		return Step{Kind: StepActivateBacking}
	case w.Peer != nil && !h.ConfigCurrent:
		return Step{Kind: StepConfigure}
	case w.Peer == nil && w.InitialSyncDone && w.Goal == fsm.GoalKeep && !h.HasConfig && !h.InKernel:
		return Step{Kind: StepConfigure} // it was being removed, and is the last one now (S71)
	case !h.HasConfig:
		return Step{} // its peer is not known yet
	case h.InKernel && !h.Adjusted:
		return Step{Kind: StepAdjust}
	case h.DiskAttached() && !h.AttachmentRecorded && !h.Primary && !h.Suspended:
		return Step{Kind: StepDownResource} // nobody counted this attachment (S5)
	case h.DiskAttached():
		return Step{}
	case w.Goal == fsm.GoalCreate && (!h.MetadataMade || !h.InKernel && !h.HasMetadata):
		return Step{Kind: StepCreateMetadata}
	case !h.MetadataMade || !h.InKernel && !h.HasMetadata:
		return refuse(fsm.Precondition, "the metadata of the replica of volume %s are missing", w.Volume)
	case w.Outdated && h.MayHaveWrites && h.InKernel:
		return Step{Kind: StepDownResource}
	case w.Outdated && h.MayHaveWrites && !h.CopyKept:
		return Step{Kind: StepKeepVictim}
	case !h.AttachDue:
		return Step{}
	case h.DiskFailed && !w.Force: // else it goes on as it is
		return nextRemakeMetadata(w, h)
	case !h.AttachmentCommitted:
		return Step{Kind: StepProposeAttach}
	}
	return Step{Kind: StepAttachDisk}
}

// nextRemakeMetadata has a disk that the kernel gave up copied wholly, before anything takes it for what
// it was: neither the bitmaps nor the activity log name what a failing pool lost (S67). What
// may be the only good copy is left, and waits for its peer or for a decision. The log's word
// of a peer is not enough, as that may have burnt since: this kernel sees its disk, or its own
// kernel has it, as its host says now.
func nextRemakeMetadata(w *ReplicaSpec, h *ObservedReplica) Step {
	kernelSeesPeer := h.Connection >= ConnConnected && h.PeerDisk == DiskUpToDate
	peerAttached := w.Peer != nil && !w.Peer.Incomplete && w.Peer.DiskAttached
	if kernelSeesPeer || peerAttached && (w.Peer.UpToDate || h.PeerWasUpToDate) {
		return Step{Kind: StepRemakeMetadata}
	}
	return Step{}
}

// link makes the connection what the log says. It is never ended but by force, so that
// the side that is up to date stays so (S8); a replica that lost connects by giving up
// what it has, after that was kept (S9), and one that doubts what it was given asks for
// all of it.
func nextConnection(w *ReplicaSpec, h *ObservedReplica) Step {
	victim := w.Outdated && h.MayHaveWrites
	switch {
	case !h.InKernel:
	case !w.Connect && h.Connection > connStandAlone:
		return Step{Kind: StepDisconnect}
	case w.Outdated && w.Force && !h.Primary && h.Connection == ConnConnecting:
		return Step{Kind: StepDisconnect} // it may have been told to give up what it has, before the decision
	case !w.Connect, !h.ConnectDue:
	case h.Connection == ConnConnecting && victim && !h.Discarding:
		return Step{Kind: StepDisconnect}
	case h.Connection > connStandAlone:
	case w.Outdated && w.Force: // it is to go on, not to give up what it has
	case victim && !h.CopyKept:
		return Step{Kind: StepKeepVictim}
	case h.resyncDoubtful():
		return Step{Kind: StepInvalidate}
	case w.Outdated:
		return Step{Kind: StepConnectDiscard}
	default:
		return Step{Kind: StepConnect}
	}
	return Step{}
}

// resyncDoubtful: the disk was in the middle of a synchronisation when it was attached. DRBD takes
// a block for synchronised when the target wrote it, not when it is on stable storage: what
// was written in the last moments before a power loss may be gone, and neither host's bitmap
// says so. A connection would copy the rest and call the disk UpToDate. One that connected
// since it was attached has what it took.
func (h *ObservedReplica) resyncDoubtful() bool {
	return h.DiskAttached() && !h.ConnectedInAttachment && !h.Primary && !h.JustCreated && h.Disk == diskInconsistent && h.OutOfSync < max(h.Size, 1)
}

// nextInitialSync makes the first generation, once in the volume's life, where both replicas were
// just made. A source's content is then copied to the other replica.
func nextInitialSync(w *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case w.InitialSyncDone || w.Goal != fsm.GoalCreate || h.Connection != ConnConnected || h.Primary:
	case w.Seed && h.JustCreated && h.Disk == diskInconsistent && h.PeerDisk == diskInconsistent:
		return Step{Kind: StepNewUUID}
	case !w.Seed && w.SyncFromSeed && h.BothUpToDate():
		return Step{Kind: StepInvalidate}
	}
	return Step{}
}

// BothUpToDate: both disks are up to date.
func (h *ObservedReplica) BothUpToDate() bool {
	return h.Disk == DiskUpToDate && h.PeerDisk == DiskUpToDate
}

// NextResize lets the volume grow when the devices below both replicas have.
func NextResize(w *ReplicaSpec, h *ObservedReplica) Step {
	if h.Primary && h.Connection == ConnConnected && h.BothUpToDate() && h.Size > 0 && h.Size < w.Size && w.BackingCapacity >= w.Size {
		return Step{Kind: StepResize}
	}
	return Step{}
}

// promote is for a publication that was not heard to be primary yet. It takes a grant
// of this boot and session, after it was observed (S2): the step asks for it.
func nextPromote(w *ReplicaSpec, h *ObservedReplica) Step {
	switch {
	case !w.Primary || w.PromotionDone || !w.Published || w.HasTeardown || h.Primary || h.Suspended:
	case w.Outdated && !w.Force:
	case !h.DiskAttached() || !h.AttachmentRecorded || h.Disk <= diskInconsistent:
	case h.Connection >= ConnConnected && h.Disk != DiskUpToDate:
	default:
		return Step{Kind: StepSetPrimary}
	}
	return Step{}
}

// nextNoteInSync notes that the replica holds nothing that its peer does not.
func nextNoteInSync(w *ReplicaSpec, h *ObservedReplica) Step {
	if h.MayHaveWrites && !h.Primary && !w.Outdated && h.Connection == ConnConnected && h.BothUpToDate() {
		return Step{Kind: StepNoteInSync}
	}
	return Step{}
}

// nextVerify compares the replicas from time to time, from one of the two sides.
func nextVerify(w *ReplicaSpec, h *ObservedReplica) Step {
	initiates := h.Primary || h.LowerHostID && h.PeerRole == "Secondary"
	if h.VerifyDue && initiates && w.InitialSyncDone && h.Connection == ConnConnected && h.BothUpToDate() {
		return Step{Kind: StepVerify}
	}
	return Step{}
}
