package fsm

// How far hosts are with what was decided for a volume, for callers that wait: each answer
// holds for the state as it is, and the caller asks again when the volume changed. A rejection
// ends the wait; its reason may be noReason.

// VolumeCreation is the volume once its device is there, nil while it is being made.
func (s *State) VolumeCreation(id VolumeID) (*Volume, *Rejection) {
	if op := s.CreateFailure(string(id)); op != nil {
		return nil, op.rejection("create volume " + string(id))
	}
	v, ok := s.Volume(id)
	if !ok {
		return nil, deletedMeanwhile("volume", string(id))
	}
	switch phase := v.Phase.(type) {
	case Creating:
		return nil, nil
	case Deleting:
		return nil, deletedMeanwhile("volume", string(id))
	case Failed:
		return nil, v.creationFailure(phase)
	case Ready:
	}
	return v, nil
}

func deletedMeanwhile(what, id string) *Rejection {
	return Reject(Busy, "create %s %s: it was deleted meanwhile; retry", what, id)
}

// creationFailure says why a volume could not be created. The next create with its name
// places a new one.
func (v *Volume) creationFailure(failed Failed) *Rejection {
	switch op := v.Operation; {
	case failed.NoSpace:
		return Reject(NoCapacity, "create volume %q: %s", v.Name, failed.Reason)
	case op != nil && op.State == OpCancelled:
		return Reject(Busy, "create volume %q: %s; retry", v.Name, failed.Reason)
	case op != nil:
		return Reject(op.Reason, "create volume %q: %s", v.Name, failed.Reason)
	}
	return Reject(noReason, "create volume %q: %s", v.Name, failed.Reason)
}

// VolumeExpansion is the volume once its devices have its size, and that is the required one in
// bytes at least; nil while they are being expanded.
func (s *State) VolumeExpansion(id VolumeID, required int64) (*Volume, *Rejection) {
	v, rej := s.KnownVolume(id)
	switch {
	case rej != nil:
		return nil, rej
	case v.Size >= required && !v.isExpanding():
		return v, nil
	}
	return nil, v.endedOperation(OpExpand, "expand volume "+string(id))
}

// VolumeModification tells whether every host that has the volume staged reported its limits in
// force.
func (s *State) VolumeModification(id VolumeID) (done bool, rej *Rejection) {
	v, rej := s.KnownVolume(id)
	switch {
	case rej != nil:
		return false, rej
	case v.publicationWithOtherLimits(v.Limits) == nil:
		return true, nil
	}
	return false, v.endedOperation(OpModify, "modify volume "+string(id))
}

// endedOperation says why the volume's operation of this kind ended without success, nil when
// it did not end.
func (v *Volume) endedOperation(kind OperationKind, what string) *Rejection {
	switch op := v.OperationOf(kind); {
	case op == nil || op.State == OpRunning:
		return nil
	case op.State == OpCancelled:
		return Reject(Busy, "%s: it was cancelled; retry", what)
	default:
		return op.rejection(what)
	}
}

// VolumeRemoval tells whether no reachable host has the volume's device any more. On an
// unreachable one the removal stays pending (S18).
func (s *State) VolumeRemoval(id VolumeID) (done bool, rej *Rejection) {
	v, ok := s.Volume(id)
	if !ok {
		return true, nil
	}
	if _, deleting := v.Phase.(Deleting); !deleting {
		return false, nil
	}
	for i := range v.Replicas {
		if r := &v.Replicas[i]; r.State != ReplicaGone && s.HostReachable(r.Node, r.Host) {
			return false, v.Operation.failedRemoval("volume "+string(id), r.Node)
		}
	}
	return true, nil
}
