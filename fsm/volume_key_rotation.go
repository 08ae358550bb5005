package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// keySlots is how many slots for keys a LUKS2 header has.
const keySlots = 32

// fieldRotation is the number behind which an encryption's hash has its rotation, where there is one.
const fieldRotation = 91

// KeyRotation is the replacement of a volume's key (S64): begun, then added, then done, when it is not here any more.
type KeyRotation struct {
	Slot  uint32 // of the header, for the new key
	Epoch Epoch  // of the publication under which a host works on it
	Added bool   // the new key opens the slot: the other slots may be removed
}

func (r *KeyRotation) hash(e *encoder) {
	if r == nil {
		return
	}
	e.u64(fieldRotation)
	e.u64(uint64(r.Slot))
	e.epoch(r.Epoch)
	e.bool(r.Added)
}

func (r *KeyRotation) proto() *fsmpb.KeyRotation {
	if r == nil {
		return nil
	}
	return &fsmpb.KeyRotation{Slot: r.Slot, Epoch: r.Epoch.Proto(), Added: r.Added}
}

func keyRotationFrom(p *fsmpb.KeyRotation) *KeyRotation {
	if p == nil {
		return nil
	}
	return &KeyRotation{Slot: p.GetSlot(), Epoch: EpochFrom(p.GetEpoch()), Added: p.GetAdded()}
}

// applyBeginKeyRotation names the slot for the new key (S64). A rotation that was begun goes on where what the
// host read agrees with it: the new key opens its slot, or that is free and was not said to have the key. Else, as
// with a third key or a header of before, another begins in its place; what is in the former slot
// goes when this one is done.
func applyBeginKeyRotation(s *State, _ Meta, c *fsmpb.BeginKeyRotation) (*fsmpb.Outcome, *Rejection) {
	v, p, rej := s.grantedPublication(c)
	if rej == nil {
		rej = v.checkRotatable(p, c)
	}
	if rej != nil {
		return nil, rej
	}
	crypt := *v.Crypt
	switch r := v.Crypt.Rotation; {
	case r != nil && r.agreesWith(c):
		crypt.Rotation = &KeyRotation{Slot: r.Slot, Epoch: p.Epoch, Added: r.Added}
	case r == nil && isRotated(c):
		return grantOutcome(v, p, v.Format, v.Crypt), nil
	default:
		slot, free := slotForKey(c)
		if !free {
			return nil, Reject(Precondition, "rotate the key of volume %s: its header has no free slot: remove those that were added by hand", v.ID)
		}
		crypt.Rotation = &KeyRotation{Slot: slot, Epoch: p.Epoch}
	}
	updated := v.withSequence(p.Host, c.GetSequence())
	updated.Crypt = &crypt
	s.putVolume(updated)
	return grantOutcome(v, p, v.Format, &crypt), nil
}

// checkRotatable: the volume is staged for writing by this boot of the host, and what was read is a header.
func (v *Volume) checkRotatable(p *Publication, c *fsmpb.BeginKeyRotation) *Rejection {
	switch {
	case v.Crypt == nil:
		return Reject(Invalid, "rotate the key of volume %s: it is not encrypted", v.ID)
	case p.Staging == nil || !p.Staging.Done || p.Staging.Boot != c.GetBootId() || !v.Crypt.isMade():
		return Reject(Precondition, "rotate the key of volume %s: it is not staged on node %s", v.ID, p.Node)
	case p.ReadOnly || ReadOnlyMode(p.Capability.Mode):
		return Reject(Precondition, "rotate the key of volume %s: it is published to node %s for reading only", v.ID, p.Node)
	}
	last := -1
	for _, slot := range c.GetSlots() {
		if int(slot) <= last || slot >= keySlots {
			return Reject(Invalid, "rotate the key of volume %s: the slots are not in order", v.ID)
		}
		last = int(slot)
	}
	for _, slot := range c.GetOpened() {
		if !slices.Contains(c.GetSlots(), slot) {
			return Reject(Invalid, "rotate the key of volume %s: slot %d is opened and holds no key", v.ID, slot)
		}
	}
	if len(c.GetSlots()) == 0 {
		return Reject(Precondition, "rotate the key of volume %s: its header has no key", v.ID)
	}
	return nil
}

// agreesWith tells whether the rotation can go on with the key of this call.
func (r *KeyRotation) agreesWith(c *fsmpb.BeginKeyRotation) bool {
	return slices.Contains(c.GetOpened(), r.Slot) || !r.Added && !slices.Contains(c.GetSlots(), r.Slot)
}

