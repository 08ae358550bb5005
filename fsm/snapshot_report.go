package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applySnapshotObservation records what a host observed of a snapshot that it keeps.
func (s *State) applySnapshotObservation(host *Node, o *fsmpb.Observation) {
	if f := o.GetSnapshotKept(); f != nil {
		s.snapshotKept(host, o, f)
		return
	}
	n, ok := s.Snapshot(SnapshotID(o.GetSnapshotId()))
	if !ok || n.Host != host.Host || n.Gone || o.GetSequence() != 0 && o.GetSequence() <= n.Sequence {
		return
	}
	updated := *n
	if o.GetSequence() != 0 {
		updated.Sequence = o.GetSequence()
	}
	if n.Group == "" {
		s.applySnapshotFact(updated, o)
		return
	}
	if g, ok := s.GroupSnapshot(n.Group); ok {
		s.applyMemberFact(g, updated, o)
	}
}

// applySnapshotFact is the fact's effect on a snapshot that is in no group. A fact that changes
// nothing is ignored.
func (s *State) applySnapshotFact(n Snapshot, o *fsmpb.Observation) {
	switch f := o.GetFact().(type) {
	case *fsmpb.Observation_SnapshotCut:
		if n.Phase == SnapshotTaking && n.KeptCopy == nil && f.SnapshotCut.GetAttempt() == n.Operation.Retries {
			s.putSnapshot(s.snapshotTaken(n, f.SnapshotCut))
			return
		}
		s.snapshotFound(n, f.SnapshotCut)
	case *fsmpb.Observation_SnapshotGone:
		if n.Phase == SnapshotDeleting {
			s.removeSnapshot(n.ID)
		}
	case *fsmpb.Observation_SnapshotMissing:
		s.snapshotMissing(n)
	case *fsmpb.Observation_Progress:
		if op, changed := n.Operation.withProgress(f.Progress); changed {
			n.Operation = op
			s.putSnapshot(n)
		}
	case *fsmpb.Observation_StepFailed:
		if n.Operation.accepts(f.StepFailed) && !s.isStaleCreateFailure(f.StepFailed, n.CreateFailure()) {
			s.putSnapshot(s.withFailedSnapshotStep(n, f.StepFailed))
		}
	}
}

// snapshotTaken: the host took the snapshot, complete and with the size that was decided.
func (s *State) snapshotTaken(n Snapshot, f *fsmpb.SnapshotCut) Snapshot {
	if f.GetSizeBytes() != n.Size {
		return s.withFailedSnapshotStep(n, &fsmpb.StepFailed{Step: "cut", Error: sizeError(f.GetSizeBytes(), n.Size)})
	}
	n.Phase, n.Operation, n.TakenAt = SnapshotReady, nil, takenAt(f)
	return n
}

// takenAt is never the zero time, which stands for not taken.
func takenAt(f *fsmpb.SnapshotCut) time.Time { return TimeOf(max(1, f.GetCutUnixNano())) }

// withFailedSnapshotStep counts the attempt; a final failure ends the operation (see withFailedStep).
func (s *State) withFailedSnapshotStep(n Snapshot, f *fsmpb.StepFailed) Snapshot {
	n.Operation = n.Operation.withFailure(f)
	if n.Operation.State == OpFailed && n.Phase == SnapshotTaking && s.level2() {
		return n.asFailedCreate(n.Operation.Reason, n.Operation.LastError)
	}
	if n.Operation.State == OpFailed && n.Phase == SnapshotTaking {
		n.Phase, n.Error = SnapshotFailed, n.Operation.LastError
	}
	return n
}

// snapshotMissing: the file of a snapshot that is Ready is not there; it cannot be taken again.
func (s *State) snapshotMissing(n Snapshot) {
	if n.Phase == SnapshotReady && !n.Missing {
		n.Missing = true
		s.putSnapshot(n)
	}
}

// snapshotFound: a file that was missing is there again, a pool mounted late perhaps.
func (s *State) snapshotFound(n Snapshot, f *fsmpb.SnapshotCut) {
	if n.Phase == SnapshotReady && n.Missing && (n.KeptCopy != nil || f.GetSizeBytes() == n.Size) {
		n.Missing = false
		s.putSnapshot(n)
	}
}

// applyMemberFact is the fact's effect on a member and its group. A report of another attempt
// is ignored (S19).
func (s *State) applyMemberFact(g *GroupSnapshot, n Snapshot, o *fsmpb.Observation) {
	switch f := o.GetFact().(type) {
	case *fsmpb.Observation_Frozen:
		s.memberFrozen(g, n, f.Frozen.GetAttempt())
	case *fsmpb.Observation_SnapshotCut:
		s.memberTaken(g, n, f.SnapshotCut)
	case *fsmpb.Observation_Thawed:
		if g.isUnderWay() && f.Thawed.GetAttempt() == g.Attempt && n.TakenAt.IsZero() {
			s.abortGroup(g, Busy, "the freeze of volume "+string(n.Source)+" ended before it was cut")
		}
	case *fsmpb.Observation_SnapshotGone:
		s.memberGone(g, n, f.SnapshotGone.GetAttempt())
	case *fsmpb.Observation_SnapshotMissing:
		s.snapshotMissing(n)
	case *fsmpb.Observation_StepFailed:
		s.memberFailed(g, &n, f.StepFailed)
	}
}

func (s *State) memberFrozen(g *GroupSnapshot, n Snapshot, attempt uint32) {
	if g.Phase != GroupFreezing || attempt != g.Attempt || n.Frozen {
		return
	}
	n.Frozen = true
	s.putSnapshot(n)
	s.advanceGroup(g.ID)
}

func (s *State) memberTaken(g *GroupSnapshot, n Snapshot, f *fsmpb.SnapshotCut) {
	switch {
	case g.Phase == GroupReady:
		s.snapshotFound(n, f)
		return
	case g.Phase != GroupTaking || f.GetAttempt() != g.Attempt || !n.TakenAt.IsZero():
		return
	case f.GetSizeBytes() != n.Size:
		s.abortGroup(g, 0, "snapshot "+string(n.ID)+": "+sizeError(f.GetSizeBytes(), n.Size))
		return
	}
	n.TakenAt = takenAt(f)
	s.putSnapshot(n)
	s.advanceGroup(g.ID)
}

// memberGone: nothing of it is on the host. While a group is aborted the report must be of the
// aborted attempt, so that it is not taken for one about a later snapshot.
func (s *State) memberGone(g *GroupSnapshot, n Snapshot, attempt uint32) {
	switch {
	case g.Phase == GroupDeleting:
		s.removeSnapshot(n.ID)
		s.advanceGroup(g.ID)
	case g.Phase == GroupAborting && attempt == g.Attempt:
		n.Gone = true
		s.putSnapshot(n)
		s.advanceGroup(g.ID)
	}
}

// memberFailed: a group whose member fails is aborted; a pending removal stays pending.
func (s *State) memberFailed(g *GroupSnapshot, n *Snapshot, f *fsmpb.StepFailed) {
	switch {
	case g.Operation != nil && !g.Operation.isAbout(f):
	case g.isUnderWay():
		s.abortGroup(g, failureReason(f), "volume "+string(n.Source)+": "+clip(f.GetError()))
	case g.Operation.accepts(f) && !s.isStaleCreateFailure(f, g.CreateFailure()):
		updated := *g
		updated.Operation = g.Operation.withFailure(f)
		s.putGroup(updated)
	}
}
