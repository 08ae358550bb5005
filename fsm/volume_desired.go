package fsm

import "iter"

// DesiredVolume is the desired state of one host for one volume: the input of the
// executor's decisions. It is read from applied entries only.
type DesiredVolume struct {
	Volume VolumeID
	Pool   PoolID
	Size   int64 // bytes
	Goal   Goal
	Format Format
	// Publication is this host's, nil when nothing may be staged here.
	Publication *Publication
	// Teardown is set while this host must end a revoked publication.
	Teardown *Teardown
	// Sequence is the last of the host's records of this volume that was applied.
	Sequence uint64
	// Operation and Attempt change when an operator retries.
	Operation OperationID
	Attempt   uint32
	// ModifyOperation and ModifyAttempt are those of the operation that puts new limits in
	// force, zero when there is none.
	ModifyOperation OperationID
	ModifyAttempt   uint32
	// ReplicaState is what is recorded of the device: a Ready volume's device is
	// reported missing only when this is ReplicaPresent.
	ReplicaState ReplicaState
	// Source is what the device is made from while Creating.
	Source Source
	// SourceSize is the size in bytes of that source.
	SourceSize int64
	// Limits are in force while it is staged here.
	Limits Limits
	// ImportDevice is the storage's own identity of the device that the host takes in while GoalCreate, and gives back
	// while GoalRemove; empty: the device is made, or removed. It is never made nor removed where this is set.
	ImportDevice string
	// ImportDRBD is set while a replica of a DRBD resource of others is taken in.
	ImportDRBD *DesiredDRBDImport
	// Encrypted: there is a LUKS header on the device, and the volume is the mapping above it.
	Encrypted bool
	// EncryptionDiscards: what is discarded above the encryption may be discarded below it.
	EncryptionDiscards bool
	// KeyGeneration says how often the key was replaced: what a host has of a header of before opens with an older one (S65).
	KeyGeneration uint64
	// Replication is set for a replicated volume.
	Replication *DesiredReplica
	// Manifest is a VolumeManifest, which the host keeps as it is beside the device; empty below feature level 3,
	// where the volume is not Ready, and for a host in adoption mode, which keeps what the lost log said.
	Manifest string
}

// Goal is the one thing a host may do to a device, by the volume's phase (S14).
type Goal uint8

const (
	// GoalCreate: make the device if it is not there. Only while Creating.
	GoalCreate Goal = iota + 1
	// GoalKeep: it should be there; never make or remove it.
	GoalKeep
	// GoalRemove: remove it. Only while Deleting, for this host id and replica.
	GoalRemove
)

// DesiredVolume is the desired state of a host for a volume; false when there is none.
func (s *State) DesiredVolume(node NodeID, volume VolumeID) (DesiredVolume, bool) {
	n, ok := s.Node(node)
	if !ok || n.State == NodeLost {
		return DesiredVolume{}, false
	}
	v, ok := s.Volume(volume)
	if !ok {
		return DesiredVolume{}, false
	}
	return s.desiredVolume(n, v)
}

// DesiredVolumes yields a host's desired state of all volumes, in order of volume id.
func (s *State) DesiredVolumes(node NodeID) iter.Seq[DesiredVolume] {
	return func(yield func(DesiredVolume) bool) {
		n, ok := s.Node(node)
		if !ok || n.State == NodeLost {
			return
		}
		for v := range s.VolumesOn(node) {
			if d, ok := s.desiredVolume(n, v); ok && !yield(d) {
				return
			}
		}
	}
}

// desiredVolume is addressed to the host id, not to the name: a host that was reinstalled
// under an old name gets nothing that its predecessor had to do (S17).
func (s *State) desiredVolume(n *Node, v *Volume) (DesiredVolume, bool) {
	r, teardown := v.Replica(n.Host), v.Teardown(n.Host)
	p := v.Publication(n.ID)
	if p != nil && p.Host != n.Host {
		p = nil
	}
	if r == nil && teardown == nil && p == nil {
		return DesiredVolume{}, false
	}
	d := DesiredVolume{Volume: v.ID, Size: v.Size, Goal: s.goal(n, v, r), Format: v.Format, Publication: p, Teardown: teardown, Limits: v.Limits, Encrypted: v.Crypt != nil, EncryptionDiscards: v.Crypt.discards(), KeyGeneration: v.Crypt.keyGeneration()}
	if d.Goal == GoalCreate && v.isMadeFromSource(n.Host) {
		d.Source = v.Source
		d.SourceSize, _ = s.SourceSize(v.Source)
	}
	d.ImportDevice, d.ImportDRBD = v.importDevice(n.Host), v.importDRBD(n.Host)
	d.Replication = s.desiredReplica(n, v)
	if r != nil {
		d.Pool, d.Sequence, d.ReplicaState = r.Pool, r.Sequence, r.State
	}
	d.Operation, d.Attempt = v.operationFor(n.Host).ref()
	d.ModifyOperation, d.ModifyAttempt = v.OperationOf(OpModify).ref()
	d.Manifest = s.manifest(n, v, r)
	return d, true
}

// goal is what may be done to the device (S14): it is created only while the volume is Creating
// or the replica is being added, and removed only while the volume is Deleting or the replica
// is Leaving. Neither is desired of a host in adoption mode (S1).
func (s *State) goal(n *Node, v *Volume, r *Replica) Goal {
	if n.Incarnation != s.cluster.Incarnation {
		return GoalKeep
	}
	switch v.Phase.(type) {
	case Creating:
		return GoalCreate
	case Deleting:
		return GoalRemove
	case Ready:
		switch {
		case r != nil && r.State == ReplicaPlanned:
			return GoalCreate // a replica that is being added
		case r != nil && r.State == ReplicaLeaving && s.level2() && r.Size > 0 && !v.hasGoodCopy():
			return GoalKeep // it was made, and may be the last copy (S71)
		case r != nil && r.State == ReplicaLeaving:
			return GoalRemove
		}
	case Failed:
	}
	return GoalKeep
}
