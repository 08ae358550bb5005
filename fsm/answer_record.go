package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// answer is the outcome that a command got when it was applied (S4).
type answer struct {
	key     answerKey
	index   uint64 // where it was applied
	outcome *fsmpb.Outcome
	// textUnhashed: the rejection's text is for people and not in the hash, so that
	// two builds may word it differently. It is from level 2 on.
	textUnhashed bool
	hash         sum256
}

// answerKey is a request id, scoped to whoever made it.
type answerKey struct {
	request [RequestIDLen]byte
	actor   string
}

func hashAnswer(e *encoder, a *answer) sum256 {
	e.begin(kindAnswer)
	e.b = append(e.b, a.key.request[:]...)
	e.str(a.key.actor)
	e.u64(a.index)
	hashOutcome(e, a.outcome, a.textUnhashed)
	return e.sum()
}

func hashOutcome(e *encoder, o *fsmpb.Outcome, textUnhashed bool) {
	e.u64(o.GetIndex())
	e.u64(uint64(o.GetRejection().GetReason()))
	if !textUnhashed {
		e.str(o.GetRejection().GetMessage())
	}
	e.str(o.GetVolumeId())
	e.epoch(EpochFrom(o.GetEpoch()))
	hashGrant(e, o.GetGrant())
	e.u64(o.GetOperationId())
	e.str(o.GetSnapshotId())
	e.str(o.GetGroupSnapshotId())
	hashVerdict(e, o)
	for _, number := range o.GetOvertaken() {
		e.u64(uint64(number))
	}
	if id := o.GetVolumeGroupId(); id != "" {
		e.str(id)
	}
	hashKeyRotated(e, o.GetKeyRotated())
	for _, g := range o.GetGivenUp() {
		e.u64(fieldGivenUp)
		e.str(g.GetVolumeId())
		e.u64(g.GetGeneration())
		e.i64(g.GetSinceUnixNano())
		e.str(g.GetRevertedTo())
	}
	hashRoleMoved(e, o.GetRoleMoved())
}

func hashRoleMoved(e *encoder, moved []*fsmpb.RoleMoved) {
	for _, r := range moved {
		e.u64(fieldRoleMoved)
		e.str(r.GetVolumeId())
		e.str(r.GetVolumeGroupId())
		e.str(r.GetSite())
		e.str(r.GetFrom())
	}
}

func hashGrant(e *encoder, g *fsmpb.Grant) {
	e.bool(g != nil)
	if g == nil {
		return
	}
	e.epoch(EpochFrom(g.GetEpoch()))
	e.bool(g.GetReadOnly())
	hashFormat(e, FormatFrom(g.GetFormat()))
	hashCrypt(e, fieldCrypt, CryptFrom(g.GetCrypt()))
	if g.GetRestoreHeader() {
		e.u64(fieldHeaderRestore)
	}
}

func hashVerdict(e *encoder, o *fsmpb.Outcome) {
	if o.GetVerdict() == 0 && o.GetGeneration() == 0 && !o.GetForce() {
		return
	}
	e.u64(uint64(o.GetVerdict()))
	e.u64(o.GetGeneration())
	e.bool(o.GetForce())
}

func (d *dictionary) answer(r *fsmpb.AnswerRecord, a *answer) {
	o := a.outcome
	r.RequestId, r.ActorRef, r.Index = append(r.RequestId[:0], a.key.request[:]...), d.ref(a.key.actor), a.index
	r.Rejection, r.Epoch, r.Grant, r.OperationId = o.Rejection, o.Epoch, o.Grant, o.OperationId
	r.SnapshotId, r.GroupSnapshotId = o.SnapshotId, o.GroupSnapshotId
	r.Verdict, r.Generation, r.Force = o.Verdict, o.Generation, o.Force
	r.VolumeGroupId, r.KeyRotated, r.GivenUp, r.RoleMoved = o.VolumeGroupId, o.KeyRotated, o.GivenUp, o.RoleMoved
	r.TextUnhashed, r.Overtaken = a.textUnhashed, o.Overtaken
	r.VolumeId = r.VolumeId[:0]
	if id, ok := VolumeID(o.VolumeId).uuid(); ok {
		packed := id.packed()
		r.VolumeId = append(r.VolumeId, packed[:]...)
	}
}

func (x *dumpDecoder) answer(r *fsmpb.AnswerRecord) (err error) {
	if len(r.GetRequestId()) != RequestIDLen {
		return errForm
	}
	if x.kind == 6 && r.GetIndex() <= x.lastIndex {
		return errOrder
	}
	x.lastIndex = r.GetIndex()
	key := answerKey{request: [RequestIDLen]byte(r.GetRequestId()), actor: x.textAt(r.GetActorRef(), &err)}
	if _, twice := x.s.lookups.answers[key]; twice {
		return errOrder
	}
	o := &fsmpb.Outcome{
		Index: r.GetIndex(), Rejection: r.GetRejection(), Epoch: r.GetEpoch(), Grant: r.GetGrant(), OperationId: r.GetOperationId(),
		SnapshotId: r.GetSnapshotId(), GroupSnapshotId: r.GetGroupSnapshotId(),
		Verdict: r.GetVerdict(), Generation: r.GetGeneration(), Force: r.GetForce(), Overtaken: r.GetOvertaken(),
		VolumeGroupId: r.GetVolumeGroupId(), KeyRotated: r.GetKeyRotated(), GivenUp: r.GetGivenUp(), RoleMoved: r.GetRoleMoved(),
	}
	if len(r.GetVolumeId()) != 0 {
		o.VolumeId = string(volumeIDFrom(r.GetVolumeId(), &err))
	}
	x.s.putAnswer(&answer{key: key, index: r.GetIndex(), outcome: o, textUnhashed: r.GetTextUnhashed()})
	return err
}
