package plan

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Steps of replicas.
const (
	StepActivateBacking     StepKind = "open-below"
	StepDeactivateBacking   StepKind = "close-below"
	StepConfigure           StepKind = "configure"
	StepAdjust              StepKind = "adjust"
	StepCreateMetadata      StepKind = "create-metadata"
	StepProposeAttach       StepKind = "propose-attach"
	StepRecommitAttachment  StepKind = "recommit-attachment"
	StepAttachDisk          StepKind = "attach-disk"
	StepDetachDisk          StepKind = "detach-disk"
	StepConnect             StepKind = "connect"
	StepConnectDiscard      StepKind = "connect-discard"
	StepDisconnect          StepKind = "disconnect"
	StepNewUUID             StepKind = "new-uuid"
	StepInvalidate          StepKind = "invalidate"
	StepSetPrimary          StepKind = "set-primary"
	StepResumeIO            StepKind = "resume-io"
	StepTearDownVictim      StepKind = "end-loser"
	StepKeepVictim          StepKind = "keep-loser"
	StepResize              StepKind = "resize"
	StepVerify              StepKind = "verify"
	StepDownResource        StepKind = "down"
	StepRemoveConfig        StepKind = "forget-resource"
	StepNoteInSync          StepKind = "note-in-sync"
	StepForgetReplicaRecord StepKind = "forget-replica"
	StepRemakeMetadata      StepKind = "remake-metadata"
	StepBeginConversion     StepKind = "begin-conversion"
	StepExtendBacking       StepKind = "extend-below"
	StepShrinkBacking       StepKind = "shrink-below"
	StepNoteApart           StepKind = "note-apart"
	StepKeepBeforeSync      StepKind = "keep-before-sync"
	StepRevertBacking       StepKind = "revert-below"
	StepRemakeReverted      StepKind = "remake-reverted"
)

// ReplicaSteps are the kinds of all steps of replicas, but for SiteSteps.
var ReplicaSteps = []StepKind{
	StepActivateBacking, StepDeactivateBacking, StepConfigure, StepAdjust, StepCreateMetadata, StepProposeAttach, StepAttachDisk, StepDetachDisk,
	StepConnect, StepConnectDiscard, StepDisconnect, StepNewUUID, StepInvalidate, StepSetPrimary, StepResumeIO, StepTearDownVictim, StepKeepVictim,
	StepResize, StepVerify, StepDownResource, StepRemoveConfig, StepNoteInSync, StepForgetReplicaRecord, StepRemakeMetadata,
}

// RestoreSteps are the kinds of the steps that only a restored log asks for.
var RestoreSteps = []StepKind{StepRecommitAttachment}

// SiteSteps are the kinds of the steps of replicas that only replication between sites has.
var SiteSteps = []StepKind{
	StepBeginConversion, StepExtendBacking, StepShrinkBacking, StepNoteApart, StepKeepBeforeSync, StepRevertBacking, StepRemakeReverted,
}

const (
	DiskDiskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	DiskFailed       = fsmpb.DiskState_DISK_STATE_FAILED
	diskInconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	DiskUpToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	connStandAlone   = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	ConnConnecting   = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	ConnConnected    = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
)

// ReplicaSpec is the desired state of a replica, read in this session.
type ReplicaSpec struct {
	*fsm.DesiredReplica
	Volume fsm.VolumeID
	Goal   fsm.Goal
	Size   int64 // bytes
	// Published: there is a publication for this host. HasTeardown: a revoked one is to end here.
	Published, HasTeardown bool
	Revoked                bool // what is up here is of the publication that is to end; see IsRevoked
	FromSource             bool // its content was made from a source
	Leaving                bool // it was given up, and is not to be removed now
}

// IsOnly reports whether the log says that this is the volume's only replica, and is to stay: one that
// is added later is made with the volume's size then, and copied completely.
func (want *ReplicaSpec) IsOnly() bool {
	return want.Peer == nil && want.InitialSyncDone && want.Goal == fsm.GoalKeep && !want.Leaving
}

// IsRevoked reports whether what is up of the volume belongs to a publication that was revoked.
// Another publication to this host does not change that: the host is not granted anything under it
// before the former one has ended, and writes that wait since then must not count under it (S9).
func IsRevoked(d *fsm.DesiredVolume, staged *records.StagingRecord) bool {
	return d.Teardown != nil && (staged == nil || staged.Epoch.Compare(d.Teardown.Epoch) <= 0)
}

// ObservedReplica is what was observed of a replica.
type ObservedReplica struct {
	executor.ResourceStatus
	Backing         executor.Device // as the pool reports it
	BackingCapacity int64           // size in bytes of the largest volume that the backing device can hold
	// ConfigCurrent: its file has the desired content. Adjusted: the kernel has taken that over.
	ConfigCurrent, Adjusted bool
	Recorded                bool // the host's record has the replica
	MetadataMade            bool // the record says that the metadata were made
	AttachmentRecorded      bool // the record has the kernel's attachment, made in this boot
	AttachmentForgotten     bool // the log does not have that attachment: it was restored to before it
	ConnectedInAttachment   bool // it connected since it was attached
	AttachmentCommitted     bool // the next attachment is in the log, by a proposal of this session
	DetachedHere            bool // this host ended the last attachment by detaching a disk that had not failed
	// AttachDue and ConnectDue: the backoff of attaching, or of connecting, has passed.
	AttachDue, ConnectDue   bool
	MayHaveWrites, CopyKept bool // as in the record
	// DiskFailed: the kernel detached its disk after an error, and it was not fully resynchronised
	// since (S67). PeerWasUpToDate: then, by this kernel, the peer's disk was up to date.
	// FailureKnown: the log knows it too, and calls no replica needless because of what this disk had.
	DiskFailed, PeerWasUpToDate, FailureKnown bool
	// KeepAnswered: what this desired state asks to be kept before a synchronisation was kept, or the log said why it is
	// not, just now. The next desired state says so, too.
	KeepAnswered bool
	// PeerBehind: its disk went on in a generation that is not the last one that both had (S67).
	PeerBehind bool
	Discarding bool
	// PlainBytes is how large the image was before its conversion began, in bytes, as the record says; 0: it was not
	// converted on this host.
	PlainBytes int64
	// Reverting is the kept copy to which the device is being reverted: it may not be attached. ContentReverted: it has
	// that copy's content, and its metadata. RevertedTo is the one to which it was reverted, with metadata made anew.
	Reverting, RevertedTo fsm.SnapshotID
	ContentReverted       bool
	Mounted               bool // it is mounted somewhere
	// AwaitsImport: the device has the metadata of a resource of others, or is not taken in yet.
	AwaitsImport bool
	LowerHostID  bool // of two secondaries, this one does what only one of them must do
	VerifyDue    bool
}

// Device is the volume as NextVolumeStep sees it: active while it is primary.
func (h *ObservedReplica) Device() executor.Device {
	d := executor.Device{Absent: h.Backing.Absent, Exists: h.Backing.Exists, Unfinished: h.Backing.Unfinished, Size: h.BackingCapacity}
	if h.Primary {
		d.Path, d.Number, d.StablePath = h.Path, h.Number, h.Path
	}
	return d
}

// DiskAttached reports whether the kernel has the disk attached.
func (h *ObservedReplica) DiskAttached() bool {
	return h.InKernel && h.Disk > DiskDiskless
}
