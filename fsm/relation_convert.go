package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Conversion is a volume on its way to be replicated: its content stays where it is, and DRBD's metadata are put
// behind it (S55). Nobody uses the volume meanwhile.
type Conversion struct {
	Began uint64 // the index
	// OnSeed: the second replica's device was made, and the host that has the content is asked to convert it. Until
	// then nothing of that was touched.
	OnSeed bool
	// Undoing: the host that has the content is asked to make its device what it was. Reason says why.
	Undoing bool
	Reason  string
	// Restored: the log was restored to the middle of it. It may be over since long, and either replica may have the newer
	// content: nothing is undone or discarded before the seed's host says that it was not begun there (S1, S71).
	Restored bool
}

// beginConversion gives a volume a second replica at the peer site, and asks its hosts to convert it.
func (s *State) beginConversion(m Meta, updated *Volume, peer Site, c *fsmpb.EnableReplication) *Rejection {
	v := *updated
	seed := &v.Replicas[0]
	n, ok := s.Node(seed.Node)
	switch {
	case len(v.Publications()) > 0:
		return Reject(Precondition, "enable replication of volume %s: it is not replicated, and is converted while nobody uses it: it is published to node %s", v.ID, v.Publications()[0].Node)
	case len(v.Teardowns) > 0 || v.Operation != nil:
		return Reject(Busy, "enable replication of volume %s: something is under way on it", v.ID)
	case seed.State != ReplicaPresent || !ok || n.Host != seed.Host:
		return Reject(Precondition, "enable replication of volume %s: its device is missing", v.ID)
	case n.site() != m.site:
		return Reject(Precondition, "enable replication of volume %s: its device is at site %s, not at %s", v.ID, n.site(), m.site)
	case !n.canHoldReplicas():
		return Reject(Precondition, "enable replication of volume %s: node %s holds no replicas of replicated volumes", v.ID, n.ID)
	case s.checkNotSource(Busy, "", string(v.ID)) != nil:
		return s.checkNotSource(Busy, "enable replication of volume", string(v.ID))
	}
	second, rej := s.placeAtPeer(&v, peer, c)
	if rej != nil {
		return rej
	}
	minor, port, rej := s.freeMinor(seed, &second)
	if rej != nil {
		return rej
	}
	protocol := c.GetProtocol()
	if protocol == fsmpb.Protocol_PROTOCOL_UNKNOWN {
		protocol = fsmpb.Protocol_PROTOCOL_C
	}
	first := *seed
	first.ReplicaSync, second.ReplicaSync = &ReplicaSync{}, &ReplicaSync{Outdated: true, KeyGeneration: v.Crypt.keyGeneration()}
	updated.Replicas = []Replica{first, second}
	updated.Replication = &Replication{
		Protocol: protocol, ReplicaCount: MaxReplicas, Minor: minor, Port: port, Seed: first.Host, Generation: m.Index, Conversion: &Conversion{Began: m.Index},
	}
	s.beginReplicaChange(updated, m)
	return nil
}

// converting is the conversion under way, nil when there is none.
func (v *Volume) converting() *Conversion {
	if v.Replication == nil {
		return nil
	}
	return v.Replication.Conversion
}

// convertingFirst refuses what must not be done to a volume while it is converted (S55).
func (v *Volume) convertingFirst() *Rejection {
	switch c := v.converting(); {
	case c == nil:
		return nil
	case c.Restored:
		return Reject(Busy, "volume %s: the log was restored to the middle of its conversion, and its hosts have yet to show how far that came; retry", v.ID)
	case c.Undoing:
		return Reject(Busy, "volume %s could not be converted, and that is being undone: %s; retry", v.ID, c.Reason)
	}
	return Reject(Busy, "volume %s is being converted to a replicated one; retry", v.ID)
}

// isPlainOn tells whether the host has the device without DRBD: the conversion did not come to it.
func (v *Volume) isPlainOn(host HostID) bool {
	c := v.converting()
	return c != nil && !c.OnSeed && !c.Restored && v.Replication.Seed == host
}

// advanceConversion takes the next step of a conversion that observations or reports allow. It is done when the
// content is being copied: from there on the volume is used as every other that was given a replica.
func (s *State) advanceConversion(v *Volume) {
	c := v.converting()
	if c == nil || c.Undoing && !c.Restored {
		return
	}
	index := s.cluster.Index
	switch second := v.PeerReplica(v.Replication.Seed); {
	case !c.OnSeed && !c.Restored && second != nil && second.State == ReplicaPresent:
		updated := v.withReplication()
		updated.Replication.Conversion = &Conversion{Began: c.Began, OnSeed: true}
		updated.Replication.Generation = index
		*v = updated
	case (c.OnSeed || c.Restored) && v.isCopiedFromSeed():
		updated := v.withReplication()
		r := updated.Replication
		r.Conversion, r.InitialSyncIndex, r.Generation = nil, index, index
		updated.ActiveReplica(r.Seed).clearOutdated()
		updated.noteSynced(s.cluster.Time)
		*v = updated
	}
}

// isCopiedFromSeed tells whether a host observed, in this generation, that the content is being copied to the
// second replica. Where nobody saw that before it ended, the second host discards its content once more, and it is seen.
func (v *Volume) isCopiedFromSeed() bool {
	r := v.Replication
	seed := v.ActiveReplica(r.Seed)
	if seed == nil || seed.Observed.Disk != fsmpb.DiskState_DISK_STATE_UP_TO_DATE {
		return false
	}
	for _, l := range v.ActiveReplicas() {
		want := fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
		if l.Host == r.Seed {
			want = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
		}
		if l.Observed.Connection == want && l.Observed.Generation == r.Generation {
			return true
		}
	}
	return false
}

