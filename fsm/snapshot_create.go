package fsm

import (
	"bytes"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyCreateSnapshot decides to take a snapshot of a name, or joins the one that
// exists (S113). Room is reserved as for a volume; its host takes it (S19). Only the host
// knows whether a snapshot of a raw volume can be taken while it is written to; it reports
// a failed step if not.
func applyCreateSnapshot(s *State, m Meta, c *fsmpb.CreateSnapshot) (*fsmpb.Outcome, *Rejection) {
	requested, rej := requestedSnapshot(m.endpoint, c)
	if rej != nil {
		return nil, rej
	}
	existing, exists := s.SnapshotByName(requested.Origin, requested.Name)
	if exists && existing.Phase != SnapshotFailed {
		return joinExistingSnapshot(existing, &requested)
	}
	if _, taken := s.Snapshot(requested.ID); taken {
		return nil, Reject(Incompatible, "create snapshot %q: id %s belongs to another one already", requested.Name, requested.ID)
	}
	if _, rej := s.homeVolume(m.endpoint, "create a snapshot", c.GetSourceVolumeId()); rej != nil {
		return nil, rej
	}
	from, rej := s.volumeOrigin(c.GetSourceVolumeId())
	if rej != nil {
		return nil, rej
	}
	if other := s.groupTakingSnapshotOf(requested.Source); other != "" {
		return nil, Reject(Busy, "create snapshot %q: volume %s is just being cut for group snapshot %s", requested.Name, requested.Source, other)
	}
	if _, rej := s.replicaInOriginPool(&from, from.size, nil); rej != nil {
		return nil, rej
	}
	if exists {
		s.beginDeleteSnapshot(m, existing, existing.Operation.idOrNew(m)) // what the failed attempt left becomes a pending removal
	}
	requested.Created, requested.Operation = m.Epoch, m.operation(OpSnapshot)
	s.putSnapshot(requested.ofOrigin(&from))
	return &fsmpb.Outcome{SnapshotId: string(requested.ID), OperationId: m.Index}, nil
}

// requestedSnapshot reads and checks the request.
func requestedSnapshot(at endpoint, c *fsmpb.CreateSnapshot) (Snapshot, *Rejection) {
	n := Snapshot{ID: SnapshotID(c.GetSnapshotId()), Name: c.GetName(), Source: VolumeID(c.GetSourceVolumeId()), Fingerprint: emptyAsNil(c.GetFingerprint()), Origin: at.site}
	if !n.ID.Valid() {
		return n, Reject(Invalid, "create a snapshot: %q is not a snapshot id", clip(c.GetSnapshotId()))
	}
	return n, checkNameAndFingerprint("create a snapshot", n.Name, n.Fingerprint)
}

// checkNameAndFingerprint refuses a name or fingerprint that no record can have.
func checkNameAndFingerprint(action, name string, fingerprint []byte) *Rejection {
	if n := len(name); n == 0 || n > maxNameBytes {
		return Reject(Invalid, "%s: the name must have 1 to %d bytes, it has %d", action, maxNameBytes, n)
	}
	if len(fingerprint) > maxFingerprintBytes {
		return Reject(Invalid, "%s %q: the fingerprint has more than %d bytes", action, name, maxFingerprintBytes)
	}
	return nil
}

// emptyAsNil reads an empty list as none.
func emptyAsNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// ofOrigin is the snapshot, to be taken of the origin as it is now.
func (n Snapshot) ofOrigin(o *origin) Snapshot {
	n.Node, n.Host, n.Pool = o.node.ID, o.node.Host, o.pool
	n.Size, n.Format, n.Capabilities, n.Crypt = o.size, o.format.cloned(), o.capabilities, o.crypt.cloned()
	n.Phase = SnapshotTaking
	return n
}

// joinExistingSnapshot answers with the snapshot that has the name, if it is compatible
// with the request.
func joinExistingSnapshot(existing, requested *Snapshot) (*fsmpb.Outcome, *Rejection) {
	switch {
	case existing.Source != requested.Source:
		return nil, Reject(Incompatible, "snapshot %q exists of volume %s", existing.Name, existing.Source)
	case !bytes.Equal(existing.Fingerprint, requested.Fingerprint):
		return nil, Reject(Incompatible, "snapshot %q exists with other parameters", existing.Name)
	}
	return existing.outcome(), nil
}

func (n *Snapshot) outcome() *fsmpb.Outcome {
	out := &fsmpb.Outcome{SnapshotId: string(n.ID)}
	if n.Operation != nil {
		out.OperationId = uint64(n.Operation.ID)
	}
	return out
}

// applyDeleteSnapshot frees the name at once; the record stays as the pending removal of
// its host (S18, S105). An unknown one is deleted already; repeated, it changes nothing.
func applyDeleteSnapshot(s *State, m Meta, c *fsmpb.DeleteSnapshot) (*fsmpb.Outcome, *Rejection) {
	if out := s.deletedSnapshot(c); out != nil {
		return out, nil
	}
	n, _ := s.Snapshot(SnapshotID(c.GetSnapshotId()))
	if rej := m.checkOwner("delete snapshot "+string(n.ID), n.Origin); rej != nil {
		return nil, rej
	}
	switch {
	case n.Group != "":
		return nil, Reject(Invalid, "delete snapshot %s: it is part of group snapshot %s; delete that", n.ID, n.Group)
	case c.GetSuperseded() && !s.isSuperseded(n):
		return nil, Reject(Precondition, "delete snapshot %s: it is no kept copy, or not all replicas of its volume are up to date", n.ID)
	case n.Phase == SnapshotTaking && n.KeptCopy == nil:
		return nil, Reject(Busy, "delete snapshot %s: it is still being cut", n.ID)
	}
	if rej := s.checkNotSource(InUse, "delete snapshot", string(n.ID)); rej != nil {
		return nil, rej
	}
	if v, ok := s.Volume(n.Source); ok && v.isReverting() && v.Replication.Revert.Snapshot == n.ID {
		return nil, Reject(InUse, "delete snapshot %s: the replica of volume %s goes back to it", n.ID, v.ID)
	}
	return s.beginDeleteSnapshot(m, n, OperationID(m.Index)), nil
}

// deletedSnapshot is the outcome for a snapshot that is unknown or, of no group, being
// deleted; nil for others.
func (s *State) deletedSnapshot(c *fsmpb.DeleteSnapshot) *fsmpb.Outcome {
	n, ok := s.Snapshot(SnapshotID(c.GetSnapshotId()))
	switch {
	case !ok:
		return &fsmpb.Outcome{}
	case n.Group == "" && n.Phase == SnapshotDeleting:
		return n.outcome()
	}
	return nil
}

// beginDeleteSnapshot makes the snapshot a pending removal, or forgets it when no host
// has anything of it.
func (s *State) beginDeleteSnapshot(m Meta, n *Snapshot, id OperationID) *fsmpb.Outcome {
	if n.Gone {
		s.removeSnapshot(n.ID)
		return &fsmpb.Outcome{SnapshotId: string(n.ID)}
	}
	updated := *n
	updated.Phase = SnapshotDeleting
	updated.Operation = m.operation(OpDelete)
	updated.Operation.ID = id
	s.putSnapshot(updated)
	return updated.outcome()
}
