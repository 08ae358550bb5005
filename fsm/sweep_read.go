package fsm

import (
	"iter"
	"slices"
)

// withSweeps is the volume after the sweeps that its record does not have yet;
// false when nothing is left of it.
func (s *State) withSweeps(v *Volume) (*Volume, bool) {
	written := v.Modified
	for i := range s.cluster.Sweeps {
		w := &s.cluster.Sweeps[i]
		if w.Epoch.Index <= written {
			continue
		}
		updated, effect := s.withSweep(v, w)
		switch effect {
		case sweepChanged:
			updated.Modified = w.Epoch.Index
			v = &updated
		case sweepRemoved:
			return nil, false
		}
	}
	return v, true
}

// sweepEffect is the result of a sweep on a record.
type sweepEffect uint8

const (
	sweepUnchanged sweepEffect = iota
	sweepChanged
	sweepRemoved
)

// withSweep is the volume after one sweep. It depends on nothing but the two.
func (s *State) withSweep(v *Volume, w *Sweep) (Volume, sweepEffect) {
	changed := false
	updated := *v
	if w.Node != "" && !slices.Contains(v.InvolvedNodes(), w.Node) {
		return updated, sweepUnchanged
	}
	switch w.Kind {
	case SweepBoot:
		updated, changed = v.withBootReset(w.Node, w.Host)
	case SweepGenerations:
		updated, changed = v.withBumpedGeneration(w.Host, w.Epoch.Index)
	case SweepFenced:
		updated, changed = v.withFencedHost(w)
	case SweepRestore:
		updated, changed = v.withRestoreReset(w.Epoch.Index)
	case SweepLost:
		var remains bool
		if updated, remains = s.withoutLostHost(v, w.Node, w.Host, w.Epoch, w.Reason); !remains {
			return updated, sweepRemoved
		}
		changed = true
	}
	if changed {
		return updated, sweepChanged
	}
	return updated, sweepUnchanged
}

// snapshotWithSweeps is withSweeps of a snapshot: only the loss of its host changes it, and a
// lost host never keeps another.
func (s *State) snapshotWithSweeps(n *Snapshot) (*Snapshot, bool) {
	if n.Gone {
		return n, true
	}
	for i := range s.cluster.Sweeps {
		w := &s.cluster.Sweeps[i]
		if w.Kind != SweepLost || w.Host != n.Host {
			continue
		}
		updated, remains := s.withoutLostSnapshotHost(n, w.Reason)
		if !remains {
			return nil, false
		}
		updated.Modified = w.Epoch.Index
		return &updated, true
	}
	return n, true
}

// groupRemains tells whether anything is left of a group: when the last member of one
// that is being deleted is gone, so is it.
func (s *State) groupRemains(g *GroupSnapshot) bool {
	return len(s.cluster.Sweeps) == 0 || g.Phase != GroupDeleting || len(s.members(g)) > 0
}

// sweepPredecessors writes the sweeps into the records that a new one would replace in a table or
// index: a volume of the same id of which nothing is left, and one that no longer has the same name.
func (s *State) sweepPredecessors(v *Volume) {
	if len(s.cluster.Sweeps) == 0 {
		return
	}
	key, _ := v.ID.uuid()
	if e, ok := s.volumes.Get(volumeItem{key: key}); ok {
		if _, remains := s.withSweeps(&e.stored.Volume); !remains {
			s.removeVolume(v.ID)
		}
	}
	if other, taken := s.volumeKeyByName(v.liveName()); taken && other != key {
		s.writeSweepsInto(other)
	}
}

// sweepSnapshotPredecessors is sweepPredecessors of a snapshot.
func (s *State) sweepSnapshotPredecessors(n *Snapshot) {
	if len(s.cluster.Sweeps) == 0 {
		return
	}
	if r, ok := s.snapshots.byID.Get(n.ID); ok {
		if _, remains := s.snapshotWithSweeps(&r.Snapshot); !remains {
			s.writeSweepsIntoSnapshot(n.ID)
		}
	}
	if name := n.liveName(); !name.isZero() {
		if other, taken := s.snapshots.index.names.Get(name); taken && other != n.ID {
			s.writeSweepsIntoSnapshot(other)
		}
	}
}

// storedVolumes yields the volumes as they are recorded: for what is written and hashed.
func (s *State) storedVolumes() iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		s.volumes.Scan(func(e volumeItem) bool { return yield(&e.stored.Volume) })
	}
}

func (s *State) storedSnapshots() iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.snapshots.byID.Scan(func(_ SnapshotID, r *storedSnapshot) bool { return yield(&r.Snapshot) })
	}
}

func (s *State) storedGroups() iter.Seq[*GroupSnapshot] {
	return func(yield func(*GroupSnapshot) bool) {
		s.snapshots.groups.Scan(func(_ GroupSnapshotID, r *storedGroup) bool { return yield(&r.GroupSnapshot) })
	}
}
