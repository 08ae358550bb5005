package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// What cannot be made is cleaned up at once, from feature level 2 on (S74): it turns into
// the obligation to remove what was made of it. Its name is free, so that the next call
// starts afresh; it keeps its room until its hosts reported it gone, and then there is no
// record of it. Who waits for it finds the reason in the operation until then.

// asRemoval is the operation as one that removes what could not be made, with why.
// It is another attempt, so that what is said late of the making is not the removal's.
func (o *Operation) asRemoval(reason Reason, why string) *Operation {
	op := o.withKind(OpDelete)
	op.Retries++
	op.Reason, op.LastError = reason, clip(why)
	return op
}

// isRemoved is the volume that could not be made, as an obligation.
func (v *Volume) asFailedCreate(at Epoch, reason Reason, why string) Volume {
	updated := *v
	updated.Phase, updated.Operation = Deleting{Since: at}, v.Operation.asRemoval(reason, why)
	updated.Condition = Condition{Abnormal: true, Message: clip(why)}
	return updated
}

// CreateFailure is why a volume that is being removed could not be made: the operation says it,
// with the reason that its host gave. Nil where somebody deleted the volume.
func (v *Volume) CreateFailure() *Operation {
	if _, deleting := v.Phase.(Deleting); !deleting || !v.Condition.Abnormal || v.Operation == nil || v.Operation.LastError == "" {
		return nil
	}
	return v.Operation
}

// isRemoved is the snapshot that could not be cut, as an obligation.
func (n Snapshot) asFailedCreate(reason Reason, why string) Snapshot {
	n.Phase, n.Error = SnapshotDeleting, clip(why)
	n.Operation = n.Operation.asRemoval(reason, why)
	return n
}

// CreateFailure is why a snapshot that is being removed could not be cut; nil where somebody
// deleted it.
func (n *Snapshot) CreateFailure() *Operation {
	if n.Phase != SnapshotDeleting || n.Error == "" || n.Operation == nil {
		return nil
	}
	return &Operation{ID: n.Operation.ID, Kind: OpSnapshot, State: OpFailed, Reason: n.Operation.Reason, LastError: n.Error}
}

// CreateFailure is why a group snapshot could not be cut, while what was cut is being removed.
func (g *GroupSnapshot) CreateFailure() *Operation {
	if g.Phase != GroupAborting || g.Operation == nil {
		return nil
	}
	return &Operation{ID: g.Operation.ID, Kind: OpSnapshot, State: OpFailed, Reason: g.Operation.Reason, LastError: g.Error}
}

// isStaleCreateFailure tells whether a failure that names no operation is of the making that was given
// up, and came late: no host ends a removal by a failure.
func (s *State) isStaleCreateFailure(f *fsmpb.StepFailed, failure *Operation) bool {
	return s.level2() && f.GetFinal() && f.GetOperationId() == 0 && failure != nil
}

// maxRecentFailures is how many of what was given up and is gone a state remembers why.
const maxRecentFailures = 128

// recentFailures says why, for those who wait for it and look too late. It is neither
// hashed nor written to snapshots, and Apply does not read it: it decides nothing.
type recentFailures struct {
	ring [maxRecentFailures]struct {
		id  string
		why *Operation
	}
	next int
}

func (g *recentFailures) add(id string, why *Operation) {
	if why == nil {
		return
	}
	at := &g.ring[g.next%maxRecentFailures]
	at.id, at.why = id, why
	g.next++
}

// CreateFailure is why a volume, a snapshot or a group of them could not be made, as long as it is being
// removed and for a while after; nil where nothing is known of a failure.
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

// cancelled is what an operator who cancelled an operation leaves as its reason.
const cancelled = "cancelled by an operator"
