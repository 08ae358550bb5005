package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// GroupSnapshot is snapshots of several volumes at one instant.
type GroupSnapshot struct {
	ID          GroupSnapshotID
	Name        string
	Fingerprint []byte
	Members     []SnapshotID // in order of their sources
	Phase       GroupPhase
	// Attempt numbers the freezes; reports of another attempt do not count.
	Attempt uint32
	TakenAt time.Time // of the first member taken
	Error   string    // why the last attempt was aborted
	// Operation is of freezing and taking, or of the delete; nil when Ready.
	Operation *Operation
	Created   Epoch
	Modified  uint64
	Origin    Site // through which it was made: its name is unique there
}

// GroupPhase is a group snapshot's life.
type GroupPhase uint8

const (
	// GroupFreezing: hosts freeze the members; none is taken.
	GroupFreezing GroupPhase = iota + 1
	// GroupTaking: all were frozen at once; hosts take the snapshots.
	GroupTaking
	// GroupReady: all are taken, under one freeze.
	GroupReady
	// GroupAborting: an attempt was aborted, for Error; the snapshots taken are being
	// removed. When all members are Gone, the next create with the name begins another
	// attempt; from feature level 2 on the record is removed then.
	GroupAborting
	// GroupDeleting: members are being removed.
	GroupDeleting
)

func hashGroup(e *encoder, g *GroupSnapshot) sum256 {
	e.begin(kindGroup)
	e.str(string(g.ID))
	e.str(g.Name)
	e.bytes(g.Fingerprint)
	e.u64(uint64(len(g.Members)))
	for _, id := range g.Members {
		e.str(string(id))
	}
	e.u64(uint64(g.Phase))
	e.u64(uint64(g.Attempt))
	e.i64(nanosOf(g.TakenAt))
	e.str(g.Error)
	hashOperation(e, g.Operation)
	e.epoch(g.Created)
	e.u64(g.Modified)
	hashOrigin(e, g.Origin)
	return e.sum()
}

func groupRecord(g *GroupSnapshot) *fsmpb.GroupRecord {
	r := &fsmpb.GroupRecord{
		GroupId: packedAfter(groupSnapshotPrefix, string(g.ID)), Name: g.Name, Fingerprint: g.Fingerprint, Phase: uint32(g.Phase),
		Attempt: g.Attempt, Cut: nanosOf(g.TakenAt), Error: g.Error, Operation: operationRecord(g.Operation),
		Created: g.Created.Proto(), ModifiedAfter: g.Modified - g.Created.Index,
		Origin: string(g.Origin),
	}
	for _, id := range g.Members {
		r.Members = append(r.Members, packedAfter(snapshotPrefix, string(id)))
	}
	return r
}

func (x *dumpDecoder) group(r *fsmpb.GroupRecord) (err error) {
	g := GroupSnapshot{
		ID: GroupSnapshotID(idFrom(groupSnapshotPrefix, r.GetGroupId(), false, &err)), Name: r.GetName(), Fingerprint: r.GetFingerprint(),
		Phase: GroupPhase(enumFrom(r.GetPhase(), uint32(GroupDeleting), &err)), Attempt: r.GetAttempt(), TakenAt: TimeOf(r.GetCut()), Error: r.GetError(),
		Operation: operationFrom(r.GetOperation(), &err), Created: EpochFrom(r.GetCreated()), Modified: r.GetCreated().GetIndex() + r.GetModifiedAfter(),
		Origin: Site(r.GetOrigin()),
	}
	for _, id := range r.GetMembers() {
		g.Members = append(g.Members, SnapshotID(idFrom(snapshotPrefix, id, false, &err)))
	}
	if err == nil {
		err = x.checkOrder(8, string(g.ID))
	}
	if err == nil {
		err = x.checkGroupUnique(&g)
	}
	if err != nil {
		return err
	}
	x.s.storeGroup(g)
	return nil
}

// checkGroupUnique refuses a group whose place in an index another one has.
func (x *dumpDecoder) checkGroupUnique(g *GroupSnapshot) error {
	if _, twice := x.s.snapshots.index.groupNames.Get(g.liveName()); twice {
		return errOrder
	}
	if g.Operation == nil {
		return nil
	}
	if _, twice := x.s.GroupOperation(g.Operation.ID); twice {
		return errOrder
	}
	return nil
}