// fail records that nothing of the content is left. The volume is replicated between no sites then.
func (v *Volume) fail(reason string) {
	v.Phase, v.Operation, v.OtherOperations = Failed{Reason: reason}, nil, nil
	v.Condition = Condition{Abnormal: true, Message: reason}
	v.Relation, v.RelationMember = nil, nil
}

// withSeedLost is the volume whose content was lost with the host that it was converted on. It has failed when the other
// host has nothing of it left.
func (v *Volume) withSeedLost(reason string, index uint64) Volume {
	updated := v.unconverted(index)
	updated.Relation, updated.RelationMember = nil, nil
	updated.Condition = Condition{Abnormal: true, Message: reason}
	if updated.allGone() {
		updated.fail(reason)
	}
	return updated
}

// isContentLost tells whether no host has anything of the content, or ever had.
func (v *Volume) isContentLost() bool {
	_, ready := v.Phase.(Ready)
	return v.isFailed() || ready && v.Unconverted != nil && v.Replica(v.Unconverted.Seed) == nil
}

// applyCancelConversion undoes a conversion that was not done in time.
func applyCancelConversion(s *State, m Meta, c *fsmpb.CancelConversion) (*fsmpb.Outcome, *Rejection) {
	v, ok := s.Volume(VolumeID(c.GetVolumeId()))
	if !ok || v.converting() == nil || v.converting().Began != c.GetBegan() || v.converting().Undoing || v.ConversionInDoubt() {
		return &fsmpb.Outcome{VolumeId: c.GetVolumeId()}, nil
	}
	s.undoConversions(m, v, "it was not done in time")
	return &fsmpb.Outcome{VolumeId: string(v.ID)}, nil
}

// undoConversions undoes the conversion of a volume, and ends its relation. Of a group all members are taken out of
// the relation, as it is enabled for all or for none; those whose conversion was done stay replicated volumes. A volume that
// joined a group that was replicated before leaves it again, alone (S53).
func (s *State) undoConversions(m Meta, v *Volume, reason string) {
	x := &replicationSource{s: s, members: []*Volume{v}, relation: v.Relation}
	if g, ok := s.VolumeGroup(s.GroupOf(v.ID)); ok && v.Relation == nil && g.Relation != nil {
		*x = replicationSource{s: s}
		if v.converting().Began > g.Relation.Enabled {
			s.undoJoin(m, v, g, reason)
			return
		}
		if x.readGroup(string(g.ID)) != nil {
			return
		}
	}
	e := x.edit()
	for i := range e.volumes {
		updated := e.volume(i)
		if e.members[i].converting() != nil {
			s.undoConversion(m, updated, reason)
		}
		updated.RelationMember = nil
	}
	e.drop()
}

// undoJoin takes a volume that could not be converted out of the replicated group that it joined.
func (s *State) undoJoin(m Meta, v *Volume, g *VolumeGroup, reason string) {
	left := *g
	left.Members = slices.DeleteFunc(slices.Clone(g.Members), func(id VolumeID) bool { return id == v.ID })
	updated := *v
	s.undoConversion(m, &updated, reason)
	updated.RelationMember = nil
	s.putVolumeGroup(left)
	s.putVolume(updated)
	s.endAheadOf(&left)
}

// undoConversion begins to undo: at once where nothing of the content's device was touched.
func (s *State) undoConversion(m Meta, updated *Volume, reason string) {
	c := updated.Replication.Conversion
	if !c.OnSeed && !c.Restored || updated.Replica(updated.Replication.Seed) == nil {
		*updated = updated.unconverted(m.Index)
		return
	}
	*updated = updated.withReplication()
	updated.Replication.Conversion = &Conversion{Began: c.Began, OnSeed: true, Undoing: true, Reason: clip(reason)}
	updated.Replication.Generation = m.Index
}

// unconverted is the volume without replication. What was made of the second replica is still to be removed: its
// host keeps the minor and the port until it reported that.
func (v *Volume) unconverted(index uint64) Volume {
	updated := v.withReplication()
	r := updated.Replication
	left := &Unconverted{Protocol: r.Protocol, Minor: r.Minor, Port: r.Port, Seed: r.Seed, Generation: index}
	for i := range updated.Replicas {
		replica := &updated.Replicas[i]
		replica.ReplicaSync = nil
		if replica.Host != left.Seed && replica.State != ReplicaGone {
			replica.State = ReplicaLeaving
		}
	}
	updated.Replication, updated.Unconverted, updated.Sites, updated.RelationMember = nil, left, nil, nil
	updated.endOperation(OpReplicaChange)
	return updated.withoutUnconverted()
}

// withoutUnconverted drops the record of the second replica once no host has anything of it.
func (v *Volume) withoutUnconverted() Volume {
	updated := *v
	for i := range v.Replicas {
		if v.Replicas[i].State == ReplicaLeaving {
			return updated
		}
	}
	updated.Unconverted = nil
	return updated
}

// conversionUndone: the host that has the content made its device what it was, or, after a restore, found it so.
func (x reportContext) conversionUndone(v *Volume) (Volume, bool) {
	c := v.converting()
	switch {
	case c == nil || v.Replication.Seed != x.host.Host:
		return *v, false
	case c.Undoing:
		return v.unconverted(x.state.cluster.Index), true
	case c.Restored:
		updated := v.withConversionAgain(x.state.cluster.Index)
		x.state.advanceConversion(&updated)
		return updated, true
	}
	return *v, false
}
