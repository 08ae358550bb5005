package executor

import (
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Of replicas.
const (
	stepOpenBelow      stepKind = "open-below"
	stepCloseBelow     stepKind = "close-below"
	stepConfigure      stepKind = "configure"
	stepAdjust         stepKind = "adjust"
	stepCreateMetadata stepKind = "create-metadata"
	stepAskAttach      stepKind = "propose-attach"
	stepAttachDisk     stepKind = "attach-disk"
	stepDetachDisk     stepKind = "detach-disk"
	stepConnect        stepKind = "connect"
	stepDiscard        stepKind = "connect-discard"
	stepDisconnect     stepKind = "disconnect"
	stepNewUUID        stepKind = "new-uuid"
	stepInvalidate     stepKind = "invalidate"
	stepSetPrimary     stepKind = "set-primary"
	stepResumeIO       stepKind = "resume-io"
	stepEndLoser       stepKind = "end-loser"
	stepKeepLoser      stepKind = "keep-loser"
	stepResize         stepKind = "resize"
	stepVerify         stepKind = "verify"
	stepDownReplica    stepKind = "down"
	stepForgetReplica  stepKind = "forget-resource"
	stepInSync         stepKind = "note-in-sync"
	stepForgetRecord   stepKind = "forget-replica"
	stepRemakeMetadata stepKind = "remake-metadata"
)

var replicaSteps = []stepKind{
	stepOpenBelow, stepCloseBelow, stepConfigure, stepAdjust, stepCreateMetadata, stepAskAttach, stepAttachDisk, stepDetachDisk,
	stepConnect, stepDiscard, stepDisconnect, stepNewUUID, stepInvalidate, stepSetPrimary, stepResumeIO, stepEndLoser, stepKeepLoser,
	stepResize, stepVerify, stepDownReplica, stepForgetReplica, stepInSync, stepForgetRecord, stepRemakeMetadata,
}

const (
	diskDiskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	diskFailed       = fsmpb.DiskState_DISK_STATE_FAILED
	diskInconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	diskUpToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	linkStandAlone   = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	linkConnecting   = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	linkConnected    = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
)

// replicaWanted is what the log wants of a replica, read in this session.
type replicaWanted struct {
	*fsm.DesiredReplica
	volume fsm.VolumeID
	verb   fsm.Goal
	size   int64 // bytes
	// published: there is a publication for this host; owes: it is to end a revoked one.
	published, owes bool
	copied          bool // its content was made from a source
	leaving         bool // it was given up, and is not to be removed now
}

// replicaHave is what was observed of a replica.
type replicaHave struct {
	Mirror
	below Device // of the pool
	room  int64  // bytes of volume for which the device below has room
	// configured: its file says what the wish does; adjusted: and the kernel knows.
	configured, adjusted bool
	recorded             bool // the host's record knows the replica
	made                 bool // the record says that the metadata were made
	own                  bool // the record counts the kernel's attachment, in this boot
	linked               bool // it connected since it was attached
	mayAttach            bool // the log heard of the next attachment, in this session
	// mayTry and mayLink: it is not too soon to attach, or to connect, again.
	mayTry, mayLink bool
	wrote, kept     bool // as in the record
	// failed: the kernel gave its disk up, and it was not copied wholly since (S67);
	// peerWhole: its peer was whole then, by this kernel's word.
	failed, peerWhole bool
	discarding        bool
	busy              bool // it is mounted somewhere
	first             bool // of two secondaries, this one does what one of them must
	verifyDue         bool
}

// nextReplica picks the one step that brings a replica closer to what the log wants.
// It is pure: every rule about order and safety of replicas is here, and is tested as a
// table. Mounts are ended by next, before or between.
func nextReplica(w *replicaWanted, h *replicaHave) step {
	if w.mustLose(h) {
		return loseReplica(h)
	}
	if w.verb == fsm.GoalRemove {
		return removeReplica(h)
	}
	if w.leaving {
		return step{} // no side of the volume, but perhaps the last that has its content (S71)
	}
	if h.below.Absent || !h.below.Exists || w.verb == fsm.GoalKeep && !w.InitialSyncDone {
		return step{} // made by next, missing (S14), or failed before its birth
	}
	for _, rule := range []func(*replicaWanted, *replicaHave) step{bringIn, link, bear, resize, promote, inSync, verify} {
		if s := rule(w, h); s.kind != stepNone {
			return s
		}
	}
	return step{}
}

// mustLose: its peer went on without it, by the log's word; or its I/O is frozen, and
// nobody may write to it here any more (S9).
func (w *replicaWanted) mustLose(h *replicaHave) bool {
	over := w.verb == fsm.GoalRemove || w.owes && !w.published
	return h.InKernel && (w.Outdated && (h.Primary || h.Suspended) || h.Suspended && over)
}

// loseReplica ends in errors what is blocked, none in success (S9): so the disk goes, and
// is gone, before the freeze does.
func loseReplica(h *replicaHave) step {
	switch {
	case h.attached():
		return step{kind: stepDetachDisk}
	case h.Suspended:
		return step{kind: stepResumeIO}
	}
	return step{kind: stepEndLoser}
}

// removeReplica is said by the log (S14). What is up is taken down by next before. The
// record is there as long as the device below: without it the replica could not be
// attached again, if the log takes back that it was given up (S71).
func removeReplica(h *replicaHave) step {
	switch {
	case h.busy || h.Primary:
	case h.InKernel:
		return step{kind: stepDownReplica}
	case h.Configured:
		return step{kind: stepForgetReplica}
	case h.below.Attached():
		return step{kind: stepCloseBelow}
	case h.recorded && !h.below.Absent && !h.below.Exists && !h.below.Unfinished:
		return step{kind: stepForgetRecord}
	}
	return step{}
}

// bringIn keeps the replica attached, also after a boot and without a publication. The
// log hears of each attachment first (S5).
func bringIn(w *replicaWanted, h *replicaHave) step {
	switch {
	case !h.below.Attached():
		return step{kind: stepOpenBelow}
	case w.Peer != nil && !h.configured:
		return step{kind: stepConfigure}
	case w.Peer == nil && w.InitialSyncDone && w.verb == fsm.GoalKeep && !h.Configured && !h.InKernel:
		return step{kind: stepConfigure} // it was being removed, and is the last one now (S71)
	case !h.Configured:
		return step{} // its peer is not known yet
	case h.InKernel && !h.adjusted:
		return step{kind: stepAdjust}
	case h.attached() && !h.own && !h.Primary && !h.Suspended:
		return step{kind: stepDownReplica} // nobody counted this attachment (S5)
	case h.attached():
		return step{}
	case w.verb == fsm.GoalCreate && (!h.made || !h.InKernel && !h.Metadata):
		return step{kind: stepCreateMetadata}
	case !h.made || !h.InKernel && !h.Metadata:
		return refuse(fsm.Precondition, "the metadata of the replica of volume %s are missing", w.volume)
	case w.Outdated && h.wrote && h.InKernel:
		return step{kind: stepDownReplica}
	case w.Outdated && h.wrote && !h.kept:
		return step{kind: stepKeepLoser}
	case !h.mayTry:
		return step{}
	case h.failed && !w.Force: // else it goes on as it is
		return mend(w, h)
	case !h.mayAttach:
		return step{kind: stepAskAttach}
	}
	return step{kind: stepAttachDisk}
}

// mend has a disk that the kernel gave up copied wholly, before anything takes it for what
// it was: neither the bitmaps nor the activity log name what a failing pool lost (S67). What
// may be the only good copy is left, and waits for its peer or for a decision. The log's word
// of a peer is not enough, as that may have burnt since: this kernel sees its disk, or its own
// kernel has it, as its host says now.
func mend(w *replicaWanted, h *replicaHave) step {
	behind := h.Connection >= linkConnected && h.PeerDisk == diskUpToDate
	there := w.Peer != nil && !w.Peer.Incomplete && w.Peer.DiskAttached
	if behind || there && (w.Peer.UpToDate || h.peerWhole) {
		return step{kind: stepRemakeMetadata}
	}
	return step{}
}

// link makes the connection what the log says. It is never ended but by force, so that
// the side that is up to date stays so (S8); a replica that lost connects by giving up
// what it has, after that was kept (S9), and one that doubts what it was given asks for
// all of it.
func link(w *replicaWanted, h *replicaHave) step {
	lost := w.Outdated && h.wrote
	switch {
	case !h.InKernel:
	case !w.Connect && h.Connection > linkStandAlone:
		return step{kind: stepDisconnect}
	case w.Outdated && w.Force && !h.Primary && h.Connection == linkConnecting:
		return step{kind: stepDisconnect} // it may have been told to give up what it has, before the decision
	case !w.Connect, !h.mayLink:
	case h.Connection == linkConnecting && lost && !h.discarding:
		return step{kind: stepDisconnect}
	case h.Connection > linkStandAlone:
	case w.Outdated && w.Force: // it is to go on, not to give up what it has
	case lost && !h.kept:
		return step{kind: stepKeepLoser}
	case h.doubtful():
		return step{kind: stepInvalidate}
	case w.Outdated:
		return step{kind: stepDiscard}
	default:
		return step{kind: stepConnect}
	}
	return step{}
}

// doubtful: the disk was in the middle of a synchronisation when it was attached. DRBD takes
// a block for synchronised when the target wrote it, not when it is on stable storage: what
// was written in the last moments before a power loss may be gone, and neither host's bitmap
// says so. A connection would copy the rest and call the disk UpToDate. One that connected
// since it was attached has what it took.
func (h *replicaHave) doubtful() bool {
	return h.attached() && !h.linked && !h.Primary && !h.Fresh && h.Disk == diskInconsistent && h.OutOfSync < max(h.Size, 1)
}

// bear makes the first generation, once in the volume's life, where both replicas were
// just made. A source's content is then copied to the other replica.
func bear(w *replicaWanted, h *replicaHave) step {
	switch {
	case w.InitialSyncDone || w.verb != fsm.GoalCreate || h.Connection != linkConnected || h.Primary:
	case w.Seed && h.Fresh && h.Disk == diskInconsistent && h.PeerDisk == diskInconsistent:
		return step{kind: stepNewUUID}
	case !w.Seed && w.SyncFromSeed && h.whole():
		return step{kind: stepInvalidate}
	}
	return step{}
}

// whole: both disks are up to date.
func (h *replicaHave) whole() bool {
	return h.Disk == diskUpToDate && h.PeerDisk == diskUpToDate
}

// resize lets the volume grow when the devices below both replicas have.
func resize(w *replicaWanted, h *replicaHave) step {
	if h.Primary && h.Connection == linkConnected && h.whole() && h.Size > 0 && h.Size < w.size && w.BackingCapacity >= w.size {
		return step{kind: stepResize}
	}
	return step{}
}

// promote is for a publication that was not heard to be primary yet. It takes a grant
// of this boot and session, after it was observed (S2): the step asks for it.
func promote(w *replicaWanted, h *replicaHave) step {
	switch {
	case !w.Primary || w.PromotionDone || !w.published || w.owes || h.Primary || h.Suspended:
	case w.Outdated && !w.Force:
	case !h.attached() || !h.own || h.Disk <= diskInconsistent:
	case h.Connection >= linkConnected && h.Disk != diskUpToDate:
	default:
		return step{kind: stepSetPrimary}
	}
	return step{}
}

// inSync notes that the replica holds nothing that its peer does not.
func inSync(w *replicaWanted, h *replicaHave) step {
	if h.wrote && !h.Primary && !w.Outdated && h.Connection == linkConnected && h.whole() {
		return step{kind: stepInSync}
	}
	return step{}
}

// verify compares the replicas from time to time, from one of the two sides.
func verify(w *replicaWanted, h *replicaHave) step {
	leads := h.Primary || h.first && h.PeerRole == "Secondary"
	if h.verifyDue && leads && w.InitialSyncDone && h.Connection == linkConnected && h.whole() {
		return step{kind: stepVerify}
	}
	return step{}
}
