package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// SnapshotID is `hs-` plus a UUID: CSI's snapshot_id.
type SnapshotID string

// GroupSnapshotID is `hgs-` plus a UUID.
type GroupSnapshotID string

// Snapshot is a volume's content at one instant, kept in the pool of its source's replica. It
// outlives its source. A *Snapshot that came out of a State is immutable.
type Snapshot struct {
	ID          SnapshotID
	Name        string
	Fingerprint []byte
	Source      VolumeID
	Group       GroupSnapshotID // empty: none
	// Node, Host and Pool are where it is kept.
	Node NodeID
	Host HostID
	Pool PoolID
	// Size is the source's when the snapshot was taken, in bytes.
	Size int64
	// Format and Capabilities are the source's when the snapshot was taken: a volume made from
	// it has this format and is never formatted (S15).
	Format       Format
	Capabilities []Capability
	// Crypt is the source's when the snapshot was taken; nil: it is in clear.
	Crypt *Crypt
	Phase SnapshotPhase
	// TakenAt is when it was taken; constant from then on.
	TakenAt time.Time
	// Frozen and TakenAt of a group's member are of the group's current attempt; it is
	// Ready when its group is.
	Frozen  bool
	Missing bool // its host reported the file missing
	// Gone: no host keeps anything of it, as it was removed or its host was lost.
	// It reserves nothing then.
	Gone bool
	// Error is why it is Failed.
	Error     string
	Sequence  uint64
	Operation *Operation // of taking or deleting it, with the copy's progress; a member has its group's
	Created   Epoch
	Modified  uint64
	// KeptCopy is set for a kept copy of an outdated replica. Such a snapshot has no name.
	KeptCopy *KeptCopy
	// Origin is the site through which it was made: its name is unique there, and it belongs to it.
	Origin Site
}

// SnapshotPhase is a snapshot's life.
type SnapshotPhase uint8

const (
	// SnapshotTaking: decided; its host has not reported it taken.
	SnapshotTaking SnapshotPhase = iota + 1
	// SnapshotReady: taken, complete, and its group too.
	SnapshotReady
	// SnapshotDeleting: the name is free; the record is the pending removal.
	SnapshotDeleting
	// SnapshotFailed: it could not be taken, its group was aborted, or its host was lost;
	// the next create with the name begins again.
	SnapshotFailed
)

func hashSnapshot(e *encoder, n *Snapshot) sum256 {
	e.begin(kindSnapshot)
	e.str(string(n.ID))
	e.str(n.Name)
	e.bytes(n.Fingerprint)
	e.str(string(n.Source))
	e.str(string(n.Group))
	e.str(string(n.Node))
	e.str(string(n.Host))
	e.str(string(n.Pool))
	e.i64(n.Size)
	hashFormat(e, n.Format)
	e.u64(uint64(len(n.Capabilities)))
	for i := range n.Capabilities {
		hashCapability(e, &n.Capabilities[i])
	}
	e.u64(uint64(n.Phase))
	e.i64(nanosOf(n.TakenAt))
	e.bool(n.Frozen)
	e.bool(n.Missing)
	e.bool(n.Gone)
	e.str(n.Error)
	e.u64(n.Sequence)
	hashOperation(e, n.Operation)
	e.epoch(n.Created)
	e.u64(n.Modified)
	hashKeptCopy(e, n.KeptCopy)
	hashOrigin(e, n.Origin)
	hashCrypt(e, fieldCrypt, n.Crypt)
	return e.sum()
}

func snapshotRecord(n *Snapshot) *fsmpb.SnapshotRecord {
	r := &fsmpb.SnapshotRecord{
		SnapshotId: packedAfter(snapshotPrefix, string(n.ID)), Name: n.Name, Fingerprint: n.Fingerprint,
		Source: packedAfter(volumePrefix, string(n.Source)), Group: packedAfter(groupSnapshotPrefix, string(n.Group)),
		NodeId: string(n.Node), HostId: string(n.Host), PoolId: string(n.Pool), Size: n.Size, Format: n.Format.Proto(),
		Phase: uint32(n.Phase), Cut: nanosOf(n.TakenAt), Frozen: n.Frozen, Missing: n.Missing, Gone: n.Gone, FailedReason: n.Error,
		Sequence: n.Sequence, Operation: operationRecord(n.Operation), Created: n.Created.Proto(), ModifiedAfter: n.Modified - n.Created.Index,
		Kept: n.KeptCopy.record(), Origin: string(n.Origin), Crypt: n.Crypt.Proto(),
	}
	for i := range n.Capabilities {
		c, _ := n.Capabilities[i].Proto() // its flags are what CapabilityFrom made of bytes
		r.Capabilities = append(r.Capabilities, c)
	}
	return r
}

