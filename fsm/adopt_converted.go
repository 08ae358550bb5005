package fsm

// checkNotConverted refuses what the newest manifest calls plain and a host began to convert since: its manifest was lost
// with its power, and a plain volume would end its replica.
func (a *adoption) checkNotConverted() *Rejection {
	if a.newest == nil || a.newest.GetManifest().GetReplication() != nil {
		return nil
	}
	for i := range a.held {
		if h := &a.held[i]; h.GetReplica() {
			return Reject(Precondition, "adopt volume %s: node %s has DRBD's metadata behind its content, and no host says with whom it was replicated: start the host of its other replica, or copy what its device has to a new volume", a.id, h.node.ID)
		}
	}
	return nil
}

// adoptConversion: the lost log was in the middle of the conversion. Both hosts go on with it as after a restore to its
// middle: nothing is discarded before the seed's host says how far it came (S55).
func (v *Volume) adoptConversion(m Meta) *Rejection {
	r := v.Replication
	if len(v.Replicas) != MaxReplicas || v.Replica(r.Seed) == nil {
		return Reject(Precondition, "adopt volume %s: it was being converted to a replicated one, and not both of its hosts say what they have: start the other one, or copy what its device has to a new volume", v.ID)
	}
	r.InitialSyncIndex, r.Conversion = 0, &Conversion{Began: m.Index, Restored: true}
	for i := range v.Replicas {
		v.Replicas[i].ReplicaSync.Outdated = false // neither is known to be the older one
	}
	return nil
}

// wasConverted tells whether the lost log gave a volume that is plain here a second replica.
func (a *adoption) wasConverted(v *Volume) bool {
	return v.Replication == nil && a.newest.GetManifest().GetReplication() != nil
}

// withConversionTaken is the volume with the replicas that the lost log gave it.
func (s *State) withConversionTaken(m Meta, v *Volume, a *adoption) (Volume, *Rejection) {
	updated := *v
	const remedy = "disable or end that first, or copy what its device has to a new volume"
	switch own := a.heldOn(v.Replicas[0].Host); {
	case s.decidedSince(v), v.Operation != nil, v.Unconverted != nil, len(v.OtherOperations) > 0:
		return updated, Reject(Precondition, "adopt volume %s: it was converted to a replicated one after the backup, and this log has something else under way on it: %s", v.ID, remedy)
	case own == nil:
		return updated, Reject(Precondition, "adopt volume %s: it was converted to a replicated one after the backup, and node %s, where this log has it, does not say so: start that; if it is gone for good, record it as lost (`holdfast nodes lost %s`) and adopt again; if it runs and has none, the lost log had moved the replica away: copy what the others' devices have to a new volume", v.ID, v.Replicas[0].Node, v.Replicas[0].Node)
	}
	updated.Replicas, updated.Sites, updated.Home = nil, sitesFrom(a.newest.GetManifest().GetSites()), Site(a.newest.GetManifest().GetHome())
	rej := s.addAdoptedReplicas(m, &updated, a)
	if rej == nil {
		r := updated.Replica(v.Replicas[0].Host)
		r.Sequence = v.Replicas[0].Sequence
	}
	return updated, rej
}

// heldOn is what that host holds, nil when it holds nothing.
func (a *adoption) heldOn(host HostID) *heldReplica {
	for i := range a.held {
		if a.held[i].node.Host == host {
			return &a.held[i]
		}
	}
	return nil
}

// adoptImport refuses a device that is another volume's. A replicated volume outlives the host that it was imported on:
// its import ends with that host's replica.
func (s *State) adoptImport(v *Volume, a *adoption) *Rejection {
	if v.Import == nil {
		return nil
	}
	switch h := a.heldOn(v.Import.Host); {
	case h == nil && a.newest.GetManifest().GetReplication() != nil:
		v.Import = nil
		return nil
	case h == nil:
		return Reject(Invalid, "adopt volume %s: its manifest says that it was imported on host %s, which does not have it", v.ID, clip(string(v.Import.Host)))
	}
	for i := range a.held {
		n := a.held[i].node
		if other := s.importOf(n, v.Import.deviceOn(n.Host)); other != nil {
			return Reject(Busy, "adopt volume %s: volume %s has the device on node %s that it was imported with", v.ID, other.ID, n.ID)
		}
	}
	return nil
}
