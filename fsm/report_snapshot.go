package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// observeSnapshot takes in what a host observed of a snapshot that it keeps.
func (s *State) observeSnapshot(host *Node, o *fsmpb.Observation) {
	if f := o.GetSnapshotKept(); f != nil {
		s.snapshotKept(host, o, f)
		return
	}
	n, ok := s.Snapshot(SnapshotID(o.GetSnapshotId()))
	if !ok || n.Host != host.Host || n.Gone || o.GetSequence() != 0 && o.GetSequence() <= n.Sequence {
		return
	}
	now := *n
	if o.GetSequence() != 0 {
		now.Sequence = o.GetSequence()
	}
	if n.Group == "" {
		s.foldSnapshot(now, o)
		return
	}
	if g, ok := s.GroupSnapshot(n.Group); ok {
		s.foldMember(g, now, o)
	}
}

// foldSnapshot is the fact's effect on a snapshot of its own. What changes nothing
// is passed over.
func (s *State) foldSnapshot(n Snapshot, o *fsmpb.Observation) {
	switch f := o.GetFact().(type) {
	case *fsmpb.Observation_SnapshotCut:
		if n.Phase == SnapshotCutting && n.Kept == nil && f.SnapshotCut.GetAttempt() == n.Operation.Retries {
			s.putSnapshot(s.cut(n, f.SnapshotCut))
			return
		}
		s.foundAgain(n, f.SnapshotCut)
	case *fsmpb.Observation_SnapshotGone:
		if n.Phase == SnapshotDeleting {
			s.removeSnapshot(n.ID)
		}
	case *fsmpb.Observation_SnapshotMissing:
		s.missed(n)
	case *fsmpb.Observation_Progress:
		if op, moved := n.Operation.progress(f.Progress); moved {
			n.Operation = op
			s.putSnapshot(n)
		}
	case *fsmpb.Observation_StepFailed:
		if n.Operation.takes(f.StepFailed) && !s.ofMaking(f.StepFailed, n.GaveUp()) {
			s.putSnapshot(s.failing(n, f.StepFailed))
		}
	}
}

// cut: the host cut the snapshot, whole and with the size that was decided.
func (s *State) cut(n Snapshot, f *fsmpb.SnapshotCut) Snapshot {
	if f.GetSizeBytes() != n.Size {
		return s.failing(n, &fsmpb.StepFailed{Step: "cut", Error: sizeError(f.GetSizeBytes(), n.Size)})
	}
	n.Phase, n.Operation, n.Cut = SnapshotReady, nil, cutTime(f)
	return n
}

// cutTime is never the zero time, which stands for not cut.
func cutTime(f *fsmpb.SnapshotCut) time.Time { return timeOf(max(1, f.GetCutUnixNano())) }

// failing counts the attempt; a final failure ends the operation (see failing of a volume).
func (s *State) failing(n Snapshot, f *fsmpb.StepFailed) Snapshot {
	n.Operation = n.Operation.failed(f)
	if n.Operation.State == OpFailed && n.Phase == SnapshotCutting && s.level2() {
		return n.givenUp(n.Operation.Reason, n.Operation.LastError)
	}
	if n.Operation.State == OpFailed && n.Phase == SnapshotCutting {
		n.Phase, n.Error = SnapshotFailed, n.Operation.LastError
	}
	return n
}

// missed: the file of a snapshot that is Ready is not there; it cannot be cut again.
func (s *State) missed(n Snapshot) {
	if n.Phase == SnapshotReady && !n.Missing {
		n.Missing = true
		s.putSnapshot(n)
	}
}

// foundAgain: a file that was missing is there again, a pool mounted late perhaps.
func (s *State) foundAgain(n Snapshot, f *fsmpb.SnapshotCut) {
	if n.Phase == SnapshotReady && n.Missing && (n.Kept != nil || f.GetSizeBytes() == n.Size) {
		n.Missing = false
		s.putSnapshot(n)
	}
}

// foldMember is the fact's effect on a member and its group. What a host says of
// another attempt was overtaken (S19).
func (s *State) foldMember(g *GroupSnapshot, n Snapshot, o *fsmpb.Observation) {
	switch f := o.GetFact().(type) {
	case *fsmpb.Observation_Frozen:
		s.memberFrozen(g, n, f.Frozen.GetAttempt())
	case *fsmpb.Observation_SnapshotCut:
		s.memberCut(g, n, f.SnapshotCut)
	case *fsmpb.Observation_Thawed:
		if g.underWay() && f.Thawed.GetAttempt() == g.Attempt && n.Cut.IsZero() {
			s.giveUp(g, Busy, "the freeze of volume "+string(n.Source)+" ended before it was cut")
		}
	case *fsmpb.Observation_SnapshotGone:
		s.memberGone(g, n, f.SnapshotGone.GetAttempt())
	case *fsmpb.Observation_SnapshotMissing:
		s.missed(n)
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
	s.advance(g.ID)
}

func (s *State) memberCut(g *GroupSnapshot, n Snapshot, f *fsmpb.SnapshotCut) {
	switch {
	case g.Phase == GroupReady:
		s.foundAgain(n, f)
		return
	case g.Phase != GroupCutting || f.GetAttempt() != g.Attempt || !n.Cut.IsZero():
		return
	case f.GetSizeBytes() != n.Size:
		s.giveUp(g, 0, "snapshot "+string(n.ID)+": "+sizeError(f.GetSizeBytes(), n.Size))
		return
	}
	n.Cut = cutTime(f)
	s.putSnapshot(n)
	s.advance(g.ID)
}

// memberGone: nothing of it is on the host. While a group is given up this must be
// of the attempt that was, so that a later cut is not taken for none.
func (s *State) memberGone(g *GroupSnapshot, n Snapshot, attempt uint32) {
	switch {
	case g.Phase == GroupDeleting:
		s.removeSnapshot(n.ID)
		s.advance(g.ID)
	case g.Phase == GroupAborting && attempt == g.Attempt:
		n.Gone = true
		s.putSnapshot(n)
		s.advance(g.ID)
	}
}

// memberFailed: a group whose member fails is given up; an obligation stays one.
func (s *State) memberFailed(g *GroupSnapshot, n *Snapshot, f *fsmpb.StepFailed) {
	switch {
	case g.Operation != nil && !g.Operation.isAbout(f):
	case g.underWay():
		s.giveUp(g, failureReason(f), "volume "+string(n.Source)+": "+clip(f.GetError()))
	case g.Operation.takes(f) && !s.ofMaking(f, g.GaveUp()):
		now := *g
		now.Operation = g.Operation.failed(f)
		s.putGroup(now)
	}
}
