package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyDeleteVolume frees the name at once (S18). The record stays as the pending
// removal of its hosts, until they report the devices gone (S105). An unknown volume is
// deleted already; repeated, it changes nothing. Its snapshots stay: they are devices of
// their own. Its kept copies are removed with it: nobody requested them (S49). A group keeps it only from its own
// site: another one, where it is at home by now, could not take it out (S35).
func applyDeleteVolume(s *State, m Meta, c *fsmpb.DeleteVolume) (*fsmpb.Outcome, *Rejection) {
	if out := s.deletedVolume(c); out != nil {
		return out, nil
	}
	v, _ := s.Volume(VolumeID(c.GetVolumeId()))
	if relation := s.RelationOf(v); relation != nil {
		return s.deleteReplicated(m, v, relation)
	}
	if g, ok := s.VolumeGroup(s.GroupOf(v.ID)); ok && m.serves(g.Origin) {
		return nil, Reject(Precondition, "delete volume %s: it is in volume group %s: take it out, or delete the group", v.ID, g.ID)
	}
	copies, rej := s.checkDelete(m.endpoint, v)
	if rej != nil {
		return nil, rej
	}
	s.removeKeptCopies(copies...)
	return s.beginDelete(m, v, m.operation(OpDelete)), nil
}

// checkDelete checks what a deletion needs, and is the volume's kept copies, which go with it.
func (s *State) checkDelete(at endpoint, v *Volume) ([]*Snapshot, *Rejection) {
	if rej := s.checkHome(at, "delete volume", v); rej != nil {
		return nil, rej
	}
	if rej := v.reclaimFirst("delete"); rej != nil {
		return nil, rej
	}
	if v.converting() != nil && v.Replica(v.Replication.Seed) != nil {
		return nil, v.convertingFirst()
	}
	if publications := v.Publications(); len(publications) > 0 {
		return nil, Reject(InUse, "delete volume %s: it is published to node %s", v.ID, publications[0].Node)
	}
	if rej := s.checkNotSource(Busy, "delete volume", string(v.ID)); rej != nil {
		return nil, rej
	}
	copies := s.liveKeptCopiesOf(v.ID)
	for _, n := range copies {
		if rej := s.checkNotSource(Busy, "delete volume "+string(v.ID)+" with its kept copy", string(n.ID)); rej != nil {
			return nil, rej
		}
	}
	return copies, nil
}

// deletedVolume is the outcome for a volume that is unknown or being deleted; nil for others.
func (s *State) deletedVolume(c *fsmpb.DeleteVolume) *fsmpb.Outcome {
	v, ok := s.Volume(VolumeID(c.GetVolumeId()))
	if !ok {
		return &fsmpb.Outcome{}
	}
	if _, deleting := v.Phase.(Deleting); deleting {
		return &fsmpb.Outcome{VolumeId: string(v.ID), OperationId: uint64(v.Operation.ID)}
	}
	return nil
}

// beginDelete makes the volume a pending removal, or forgets it when no host has anything
// of it. A publication that was revoked while its host was unreachable stays a pending
// teardown, which comes before the removal of the device.
func (s *State) beginDelete(m Meta, v *Volume, op *Operation) *fsmpb.Outcome {
	if v.allGone() || plantedbug.Is(plantedbug.DeleteBeforeGone) {
		s.removeVolume(v.ID)
		return &fsmpb.Outcome{VolumeId: string(v.ID)}
	}
	updated := *v
	updated.Phase = Deleting{Since: m.Epoch}
	updated.Operation, updated.OtherOperations = op, nil
	updated.Import = v.importAtRemoval()
	s.putVolume(updated)
	return &fsmpb.Outcome{VolumeId: string(v.ID), OperationId: uint64(op.ID)}
}
