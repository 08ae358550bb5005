package fsm

import (
	"iter"
	"slices"
)

// current is the volume with what the sweeps that its record does not have make of it;
// false when nothing is left of it.
func (s *State) current(v *Volume) (*Volume, bool) {
	written := v.Modified
	for i := range s.cluster.Sweeps {
		w := &s.cluster.Sweeps[i]
		if w.Epoch.Index <= written {
			continue
		}
		now, is := s.swept(v, w)
		switch is {
		case sweepChanged:
			now.Modified = w.Epoch.Index
			v = &now
		case sweepRemoved:
			return nil, false
		}
	}
	return v, true
}

// sweepVerdict is what a sweep makes of a record.
type sweepVerdict uint8

const (
	sweepUnchanged sweepVerdict = iota
	sweepChanged
	sweepRemoved
)

// swept is what a sweep makes of a volume. It looks at nothing but the two.
func (s *State) swept(v *Volume, w *Sweep) (Volume, sweepVerdict) {
	changed := false
	now := *v
	if w.Node != "" && !slices.Contains(v.Holders(), w.Node) {
		return now, sweepUnchanged
	}
	switch w.Kind {
	case SweepBoot:
		now, changed = v.rebooted(w.Node, w.Host)
	case SweepSight:
		now, changed = v.sightedAnew(w.Host, w.Epoch.Index)
	case SweepReplicas:
		now, changed = v.withReplicasForgotten(w.Epoch.Index)
	case SweepLost:
		var kept bool
		if now, kept = s.withoutHost(v, w.Node, w.Host, w.Epoch, w.Reason); !kept {
			return now, sweepRemoved
		}
		changed = true
	}
	if changed {
		return now, sweepChanged
	}
	return now, sweepUnchanged
}

// currentSnapshot is current of a snapshot: only the loss of its host changes it, and no
// lost host keeps one anew.
func (s *State) currentSnapshot(n *Snapshot) (*Snapshot, bool) {
	if n.Gone {
		return n, true
	}
	for i := range s.cluster.Sweeps {
		w := &s.cluster.Sweeps[i]
		if w.Kind != SweepLost || w.Host != n.Host {
			continue
		}
		now, kept := s.lostSnapshot(n, w.Reason)
		if !kept {
			return nil, false
		}
		now.Modified = w.Epoch.Index
		return &now, true
	}
	return n, true
}

// currentGroup tells whether anything is left of a group: when the last member of one
// that is being deleted is gone, so is it.
func (s *State) currentGroup(g *GroupSnapshot) bool {
	return len(s.cluster.Sweeps) == 0 || g.Phase != GroupDeleting || len(s.members(g)) > 0
}

// settleVolume writes the sweeps into the records that a new one would take the place of:
// a volume of the same id of which nothing is left, and one that holds the same name no more.
func (s *State) settleVolume(v *Volume) {
	if len(s.cluster.Sweeps) == 0 {
		return
	}
	key, _ := v.ID.uuid()
	if e, ok := s.volumes.Get(volumeEntry{key: key}); ok {
		if _, kept := s.current(&e.record.Volume); !kept {
			s.removeVolume(v.ID)
		}
	}
	if name := v.liveName(); name != "" {
		if other, taken := s.named(name); taken && other != key {
			s.writeSwept(other)
		}
	}
}

// settleSnapshot is settleVolume of a snapshot.
func (s *State) settleSnapshot(n *Snapshot) {
	if len(s.cluster.Sweeps) == 0 {
		return
	}
	if r, ok := s.cuts.snapshots.Get(n.ID); ok {
		if _, kept := s.currentSnapshot(&r.Snapshot); !kept {
			s.writeSweptSnapshot(n.ID)
		}
	}
	if name := n.liveName(); name != "" {
		if other, taken := s.cuts.index.names.Get(name); taken && other != n.ID {
			s.writeSweptSnapshot(other)
		}
	}
}

// volumeRecords yields the volumes as they are recorded: for what is written and hashed.
func (s *State) volumeRecords() iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		s.volumes.Scan(func(e volumeEntry) bool { return yield(&e.record.Volume) })
	}
}

func (s *State) snapshotRecords() iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.cuts.snapshots.Scan(func(_ SnapshotID, r *snapshotRecord) bool { return yield(&r.Snapshot) })
	}
}

func (s *State) groupRecords() iter.Seq[*GroupSnapshot] {
	return func(yield func(*GroupSnapshot) bool) {
		s.cuts.groups.Scan(func(_ GroupSnapshotID, r *groupRecord) bool { return yield(&r.GroupSnapshot) })
	}
}
