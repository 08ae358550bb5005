package executor

import (
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Of replicas.
const (
	stepActivateBacking     stepKind = "open-below"
	stepDeactivateBacking   stepKind = "close-below"
	stepConfigure           stepKind = "configure"
	stepAdjust              stepKind = "adjust"
	stepCreateMetadata      stepKind = "create-metadata"
	stepProposeAttach       stepKind = "propose-attach"
	stepAttachDisk          stepKind = "attach-disk"
	stepDetachDisk          stepKind = "detach-disk"
	stepConnect             stepKind = "connect"
	stepConnectDiscard      stepKind = "connect-discard"
	stepDisconnect          stepKind = "disconnect"
	stepNewUUID             stepKind = "new-uuid"
	stepInvalidate          stepKind = "invalidate"
	stepSetPrimary          stepKind = "set-primary"
	stepResumeIO            stepKind = "resume-io"
	stepTearDownVictim      stepKind = "end-loser"
	stepKeepVictim          stepKind = "keep-loser"
	stepResize              stepKind = "resize"
	stepVerify              stepKind = "verify"
	stepDownResource        stepKind = "down"
	stepRemoveConfig        stepKind = "forget-resource"
	stepNoteInSync          stepKind = "note-in-sync"
	stepForgetReplicaRecord stepKind = "forget-replica"
	stepRemakeMetadata      stepKind = "remake-metadata"
)

var replicaSteps = []stepKind{
	stepActivateBacking, stepDeactivateBacking, stepConfigure, stepAdjust, stepCreateMetadata, stepProposeAttach, stepAttachDisk, stepDetachDisk,
	stepConnect, stepConnectDiscard, stepDisconnect, stepNewUUID, stepInvalidate, stepSetPrimary, stepResumeIO, stepTearDownVictim, stepKeepVictim,
	stepResize, stepVerify, stepDownResource, stepRemoveConfig, stepNoteInSync, stepForgetReplicaRecord, stepRemakeMetadata,
}

const (
	diskDiskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	diskFailed       = fsmpb.DiskState_DISK_STATE_FAILED
	diskInconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	diskUpToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	connStandAlone   = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	connConnecting   = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	connConnected    = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
)

// replicaSpec is what the log wants of a replica, read in this session.
type replicaSpec struct {
	*fsm.DesiredReplica
	volume fsm.VolumeID
	goal   fsm.Goal
	size   int64 // bytes
	// published: there is a publication for this host; owes: it is to end a revoked one.
	published, hasTeardown bool
	fromSource             bool // its content was made from a source
	leaving                bool // it was given up, and is not to be removed now
}

// observedReplica is what was observed of a replica.
type observedReplica struct {
	ResourceStatus
	backing         Device // isOfAttempt the pool
	backingCapacity int64  // bytes of volume for which the device below has room
	// configured: its file says what the wish does; adjusted: and the kernel knows.
	configCurrent, adjusted bool
	recorded                bool // the host's record knows the replica
	metadataMade            bool // the record says that the metadata were made
	attachmentRecorded      bool // the record counts the kernel's attachment, in this boot
	connectedInAttachment   bool // it connected since it was attached
	attachmentCommitted     bool // the log heard of the next attachment, in this session
	// attachDue and connectDue: it is not too soon to attach, or to connect, again.
	attachDue, connectDue   bool
	mayHaveWrites, copyKept bool // as in the record
	// failed: the kernel gave its disk up, and it was not copied wholly since (S67);
	// peerWasUpToDate: its peer was whole then, by this kernel's word.
	diskFailed, peerWasUpToDate bool
	discarding                  bool
	mounted                     bool // it is mounted somewhere
	lowerHostID                 bool // of two secondaries, this one does what one of them must
	verifyDue                   bool
}

// nextReplicaStep picks the one step that brings a replica closer to what the log wants.
// It is pure: every rule about order and safety of replicas is here, and is tested as a
// table. Mounts are ended by next, before or between.
func nextReplicaStep(w *replicaSpec, h *observedReplica) step {
	if w.isVictim(h) {
		return nextVictim(h)
	}
	if w.goal == fsm.GoalRemove {
		return nextRemoveReplica(h)
	}
	if w.leaving {
		return step{} // no side of the volume, but perhaps the last that has its content (S71)
	}
	if h.backing.Absent || !h.backing.Exists || w.goal == fsm.GoalKeep && !w.InitialSyncDone {
		return step{} // made by next, missing (S14), or failed before its birth
	}
	for _, rule := range []func(*replicaSpec, *observedReplica) step{nextAttach, nextConnection, nextInitialSync, nextResize, nextPromote, nextNoteInSync, nextVerify} {
		if s := rule(w, h); s.kind != stepNone {
			return s
		}
	}
	return step{}
}

// isVictim: its peer went on without it, by the log's word; or its I/O is frozen, and
// nobody may write to it here any more (S9).
func (w *replicaSpec) isVictim(h *observedReplica) bool {
	revoked := w.goal == fsm.GoalRemove || w.hasTeardown && !w.published
	return h.InKernel && (w.Outdated && (h.Primary || h.Suspended) || h.Suspended && revoked)
}

// nextVictim ends in errors what is blocked, none in success (S9): so the disk goes, and
// is gone, before the freeze does.
func nextVictim(h *observedReplica) step {
	switch {
	case h.diskAttached():
		return step{kind: stepDetachDisk}
	case h.Suspended:
		return step{kind: stepResumeIO}
	}
	return step{kind: stepTearDownVictim}
}

// nextRemoveReplica is said by the log (S14). What is up is taken down by next before. The
// record is there as long as the device below: without it the replica could not be
// attached again, if the log takes back that it was given up (S71).
func nextRemoveReplica(h *observedReplica) step {
	switch {
	case h.mounted || h.Primary:
	case h.InKernel:
		return step{kind: stepDownResource}
	case h.HasConfig:
		return step{kind: stepRemoveConfig}
	case h.backing.Active():
		return step{kind: stepDeactivateBacking}
	case h.recorded && !h.backing.Absent && !h.backing.Exists && !h.backing.Unfinished:
		return step{kind: stepForgetReplicaRecord}
	}
	return step{}
}

// nextAttach keeps the replica attached, also after a boot and without a publication. The
// log hears of each attachment first (S5).
func nextAttach(w *replicaSpec, h *observedReplica) step {
	switch {
	case !h.backing.Active():
		return step{kind: stepActivateBacking}
	case w.Peer != nil && !h.configCurrent:
		return step{kind: stepConfigure}
	case w.Peer == nil && w.InitialSyncDone && w.goal == fsm.GoalKeep && !h.HasConfig && !h.InKernel:
		return step{kind: stepConfigure} // it was being removed, and is the last one now (S71)
	case !h.HasConfig:
		return step{} // its peer is not known yet
	case h.InKernel && !h.adjusted:
		return step{kind: stepAdjust}
	case h.diskAttached() && !h.attachmentRecorded && !h.Primary && !h.Suspended:
		return step{kind: stepDownResource} // nobody counted this attachment (S5)
	case h.diskAttached():
		return step{}
	case w.goal == fsm.GoalCreate && (!h.metadataMade || !h.InKernel && !h.HasMetadata):
		return step{kind: stepCreateMetadata}
	case !h.metadataMade || !h.InKernel && !h.HasMetadata:
		return refuse(fsm.Precondition, "the metadata of the replica of volume %s are missing", w.volume)
	case w.Outdated && h.mayHaveWrites && h.InKernel:
		return step{kind: stepDownResource}
	case w.Outdated && h.mayHaveWrites && !h.copyKept:
		return step{kind: stepKeepVictim}
	case !h.attachDue:
		return step{}
	case h.diskFailed && !w.Force: // else it goes on as it is
		return nextRemakeMetadata(w, h)
	case !h.attachmentCommitted:
		return step{kind: stepProposeAttach}
	}
	return step{kind: stepAttachDisk}
}

// nextRemakeMetadata has a disk that the kernel gave up copied wholly, before anything takes it for what
// it was: neither the bitmaps nor the activity log name what a failing pool lost (S67). What
// may be the only good copy is left, and waits for its peer or for a decision. The log's word
// of a peer is not enough, as that may have burnt since: this kernel sees its disk, or its own
// kernel has it, as its host says now.
func nextRemakeMetadata(w *replicaSpec, h *observedReplica) step {
	kernelSeesPeer := h.Connection >= connConnected && h.PeerDisk == diskUpToDate
	peerAttached := w.Peer != nil && !w.Peer.Incomplete && w.Peer.DiskAttached
	if kernelSeesPeer || peerAttached && (w.Peer.UpToDate || h.peerWasUpToDate) {
		return step{kind: stepRemakeMetadata}
	}
	return step{}
}

// link makes the connection what the log says. It is never ended but by force, so that
// the side that is up to date stays so (S8); a replica that lost connects by giving up
// what it has, after that was kept (S9), and one that doubts what it was given asks for
// all of it.
func nextConnection(w *replicaSpec, h *observedReplica) step {
	victim := w.Outdated && h.mayHaveWrites
	switch {
	case !h.InKernel:
	case !w.Connect && h.Connection > connStandAlone:
		return step{kind: stepDisconnect}
	case w.Outdated && w.Force && !h.Primary && h.Connection == connConnecting:
		return step{kind: stepDisconnect} // it may have been told to give up what it has, before the decision
	case !w.Connect, !h.connectDue:
	case h.Connection == connConnecting && victim && !h.discarding:
		return step{kind: stepDisconnect}
	case h.Connection > connStandAlone:
	case w.Outdated && w.Force: // it is to go on, not to give up what it has
	case victim && !h.copyKept:
		return step{kind: stepKeepVictim}
	case h.resyncDoubtful():
		return step{kind: stepInvalidate}
	case w.Outdated:
		return step{kind: stepConnectDiscard}
	default:
		return step{kind: stepConnect}
	}
	return step{}
}

// resyncDoubtful: the disk was in the middle of a synchronisation when it was attached. DRBD takes
// a block for synchronised when the target wrote it, not when it is on stable storage: what
// was written in the last moments before a power loss may be gone, and neither host's bitmap
// says so. A connection would copy the rest and call the disk UpToDate. One that connected
// since it was attached has what it took.
func (h *observedReplica) resyncDoubtful() bool {
	return h.diskAttached() && !h.connectedInAttachment && !h.Primary && !h.JustCreated && h.Disk == diskInconsistent && h.OutOfSync < max(h.Size, 1)
}

// nextInitialSync makes the first generation, once in the volume's life, where both replicas were
// just made. A source's content is then copied to the other replica.
func nextInitialSync(w *replicaSpec, h *observedReplica) step {
	switch {
	case w.InitialSyncDone || w.goal != fsm.GoalCreate || h.Connection != connConnected || h.Primary:
	case w.Seed && h.JustCreated && h.Disk == diskInconsistent && h.PeerDisk == diskInconsistent:
		return step{kind: stepNewUUID}
	case !w.Seed && w.SyncFromSeed && h.bothUpToDate():
		return step{kind: stepInvalidate}
	}
	return step{}
}

// bothUpToDate: both disks are up to date.
func (h *observedReplica) bothUpToDate() bool {
	return h.Disk == diskUpToDate && h.PeerDisk == diskUpToDate
}

// nextResize lets the volume grow when the devices below both replicas have.
func nextResize(w *replicaSpec, h *observedReplica) step {
	if h.Primary && h.Connection == connConnected && h.bothUpToDate() && h.Size > 0 && h.Size < w.size && w.BackingCapacity >= w.size {
		return step{kind: stepResize}
	}
	return step{}
}

// promote is for a publication that was not heard to be primary yet. It takes a grant
// of this boot and session, after it was observed (S2): the step asks for it.
func nextPromote(w *replicaSpec, h *observedReplica) step {
	switch {
	case !w.Primary || w.PromotionDone || !w.published || w.hasTeardown || h.Primary || h.Suspended:
	case w.Outdated && !w.Force:
	case !h.diskAttached() || !h.attachmentRecorded || h.Disk <= diskInconsistent:
	case h.Connection >= connConnected && h.Disk != diskUpToDate:
	default:
		return step{kind: stepSetPrimary}
	}
	return step{}
}

// nextNoteInSync notes that the replica holds nothing that its peer does not.
func nextNoteInSync(w *replicaSpec, h *observedReplica) step {
	if h.mayHaveWrites && !h.Primary && !w.Outdated && h.Connection == connConnected && h.bothUpToDate() {
		return step{kind: stepNoteInSync}
	}
	return step{}
}

// nextVerify compares the replicas from time to time, from one of the two sides.
func nextVerify(w *replicaSpec, h *observedReplica) step {
	initiates := h.Primary || h.lowerHostID && h.PeerRole == "Secondary"
	if h.verifyDue && initiates && w.InitialSyncDone && h.Connection == connConnected && h.bothUpToDate() {
		return step{kind: stepVerify}
	}
	return step{}
}
