package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// adoptChanges takes in what the lost part of the log said of a volume that is known: that it was made, grew, was
// formatted, published elsewhere or not any more.
func (s *State) adoptChanges(m Meta, v *Volume, a *adoption) (*fsmpb.Outcome, *Rejection) {
	if a.survives(v) {
		return s.adoptSurvivor(m, v, a)
	}
	switch v.Phase.(type) {
	case Deleting, Failed:
		return nil, Reject(Precondition, "adopt volume %s: it is being deleted, or could not be made, and its hosts have it: delete it again, or copy what it has", v.ID)
	case Creating, Ready:
	}
	if v.converting() != nil && a.newest.GetManifest().GetReplication() == nil {
		return &fsmpb.Outcome{VolumeId: string(v.ID)}, nil // it was said before the backup
	}
	converted, decided := a.wasConverted(v), s.decidedSince(v) // of where this log has it: the second host never acted for it
	if converted {
		taken, rej := s.withConversionTaken(m, v, a)
		if rej != nil {
			return nil, rej
		}
		v = &taken
	}
	if rej := a.checkSamePlace(v); rej != nil {
		return nil, rej
	}
	updated, changed := v.withReadiness(m, a)
	changed = changed || converted
	changed = updated.takeContent(a.newest.GetManifest()) || changed
	if !decided {
		changed = updated.takePublication(s, a) || changed
		changed = updated.takeOutdated(a) || changed
	}
	if changed {
		if rej := s.checkWhole(&updated); rej != nil {
			return nil, rej
		}
		s.putVolume(updated)
		s.bumpAdopted(&updated)
	}
	return &fsmpb.Outcome{VolumeId: string(v.ID)}, nil
}

// decidedSince tells whether this incarnation may have decided who uses the volume: one of its hosts acts for it, or a
// publication was revoked. Then what the lost log said of that is over.
func (s *State) decidedSince(v *Volume) bool {
	for i := range v.Replicas {
		if n, ok := s.Node(v.Replicas[i].Node); ok && n.Host == v.Replicas[i].Host && n.Incarnation == s.cluster.Incarnation {
			return true
		}
	}
	return len(v.Teardowns) > 0 || v.Replication != nil && v.Replication.LastGrantIndex != 0
}

// checkSamePlace: the volume is where this log has it. Where the lost log had moved a replica, hosts hold more than it
// knows, or less, which no entry can mend without a look at the contents.
func (a *adoption) checkSamePlace(v *Volume) *Rejection {
	says := a.newest.GetManifest().GetReplication()
	for i := range a.held {
		h := &a.held[i]
		switch r := v.Replica(h.node.Host); {
		case r == nil || r.State == ReplicaGone || r.State == ReplicaLeaving:
			return Reject(Precondition, "adopt volume %s: node %s has a replica of it that this log does not know: it was moved there after the backup", v.ID, h.node.ID)
		case (says == nil) != (v.Replication == nil):
			return Reject(Precondition, "adopt volume %s: its replication ended after the backup, and node %s has it as it is now: copy what its device has to a new volume", v.ID, h.node.ID)
		case says != nil && (says.GetMinor() != v.Replication.Minor || says.GetPort() != v.Replication.Port):
			return Reject(Precondition, "adopt volume %s: it has the minor %d and port %d, and on node %s %d and %d", v.ID, v.Replication.Minor, v.Replication.Port, h.node.ID, says.GetMinor(), says.GetPort())
		}
	}
	return nil
}

// withReadiness ends the creation of a volume whose manifest exists: hosts keep one of a Ready volume only.
func (v *Volume) withReadiness(m Meta, a *adoption) (updated Volume, changed bool) {
	updated = *v
	for i := range a.held {
		if r := updated.Replica(a.held[i].node.Host); r.State == ReplicaPlanned {
			made := *r
			made.State, made.Size = ReplicaPresent, v.Size
			updated, changed = updated.withReplica(made), true
		}
	}
	if !v.isCreating() {
		return updated, changed
	}
	if updated.Replication != nil {
		updated = updated.withReplication()
		updated.Replication.InitialSyncIndex, updated.Replication.Generation = m.Index, m.Index
	}
	updated.Phase, updated.Operation = unpublished, nil
	return updated, true
}

