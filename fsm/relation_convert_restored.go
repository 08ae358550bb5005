package fsm

import "slices"

// withConversionRestored is the volume after a restore of the log to the middle of its conversion, or of what was left of
// one that was undone. What came after may have been written to either replica only: the second one is not asked to
// discard what it has, nor to remove it, and nothing goes back to a kept copy once more (S1, S71).
func (v *Volume) withConversionRestored() (Volume, bool) {
	updated := *v
	switch _, ready := v.Phase.(Ready); {
	case v.Replication != nil:
		updated = v.withReplication()
		updated.Replication.Revert = nil
		if ready && !v.onlyLeaves() { // what is leaving may have been added again since, and have the newest content: it is an orphan
			updated.Replicas = slices.DeleteFunc(updated.Replicas, func(r Replica) bool { return r.State == ReplicaLeaving })
			updated.Replication.Leaving = nil
		}
		if c := updated.Replication.Conversion; c != nil {
			restored := *c
			restored.Restored = true
			updated.Replication.Conversion = &restored
			updated.outdateSecond(false)
		}
	case ready && v.Unconverted != nil && v.Replica(v.Unconverted.Seed) != nil && !v.onlyLeaves():
		// What the other host has is an orphan, which the audit shows.
		updated.Replicas = slices.DeleteFunc(slices.Clone(v.Replicas), func(r Replica) bool { return r.State == ReplicaLeaving })
		updated.Unconverted = nil
	default:
		return updated, false
	}
	return updated, true
}

// onlyLeaves tells whether no host has anything of the volume but what is leaving: without that there would be none.
func (v *Volume) onlyLeaves() bool {
	return !slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.State != ReplicaLeaving && r.State != ReplicaGone })
}

// outdateSecond says whether the replica beside the seed's is to discard what it has.
func (v *Volume) outdateSecond(outdated bool) {
	if second := v.PeerReplica(v.Replication.Seed); second != nil {
		second.Outdated = outdated
	}
}

// ConversionInDoubt tells whether the log was restored to the middle of the conversion, and the second replica's host
// may have content that nobody else has. It is not undone then; the loss of that host, which an operator says, ends the doubt.
func (v *Volume) ConversionInDoubt() bool {
	c := v.converting()
	return c != nil && c.Restored && v.PeerReplica(v.Replication.Seed) != nil
}

// checkConversionKnown refuses to undo a conversion that may be over since long.
func (v *Volume) checkConversionKnown(action string) *Rejection {
	if !v.ConversionInDoubt() {
		return nil
	}
	second := v.PeerReplica(v.Replication.Seed)
	return Reject(Precondition, "%s volume %s: the log was restored to the middle of its conversion, and node %s may have what was written since: it ends when both hosts are connected, or when an operator says which of them is lost", action, v.ID, second.Node)
}

// withConversionAgain is the volume whose conversion was not begun, or was undone, on the host that has the content: the
// second replica has nothing that counts.
func (v *Volume) withConversionAgain(index uint64) Volume {
	updated := v.withReplication()
	updated.Replication.Conversion = &Conversion{Began: v.converting().Began}
	updated.Replication.Generation = index
	updated.outdateSecond(true)
	return updated
}

// withSecondRemaining is the volume whose seed was lost while its conversion was in doubt: what the second replica has is
// all that there is, and a decision can promote it. Whether that is a whole content its kernel says (S43).
func (v *Volume) withSecondRemaining(index uint64) Volume {
	updated := v.withReplication()
	r := updated.Replication
	r.Conversion, r.InitialSyncIndex, r.Generation = nil, index, index
	for _, l := range updated.ActiveReplicas() {
		l.Synced = true
	}
	updated.endOperation(OpReplicaChange)
	return updated
}