// isRotated tells whether the new key is the only one already.
func isRotated(c *fsmpb.BeginKeyRotation) bool {
	return !c.GetRenew() && len(c.GetSlots()) == 1 && len(c.GetOpened()) == 1
}

// slotForKey is a slot that the new key opens already, or the first that is free; a renewal needs a free one.
func slotForKey(c *fsmpb.BeginKeyRotation) (uint32, bool) {
	if opened := c.GetOpened(); len(opened) > 0 && !c.GetRenew() {
		return opened[0], true
	}
	for slot := range uint32(keySlots) {
		if !slices.Contains(c.GetSlots(), slot) {
			return slot, true
		}
	}
	return 0, false
}

// keyAdded: the new key opens the slot that the log named.
func (x reportContext) keyAdded(v *Volume, f *fsmpb.KeyAdded) (Volume, bool) {
	r := x.rotation(v, f.GetSlot())
	if r == nil || r.Added {
		return *v, false
	}
	added := *r
	added.Added = true
	return v.withRotation(&added, v.Crypt.KeyGeneration), true
}

// keyDropped: the slot of the new key is the only one. From now on no key of before opens the volume.
func (x reportContext) keyDropped(v *Volume, f *fsmpb.KeyDropped) (Volume, bool) {
	if r := x.rotation(v, f.GetSlot()); r == nil || !r.Added {
		return *v, false
	}
	return v.withRotation(nil, v.Crypt.KeyGeneration+1), true
}

// rotation is the one that a fact is about: of the slot, under the publication of the report.
func (x reportContext) rotation(v *Volume, slot uint32) *KeyRotation {
	if x.publication(v) == nil || v.Crypt == nil || v.Crypt.Rotation == nil || x.sequence == 0 {
		return nil
	}
	if r := v.Crypt.Rotation; r.Slot == slot && r.Epoch == x.epoch {
		return r
	}
	return nil
}

func (v *Volume) withRotation(r *KeyRotation, generation uint64) Volume {
	updated, crypt := *v, *v.Crypt
	crypt.Rotation, crypt.KeyGeneration = r, generation
	updated.Crypt = &crypt
	return updated
}

// isRotationOvertaken tells whether a step of a rotation that was reported is not in the state.
func isRotationOvertaken(v *Volume, o *fsmpb.Observation) bool {
	if v.Crypt == nil {
		return true
	}
	r := v.Crypt.Rotation
	if added := o.GetKeyAdded(); added != nil {
		return r == nil || r.Slot != added.GetSlot() || !r.Added || r.Epoch != EpochFrom(o.GetEpoch())
	}
	return r != nil
}

// maxListedCopies is how many copies an outcome lists.
const maxListedCopies = 100

// keyRotated says what keys of before still open (S65).
func (s *State) keyRotated(v *Volume) *fsmpb.KeyRotated {
	k := &fsmpb.KeyRotated{VolumeId: string(v.ID), KeyGeneration: v.Crypt.KeyGeneration}
	for n := range s.SnapshotsOf(v.ID, "") {
		if k.Snapshots++; len(k.GetSnapshotIds()) < maxListedCopies {
			k.SnapshotIds = append(k.SnapshotIds, string(n.ID))
		}
	}
	for i := range v.Replicas {
		if r := &v.Replicas[i]; v.mayHaveOlderHeader(r) {
			k.NodeIds = append(k.NodeIds, string(r.Node))
		}
	}
	return k
}

// mayHaveOlderHeader tells whether a replica may lack what a rotation wrote. The host where the volume is published
// wrote it, to its own disk unless that failed.
func (v *Volume) mayHaveOlderHeader(r *Replica) bool {
	active := v.ActiveReplica(r.Host)
	if v.Publication(r.Node) != nil {
		return active != nil && active.ReplicaSync != nil && (active.DiskFailed != 0 || active.Observed.diskUnusable())
	}
	return active == nil || !active.UpToDate || active.Outdated
}

func hashKeyRotated(e *encoder, all []*fsmpb.KeyRotated) {
	for _, k := range all {
		e.str(k.GetVolumeId())
		e.u64(k.GetKeyGeneration())
		e.u64(k.GetSnapshots())
		for _, ids := range [][]string{k.GetSnapshotIds(), k.GetNodeIds()} {
			e.u64(uint64(len(ids)))
			for _, id := range ids {
				e.str(id)
			}
		}
	}
}
