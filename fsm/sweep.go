package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Sweep is what one entry changed of every volume and snapshot of a host, or of all
// replicated volumes, from feature level 2 on. The change is in force from that entry on:
// every read applies it to the records that do not have it yet (current). Writing it into
// them is split over the entries that follow, so that none takes long however much the
// host holds.
//
// A record has a sweep when it was written at the sweep's entry or later (Modified):
// whoever writes a record has read it, with all sweeps. What a sweep makes of a record
// follows from that record and the sweep alone, so it is the same whenever, and in
// whatever parts, it is written.
type Sweep struct {
	Kind   SweepKind
	Epoch  Epoch  // of the entry
	Node   NodeID // and Host: empty where it is about all
	Host   HostID
	Reason string
	// Cursor is the creation of the last volume that was looked at.
	Cursor uint64
}

// SweepKind is what happened.
type SweepKind uint8

const (
	// SweepBoot: the host was booted again.
	SweepBoot SweepKind = iota + 1
	// SweepLost: the host was recorded as lost.
	SweepLost
	// SweepSight: the host cannot be asked any more, or can be asked again.
	SweepSight
	// SweepPeers: the host replicates otherwise; those that replicate with it are told.
	SweepPeers
	// SweepReplicas: the log went on from a restored one.
	SweepReplicas
	// SweepWaiting: the host cannot be asked any more, or can be asked again; replicas that
	// wait for their peer on it (waits) are told.
	SweepWaiting

	lastSweepKind = SweepWaiting
)

// batch is how much of a sweep one entry does.
type batch struct {
	looks  int // at volumes
	writes int // of volumes and snapshots
}

// usualBatch takes a few milliseconds at most.
var usualBatch = batch{looks: 512, writes: 128}

// applyContinueSweep writes the next batch of the sweeps under way.
func applyContinueSweep(s *State, _ Meta, c *fsmpb.ContinueSweep) (*fsmpb.Outcome, *Rejection) {
	if len(s.cluster.Sweeps) > 0 && s.cluster.Sweeps[0].Epoch.Index == c.GetIndex() {
		s.sweep()
	}
	return &fsmpb.Outcome{}, nil
}

// begin puts a sweep of this entry into force. An entry begins all its sweeps before it
// writes a volume: a record that is written at an entry has what the entry swept.
func (s *State) beginSweep(kind SweepKind, n *Node, reason string) {
	w := Sweep{Kind: kind, Epoch: s.epoch(), Reason: reason}
	if n != nil {
		w.Node, w.Host = n.ID, n.Host
	}
	if !s.concerns(&w) {
		return
	}
	s.cluster.Sweeps = append(slices.Clip(s.cluster.Sweeps), w)
	s.writes++
}

// concerns tells whether the sweep has anything to look at.
func (s *State) concerns(w *Sweep) bool {
	if len(s.behindCursor(w, 1)) > 0 {
		return true
	}
	kept := false
	if w.Kind == SweepLost {
		for range s.SnapshotsOn(w.Node) {
			kept = true
			break
		}
	}
	return kept
}

// sweep writes one batch, the oldest sweep first: those that began later are applied
// after it.
func (s *State) sweep() {
	left := s.batch
	if left == (batch{}) {
		left = usualBatch
	}
	for len(s.cluster.Sweeps) > 0 {
		w := s.cluster.Sweeps[0]
		done := s.sweepVolumes(&w, &left) && s.sweepSnapshots(&w, &left)
		s.writes++
		if !done {
			s.cluster.Sweeps = slices.Clone(s.cluster.Sweeps)
			s.cluster.Sweeps[0] = w
			return
		}
		s.cluster.Sweeps = slices.Clone(s.cluster.Sweeps[1:])
		if len(s.cluster.Sweeps) == 0 {
			s.cluster.Sweeps = nil
		}
	}
}

// sweepVolumes goes on behind the cursor; true at the end.
func (s *State) sweepVolumes(w *Sweep, left *batch) bool {
	next := s.behindCursor(w, left.looks)
	for _, p := range next {
		if left.writes <= 0 {
			return false
		}
		w.Cursor = p.created
		left.looks--
		if w.Kind == SweepPeers || w.Kind == SweepWaiting {
			s.touchPeersOf(p.volume, w.Node)
		} else if s.writeSwept(p.volume) {
			left.writes--
		}
	}
	return len(next) == 0 || left.looks > 0
}

// behindCursor are the next volumes that the sweep is about, as they were created.
func (s *State) behindCursor(w *Sweep, most int) (next []placed) {
	index := s.index.byNode
	switch w.Kind {
	case SweepReplicas:
		s.index.byCreation.Ascend(w.Cursor+1, func(created uint64, r *volumeRecord) bool {
			if created > w.Epoch.Index || len(next) == most {
				return false
			}
			key, _ := r.ID.uuid()
			next = append(next, placed{created: created, volume: key})
			return true
		})
		return next
	case SweepSight:
		index = s.index.owing
	case SweepWaiting:
		index = s.index.waiting
	}
	index.Ascend(placed{node: w.Node, created: w.Cursor + 1}, func(p placed) bool {
		if p.node != w.Node || p.created > w.Epoch.Index || len(next) == most {
			return false
		}
		next = append(next, p)
		return true
	})
	return next
}

// writeSwept writes the sweeps into a volume's record; false when none changes it.
func (s *State) writeSwept(key uuid) bool {
	e, ok := s.volumes.Get(volumeEntry{key: key})
	if !ok {
		return false
	}
	stored := &e.record.Volume
	now, kept := s.current(stored)
	switch {
	case !kept:
		s.removeVolume(stored.ID)
	case now != stored:
		s.writeVolume(*now)
	}
	return now != stored
}

// sweepSnapshots: of snapshots a lost host keeps nothing; true at the end.
func (s *State) sweepSnapshots(w *Sweep, left *batch) bool {
	if w.Kind != SweepLost {
		return true
	}
	var next []SnapshotID
	s.cuts.index.byNode.Ascend(pair{of: string(w.Node)}, func(p pair) bool {
		if p.of != string(w.Node) || len(next) == left.writes {
			return false
		}
		next = append(next, SnapshotID(p.id))
		return true
	})
	for _, id := range next {
		s.writeSweptSnapshot(id)
	}
	left.writes -= len(next)
	return left.writes > 0
}

// writeSweptSnapshot writes the sweeps into a snapshot's record.
func (s *State) writeSweptSnapshot(id SnapshotID) {
	r, ok := s.cuts.snapshots.Get(id)
	if !ok {
		return
	}
	stored := &r.Snapshot
	now, kept := s.currentSnapshot(stored)
	switch {
	case !kept:
		s.removeSnapshot(id)
		s.advance(stored.Group)
	case now != stored:
		s.writeSnapshot(*now)
	}
}

// beingLost tells whether what a lost host held is still in the records, and counted.
func (s *State) beingLost(host HostID) bool {
	return slices.ContainsFunc(s.cluster.Sweeps, func(w Sweep) bool { return w.Kind == SweepLost && w.Host == host })
}