func (x *dumpDecoder) snapshot(r *fsmpb.SnapshotRecord) (err error) {
	n := Snapshot{
		ID: SnapshotID(idFrom(snapshotPrefix, r.GetSnapshotId(), false, &err)), Name: r.GetName(), Fingerprint: r.GetFingerprint(),
		Source: VolumeID(idFrom(volumePrefix, r.GetSource(), false, &err)), Group: GroupSnapshotID(idFrom(groupSnapshotPrefix, r.GetGroup(), true, &err)),
		Node: NodeID(r.GetNodeId()), Host: HostID(r.GetHostId()), Pool: PoolID(r.GetPoolId()), Size: r.GetSize(), Format: FormatFrom(r.GetFormat()),
		Phase: SnapshotPhase(enumFrom(r.GetPhase(), uint32(SnapshotFailed), &err)), TakenAt: TimeOf(r.GetCut()), Frozen: r.GetFrozen(),
		Missing: r.GetMissing(), Gone: r.GetGone(), Error: r.GetFailedReason(), Sequence: r.GetSequence(),
		Operation: operationFrom(r.GetOperation(), &err), Created: EpochFrom(r.GetCreated()), Modified: r.GetCreated().GetIndex() + r.GetModifiedAfter(),
		KeptCopy: keptCopyFrom(r.GetKept()), Origin: Site(r.GetOrigin()), Crypt: CryptFrom(r.GetCrypt()),
	}
	for _, c := range r.GetCapabilities() {
		n.Capabilities = append(n.Capabilities, CapabilityFrom(c))
	}
	if err == nil {
		err = x.checkOrder(7, string(n.ID))
	}
	if err == nil {
		err = x.checkSnapshotUnique(&n)
	}
	if err != nil {
		return err
	}
	x.s.intern.snapshot(&n)
	x.s.storeSnapshot(n)
	return nil
}

// checkSnapshotUnique refuses a snapshot whose place in an index another one has.
func (x *dumpDecoder) checkSnapshotUnique(n *Snapshot) error {
	if _, twice := x.s.snapshots.index.names.Get(n.liveName()); twice {
		return errOrder
	}
	if n.Operation == nil {
		return nil
	}
	if _, twice := x.s.SnapshotOperation(n.Operation.ID); twice {
		return errOrder
	}
	return nil
}

// hashKeptCopy writes at the record's end, and only where there is a kept copy.
func hashKeptCopy(e *encoder, k *KeptCopy) {
	if k == nil {
		return
	}
	e.str(k.Reason)
	e.u64(k.Generation)
	e.u64(k.Attachment)
	e.i64(nanosOf(k.Superseded))
	if k.Partial {
		e.u64(fieldPartialCopy)
	}
	if k.BeforeSync {
		e.u64(fieldBeforeSync)
	}
	if k.Adopted {
		e.u64(fieldAdoptedCopy)
	}
}

func (k *KeptCopy) record() *fsmpb.KeptRecord {
	if k == nil {
		return nil
	}
	return &fsmpb.KeptRecord{Reason: k.Reason, Generation: k.Generation, Attach: k.Attachment, Superseded: nanosOf(k.Superseded), BeforeSync: k.BeforeSync, Partial: k.Partial, Adopted: k.Adopted}
}

func keptCopyFrom(r *fsmpb.KeptRecord) *KeptCopy {
	if r == nil {
		return nil
	}
	return &KeptCopy{Reason: r.GetReason(), Generation: r.GetGeneration(), Attachment: r.GetAttach(), Superseded: TimeOf(r.GetSuperseded()), BeforeSync: r.GetBeforeSync(), Partial: r.GetPartial(), Adopted: r.GetAdopted()}
}
