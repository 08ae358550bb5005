package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// A volume or snapshot that could not be created is removed at once, from feature level 2 on
// (S74). Its name is free, so that the next create begins anew; its capacity stays reserved
// until its hosts reported it removed, and then its record is dropped. Until then whoever
// waits for it finds the reason in the operation.

// asRemoval is the operation as a removal of what could not be created, with the reason. It is
// another attempt, so that a late failure of the create does not count for the removal.
func (o *Operation) asRemoval(reason Reason, why string) *Operation {
	op := o.withKind(OpDelete)
	op.Retries++
	op.Reason, op.LastError = reason, clip(why)
	return op
}

// asFailedCreate is the volume that could not be created, as one that is being removed.
func (v *Volume) asFailedCreate(at Epoch, reason Reason, why string) Volume {
	updated := *v
	updated.Phase, updated.Operation = Deleting{Since: at}, v.Operation.asRemoval(reason, why)
	updated.Condition = Condition{Abnormal: true, Message: clip(why)}
	updated.Import = v.importAtRemoval()
	return updated
}

// CreateFailure is why a volume that is being removed could not be created, with the reason
// that its host gave; nil where somebody deleted the volume.
func (v *Volume) CreateFailure() *Operation {
	if _, deleting := v.Phase.(Deleting); !deleting || !v.Condition.Abnormal || v.Operation == nil || v.Operation.LastError == "" {
		return nil
	}
	return v.Operation
}

// asFailedCreate is the snapshot that could not be taken, as one that is being removed.
func (n Snapshot) asFailedCreate(reason Reason, why string) Snapshot {
	n.Phase, n.Error = SnapshotDeleting, clip(why)
	n.Operation = n.Operation.asRemoval(reason, why)
	return n
}

// CreateFailure is why a snapshot that is being removed could not be taken; nil where somebody
// deleted it.
func (n *Snapshot) CreateFailure() *Operation {
	if n.Phase != SnapshotDeleting || n.Error == "" || n.Operation == nil {
		return nil
	}
	return &Operation{ID: n.Operation.ID, Kind: OpSnapshot, State: OpFailed, Reason: n.Operation.Reason, LastError: n.Error}
}

// CreateFailure is why a group snapshot could not be taken, while its snapshots are being
// removed.
func (g *GroupSnapshot) CreateFailure() *Operation {
	if g.Phase != GroupAborting || g.Operation == nil {
		return nil
	}
	return &Operation{ID: g.Operation.ID, Kind: OpSnapshot, State: OpFailed, Reason: g.Operation.Reason, LastError: g.Error}
}

// isStaleCreateFailure tells whether a failure that names no operation is a late one of the
// create that failed: a removal is not ended by a failure.
func (s *State) isStaleCreateFailure(f *fsmpb.StepFailed, failure *Operation) bool {
	return s.level2() && f.GetFinal() && f.GetOperationId() == 0 && failure != nil
}

// maxRecentFailures is how many creates that failed a state remembers after their removal.
const maxRecentFailures = 128

// recentFailures has the reasons of those creates, for callers that ask once the record is gone.
// It is neither hashed nor dumped, and Apply does not read it: it decides nothing.
type recentFailures struct {
	ring [maxRecentFailures]struct {
		id  string
		why *Operation
	}
	next int
}

func (r *recentFailures) add(id string, why *Operation) {
	if why == nil {
		return
	}
	at := &r.ring[r.next%maxRecentFailures]
	at.id, at.why = id, why
	r.next++
}

// CreateFailure is why a volume, a snapshot or a group of them could not be created, while it
// is being removed and for a while after; nil where no failure is known.
func (s *State) CreateFailure(id string) *Operation {
	if v, ok := s.Volume(VolumeID(id)); ok {
		return v.CreateFailure()
	}
	if n, ok := s.Snapshot(SnapshotID(id)); ok {
		return n.CreateFailure()
	}
	if g, ok := s.GroupSnapshot(GroupSnapshotID(id)); ok {
		return g.CreateFailure()
	}
	for i := range s.recentFailures.ring {
		if s.recentFailures.ring[i].id == id {
			return s.recentFailures.ring[i].why
		}
	}
	return nil
}

// cancelled is the LastError of an operation that an operator cancelled.
const cancelled = "cancelled by an operator"