// takeContent takes what only grows: the size, and what is known of the filesystem and the LUKS header.
func (v *Volume) takeContent(says *fsmpb.VolumeManifest) (changed bool) {
	if says.GetSizeBytes() > v.Size && says.GetSizeBytes() <= maxAdoptedSize && says.GetSizeBytes()%VolumeSizeUnit == 0 {
		*v, changed = v.withAdoptedSize(says.GetSizeBytes()), true
	}
	if f := FormatFrom(says.GetFormat()); knownFormat(f.Phase) && formatProgress(f.Phase) > formatProgress(v.Format.Phase) {
		v.Format, changed = f, true
	}
	if c := CryptFrom(says.GetCrypt()); c != nil && v.Crypt != nil && v.Crypt.Rotation == nil && knownFormat(c.Phase) &&
		(formatProgress(c.Phase) > formatProgress(v.Crypt.Phase) || c.KeyGeneration > v.Crypt.KeyGeneration) {
		v.Crypt, changed = c, true
	}
	return changed
}

// withAdoptedSize is the volume with the size that its hosts gave it already.
func (v *Volume) withAdoptedSize(size int64) Volume {
	updated := *v
	updated.Size = size
	updated.Replicas = append([]Replica(nil), v.Replicas...)
	for i := range updated.Replicas {
		if updated.Replicas[i].State == ReplicaPresent {
			updated.Replicas[i].Size = size
		}
	}
	updated.endOperation(OpExpand)
	return updated
}

// formatProgress orders the phases of a format: a later one is never taken back (S15).
func formatProgress(p fsmpb.FormatPhase) int {
	switch p {
	case fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING:
		return 1
	case fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, fsmpb.FormatPhase_FORMAT_PHASE_RAW:
		return 2
	case fsmpb.FormatPhase_FORMAT_PHASE_UNKNOWN, fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED:
	}
	return 0
}

// takePublication takes the newest publication that a host was told of, and ends the one that its host was told the
// end of.
func (v *Volume) takePublication(s *State, a *adoption) (changed bool) {
	said := a.publication(s)
	for _, p := range v.Publications() {
		if a.ended(&p) {
			*v, changed = v.withoutPublication(p.Node), true
		} else if said != nil && p.Epoch.Compare(said.Epoch) >= 0 {
			return changed // it is that one, or a newer one
		}
	}
	if said == nil {
		return changed
	}
	for _, p := range v.Publications() {
		*v = v.withoutPublication(p.Node)
	}
	*v = v.withPublication(*said)
	return true
}

// ended tells whether the publication's host was told, later than of the publication, that it has none, or another.
func (a *adoption) ended(p *Publication) bool {
	for i := range a.held {
		h := &a.held[i]
		if h.node.Host == p.Host && h.at.Compare(p.Epoch) > 0 && EpochFrom(h.GetManifest().GetPublication().GetEpoch()) != p.Epoch {
			return EpochFrom(h.GetStaged()) != p.Epoch
		}
	}
	return false
}

// takeOutdated takes which replica was outdated when the host that has the newest publication staged was told of it: that
// one has every write, and a replica that was told to be outdated lacks some.
func (v *Volume) takeOutdated(a *adoption) (changed bool) {
	if v.Replication == nil || len(v.Publications()) != 1 {
		return false
	}
	p := v.Publications()[0]
	updated := v.withReplication()
	for i := range a.held {
		h := &a.held[i]
		l, says := updated.ActiveReplica(h.node.Host), h.GetManifest().GetReplication().GetOutdated()
		used := h.node.Host == p.Host && EpochFrom(h.GetStaged()) == p.Epoch && !says
		switch {
		case l == nil || !a.isStagedAt(&p):
		case used && l.Outdated:
			l.clearOutdated()
			l.UpToDate, changed = false, true
		case h.node.Host != p.Host && says && !l.Outdated:
			l.markOutdated(v.Crypt)
			changed = true
		}
	}
	if changed {
		*v = updated
	}
	return changed
}

// isStagedAt tells whether the publication's host has it staged, and was not told that its replica is outdated.
func (a *adoption) isStagedAt(p *Publication) bool {
	for i := range a.held {
		h := &a.held[i]
		if h.node.Host == p.Host && EpochFrom(h.GetStaged()) == p.Epoch {
			return !h.GetManifest().GetReplication().GetOutdated()
		}
	}
	return false
}
