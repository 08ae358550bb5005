package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// sweepBudget is how much of a sweep one entry does.
type sweepBudget struct {
	reads  int // volumes visited
	writes int // volumes and snapshots written
}

// defaultSweepBudget takes a few milliseconds at most.
var defaultSweepBudget = sweepBudget{reads: 512, writes: 128}

// applyContinueSweep writes the next batch of the sweeps under way.
func applyContinueSweep(s *State, _ Meta, c *fsmpb.ContinueSweep) (*fsmpb.Outcome, *Rejection) {
	if len(s.cluster.Sweeps) > 0 && s.cluster.Sweeps[0].Epoch.Index == c.GetIndex() {
		s.runSweeps()
	}
	return &fsmpb.Outcome{}, nil
}

// beginSweep puts a sweep of this entry into force. An entry begins all its sweeps before it
// writes a volume: a record that is written at an entry has the sweeps of that entry.
func (s *State) beginSweep(kind SweepKind, n *Node, reason string) {
	w := Sweep{Kind: kind, Epoch: s.epoch(), Reason: reason}
	if n != nil {
		w.Node, w.Host = n.ID, n.Host
	}
	if kind == SweepFenced {
		w.Began = s.cluster.Time
	}
	if !s.sweepHasWork(&w) && !s.isBeingFenced(w.Node) {
		return
	}
	s.cluster.Sweeps = append(slices.Clip(s.cluster.Sweeps), w)
	s.writes++
}

// sweepHasWork tells whether there is any record that the sweep is about.
func (s *State) sweepHasWork(w *Sweep) bool {
	if len(s.nextToSweep(w, 1)) > 0 {
		return true
	}
	found := false
	if w.Kind == SweepLost {
		for range s.SnapshotsOn(w.Node) {
			found = true
			break
		}
	}
	return found
}

// runSweeps writes one batch, the oldest sweep first: those that began later are applied
// after it.
func (s *State) runSweeps() {
	budget := s.sweepBudget
	if budget == (sweepBudget{}) {
		budget = defaultSweepBudget
	}
	for len(s.cluster.Sweeps) > 0 {
		w := s.cluster.Sweeps[0]
		done := s.sweepVolumes(&w, &budget) && s.sweepSnapshots(&w, &budget)
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

// sweepVolumes continues after the cursor; true when all volumes are done.
func (s *State) sweepVolumes(w *Sweep, budget *sweepBudget) bool {
	next := s.nextToSweep(w, budget.reads)
	for _, p := range next {
		if budget.writes <= 0 {
			return false
		}
		w.Cursor = p.created
		budget.reads--
		if w.Kind == SweepPeers || w.Kind == SweepWaiting {
			s.announcePeersOf(p.volume, w.Node)
		} else if s.writeSweepsInto(p.volume) {
			budget.writes--
		}
	}
	return len(next) == 0 || budget.reads > 0
}

// nextToSweep are the next volumes that the sweep is about, in order of creation.
func (s *State) nextToSweep(w *Sweep, limit int) (next []nodeVolume) {
	index := s.index.byNode
	switch w.Kind {
	case SweepRestore:
		s.index.byCreation.Ascend(w.Cursor+1, func(created uint64, r *storedVolume) bool {
			if created > w.Epoch.Index || len(next) == limit {
				return false
			}
			key, _ := r.ID.uuid()
			next = append(next, nodeVolume{created: created, volume: key})
			return true
		})
		return next
	case SweepGenerations:
		index = s.index.teardowns
	case SweepWaiting:
		index = s.index.waitingForPeer
	}
	index.Ascend(nodeVolume{node: w.Node, created: w.Cursor + 1}, func(p nodeVolume) bool {
		if p.node != w.Node || p.created > w.Epoch.Index || len(next) == limit {
			return false
		}
		next = append(next, p)
		return true
	})
	return next
}

// writeSweepsInto writes the sweeps into a volume's record; false when they do not change it.
func (s *State) writeSweepsInto(key uuid) bool {
	e, ok := s.volumes.Get(volumeItem{key: key})
	if !ok {
		return false
	}
	stored := &e.stored.Volume
	updated, remains := s.withSweeps(stored)
	switch {
	case !remains:
		s.removeVolume(stored.ID)
	case updated != stored:
		s.writeVolume(*updated)
	}
	return updated != stored
}

// sweepSnapshots removes what a lost host kept of snapshots; true when all are done.
func (s *State) sweepSnapshots(w *Sweep, budget *sweepBudget) bool {
	if w.Kind != SweepLost {
		return true
	}
	var next []SnapshotID
	s.snapshots.index.byNode.Ascend(idPair{subject: string(w.Node)}, func(p idPair) bool {
		if p.subject != string(w.Node) || len(next) == budget.writes {
			return false
		}
		next = append(next, SnapshotID(p.id))
		return true
	})
	for _, id := range next {
		s.writeSweepsIntoSnapshot(id)
	}
	budget.writes -= len(next)
	return budget.writes > 0
}

// writeSweepsIntoSnapshot writes the sweeps into a snapshot's record.
func (s *State) writeSweepsIntoSnapshot(id SnapshotID) {
	r, ok := s.snapshots.byID.Get(id)
	if !ok {
		return
	}
	stored := &r.Snapshot
	updated, remains := s.snapshotWithSweeps(stored)
	switch {
	case !remains:
		s.removeSnapshot(id)
		s.advanceGroup(stored.Group)
	case updated != stored:
		s.writeSnapshot(*updated)
	}
}

// isBeingFenced tells whether what a fence ended of the node's host is not in all records, and in what is
// derived from them, yet.
func (s *State) isBeingFenced(node NodeID) bool {
	return slices.ContainsFunc(s.cluster.Sweeps, func(w Sweep) bool { return w.Kind == SweepFenced && w.Node == node })
}

// keysBeingFenced are the volumes of the node's host, where that is so.
func (s *State) keysBeingFenced(node NodeID) []uuid {
	if !s.isBeingFenced(node) {
		return nil
	}
	return volumesUnder(s.index.byNode, node)
}

// beingLost tells whether records still have, and count, what a lost host held.
func (s *State) beingLost(host HostID) bool {
	return slices.ContainsFunc(s.cluster.Sweeps, func(w Sweep) bool { return w.Kind == SweepLost && w.Host == host })
}
