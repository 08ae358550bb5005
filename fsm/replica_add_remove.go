package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyAddReplica gives a Ready volume that has fewer replicas than it was created
// with another one: on the node that is named, or placed as for a new volume. The
// operation is done when the new replica is up to date.
func applyAddReplica(s *State, m Meta, c *fsmpb.AddReplica) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.replicatedReady(c.GetVolumeId(), "add a replica")
	if rej != nil {
		return nil, rej
	}
	if v.isAddingReplica() || len(v.ActiveReplicas()) >= int(v.Replication.ReplicaCount) {
		return v.addReplicaAgain(c)
	}
	if len(v.ActiveReplicas()) == 0 { // every build rejects this, at every feature level: one that did not panicked
		return nil, Reject(Precondition, "add a replica of volume %s: no replica is left to copy from", v.ID)
	}
	remaining := v.ActiveReplicas()[0]
	switch {
	case s.operationBlockingReplicaChange(v) != nil:
		return nil, Reject(Busy, "add a replica of volume %s: %s is under way on it", v.ID, s.operationBlockingReplicaChange(v).ID)
	case remaining.Outdated:
		return nil, Reject(Precondition, "add a replica of volume %s: the one that is left, on host %s, is outdated", v.ID, remaining.Host)
	case remaining.DiskFailed != 0:
		return nil, Reject(Precondition, "add a replica of volume %s: the kernel of host %s gave up the disk of the one that is left; force it to go on first, if what it has is good enough", v.ID, remaining.Host)
	case s.level3() && v.mayMissWrites(remaining):
		return nil, Reject(Precondition, "add a replica of volume %s: nothing says since the cluster was restored that the one that is left, on host %s, has every write: force it to go on first (`holdfast volumes force-primary`), if what it has is good enough", v.ID, remaining.Host)
	}
	r, rej := s.placeAddedReplica(v, c)
	if rej != nil {
		return nil, rej
	}
	port, rej := s.portForAdded(v, &r)
	if rej != nil {
		return nil, rej
	}
	updated := v.withReplication()
	updated.Replication.Port = port
	r.ReplicaSync = &ReplicaSync{Outdated: true, KeyGeneration: v.Crypt.keyGeneration()} // until it was synchronised
	updated.Replicas = append(updated.Replicas, r)
	updated.Replication.Generation = m.Index // earlier observations are of the former peer
	s.beginReplicaChange(&updated, m)
	s.putVolume(updated)
	return s.operationOutcomeOf(&updated, OpReplicaChange), nil
}

// mayMissWrites tells whether nothing says since a restore that the only replica has every write that was acknowledged: its
// peer may have gone on without it, and only the lost log knew. A new replica would be a copy of it, and with a
// peer it would be granted like one that was compared with another (S5).
func (v *Volume) mayMissWrites(only *Replica) bool {
	r := v.Replication
	known := only.UpToDate || only.InSyncUUID.Value != 0 || only.SoloPrimaryUUID.Value != 0 || r.LastGrantIndex != 0
	return !known && (r.Forced == nil || r.Forced.Host != only.Host)
}

// operationBlockingReplicaChange is the operation that must end before the volume's replicas
// change, nil when there is none: from feature level 2 on only an expansion.
func (s *State) operationBlockingReplicaChange(v *Volume) *Operation {
	op := v.Operation
	switch {
	case s.level2():
		return v.running(OpExpand)
	case op != nil && op.State == OpRunning && op.Kind != OpReplicaChange && op.Kind != OpTeardown:
		return op
	}
	return nil
}

// beginReplicaChange begins the operation. At level 1 a volume has one operation only, so
// it begins when a teardown is done.
func (s *State) beginReplicaChange(v *Volume, m Meta) {
	if op := v.Operation; s.level2() || op == nil || op.Kind != OpTeardown {
		s.beginOperation(v, m.operation(OpReplicaChange))
	}
}

// addReplicaAgain answers for a volume that has, or is being given, all its replicas.
func (v *Volume) addReplicaAgain(c *fsmpb.AddReplica) (*fsmpb.Outcome, *Rejection) {
	exists := slices.ContainsFunc(v.Replicas, func(r Replica) bool {
		return r.State != ReplicaLeaving && r.State != ReplicaGone && r.Node == NodeID(c.GetNodeId())
	})
	if c.GetNodeId() != "" && !exists {
		return nil, Reject(Busy, "add a replica of volume %s on node %s: it has %d, or is being given them", v.ID, clip(c.GetNodeId()), v.Replication.ReplicaCount)
	}
	return operationOutcome(v), nil
}

// placeAddedReplica places a replica on a host that has none of the volume.
func (s *State) placeAddedReplica(v *Volume, c *fsmpb.AddReplica) (Replica, *Rejection) {
	w := &placementRequest{size: v.Crypt.deviceBytes(v.Size), requisite: v.Requisite, facts: c.GetFacts(), replicated: true, port: s.fixedPort(v)}
	var remaining NodeID
	for i := range v.Replicas {
		w.excluded = append(w.excluded, v.Replicas[i].Node)
		if v.Replicas[i].Host == v.ActiveReplicas()[0].Host {
			remaining = v.Replicas[i].Node
		}
	}
	w.at = s.siteOfOther(v, remaining)
	if c.GetNodeId() == "" {
		return s.placePeerReplica(w, remaining)
	}
	n, ok := s.Node(NodeID(c.GetNodeId()))
	if !ok {
		return Replica{}, Reject(NotFound, "add a replica of volume %s: node %s is not known", v.ID, clip(c.GetNodeId()))
	}
	if !w.at.serves(n.site()) && !plantedbug.Is(plantedbug.ReplicaAtOtherSite) {
		return Replica{}, Reject(Precondition, "add a replica of volume %s on node %s: its replica is to be at site %s, and the node is at site %s", v.ID, n.ID, w.at.site, n.site())
	}
	w.requisite = []Topology{{{Key: TopologyKey, Value: string(n.ID)}}}
	r, rej := s.placeReplica(w)
	if rej != nil {
		return r, Reject(rej.Reason, "add a replica of volume %s on node %s: it cannot be asked, is cordoned, holds no replicas, has one or something of one already, or has no room for %d bytes", v.ID, n.ID, v.Size)
	}
	return r, nil
}

// replicatedReady finds a replicated volume that is Ready.
func (s *State) replicatedReady(id, action string) (*Volume, *Rejection) {
	v, rej := s.readyVolume(id)
	if rej == nil && v.Replication == nil {
		rej = Reject(Precondition, "%s: volume %s is not replicated", action, v.ID)
	}
	return v, rej
}

// applyRemoveReplica removes a replica: it does not take part in the replication any more,
// and its host has to remove the device. A replica that is in use cannot be removed, nor
// the last one that is up to date.
func applyRemoveReplica(s *State, m Meta, c *fsmpb.RemoveReplica) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.replicatedReady(c.GetVolumeId(), "remove a replica")
	if rej != nil {
		return nil, rej
	}
	r := v.Replica(HostID(c.GetHostId()))
	if r == nil || r.Node != NodeID(c.GetNodeId()) {
		return &fsmpb.Outcome{VolumeId: string(v.ID)}, nil
	}
	if r.State == ReplicaLeaving {
		return operationOutcome(v), nil
	}
	if rej := s.checkRemovable(v, r); rej != nil {
		return nil, rej
	}
	updated := s.withReplicaLeaving(v, r, m.Index)
	s.beginReplicaChange(&updated, m)
	s.putVolume(updated)
	return s.operationOutcomeOf(&updated, OpReplicaChange), nil
}

// checkRemovable: nothing uses the replica, and the other one has every write, as recorded
// and as its host observed since the last grant.
func (s *State) checkRemovable(v *Volume, r *Replica) *Rejection {
	sync, peer := v.ActiveReplica(r.Host), v.PeerReplica(r.Host)
	if op := s.operationBlockingReplicaChange(v); op != nil {
		return Reject(Busy, "remove a replica of volume %s: %s is under way on it", v.ID, op.ID)
	}
	if relation := s.RelationOf(v); relation != nil && (!relation.Promoted || s.siteOf(r.Node) == relation.Primary) {
		return Reject(Precondition, "remove a replica of volume %s: the one on node %s is the only one at site %s, which is primary or may become it: promote the other site first", v.ID, r.Node, s.siteOf(r.Node))
	}
	if m := v.RelationMember; m != nil && m.Apart && m.ApartHost == r.Host {
		return Reject(Precondition, "remove a replica of volume %s: what the one on node %s has was given up by force: resynchronise it at site %s with force first", v.ID, r.Node, m.ApartAt)
	}
	switch {
	case v.Publication(r.Node) != nil || s.mayBePrimary(v, r.Host) && !sync.Outdated:
		return Reject(InUse, "remove a replica of volume %s: node %s uses it", v.ID, r.Node)
	case v.Teardown(r.Host) != nil && !sync.Outdated:
		return Reject(InUse, "remove a replica of volume %s: node %s has not ended its use of it, nor was it outdated", v.ID, r.Node)
	case peer == nil:
		return Reject(Precondition, "remove a replica of volume %s: the one on node %s is the only one", v.ID, r.Node)
	case s.level2() && s.copyMadeFrom(v.ID, r.Node) != "":
		return Reject(Busy, "remove a replica of volume %s: %s is being made from the one on node %s", v.ID, s.copyMadeFrom(v.ID, r.Node), r.Node)
	case r.State == ReplicaPlanned:
		return nil // it never had any content
	case s.level2() && !v.devicePresent(peer.Host):
		return Reject(Precondition, "remove a replica of volume %s on node %s: the device of the other one is missing", v.ID, r.Node)
	case peer.DiskFailed != 0:
		return Reject(Precondition, "remove a replica of volume %s on node %s: its kernel gave up the disk of the other one, which may miss writes", v.ID, r.Node)
	case !peer.UpToDate || peer.Observed.Disk != fsmpb.DiskState_DISK_STATE_UP_TO_DATE || peer.Observed.Generation != v.Replication.Generation || !s.replicaReachable(peer):
		return Reject(Precondition, "remove a replica of volume %s on node %s: the other one is not known to be up to date now", v.ID, r.Node)
	}
	return nil
}

// devicePresent tells whether the host reported its device created, and not missing since.
func (v *Volume) devicePresent(host HostID) bool {
	r := v.Replica(host)
	return r != nil && r.State == ReplicaPresent
}

// withoutReplicaSync ends the part that the host's replica takes in the replication, with
// its grant and a decision to force it.
func (v *Volume) withoutReplicaSync(host HostID, index uint64) Volume {
	if v.ActiveReplica(host) == nil {
		return *v
	}
	updated := v.withReplication()
	r := updated.Replication
	updated.ActiveReplica(host).ReplicaSync = nil
	updated.withoutDecisions(host)
	r.Generation = index
	if r.Primary != nil && r.Primary.Host == host {
		r.Primary = nil
		updated.noteUseEnded(index)
	}
	if r.Forced != nil && r.Forced.Host == host {
		r.Forced = nil
	}
	return updated
}

// withoutReplica drops the record of a replica whose device is gone.
func (v *Volume) withoutReplica(host HostID) Volume {
	updated := *v
	updated.Replicas = slices.DeleteFunc(slices.Clone(v.Replicas), func(r Replica) bool { return r.Host == host })
	if v.Import.isOf(host) {
		updated.Import = nil
	}
	return updated
}

// loseOneReplica: one host of a replicated volume was recorded as lost. A Ready volume stays
// with the other replica; one that was being created has failed, and is removed from
// feature level 2 on.
func (s *State) loseOneReplica(v *Volume, host HostID, at Epoch, reason string) {
	if v.isCreating() && s.level2() {
		*v = v.asFailedCreate(at, Busy, reason)
		return
	}
	if v.isCreating() {
		op := *v.Operation
		op.State, op.LastError = OpFailed, reason
		v.Operation, v.Phase = &op, Failed{Reason: reason}
		return
	}
	if _, ready := v.Phase.(Ready); ready {
		*v = v.withoutReplica(host)
	}
}

// isChangingReplicas tells whether a replica is being added to the volume or taken from it.
func (v *Volume) isChangingReplicas() bool {
	if _, ready := v.Phase.(Ready); !ready || v.Replication == nil {
		return false
	}
	return slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.State == ReplicaPlanned || r.State == ReplicaLeaving })
}

// isAddingReplica tells whether a Ready volume has a replica whose device is not created yet.
func (v *Volume) isAddingReplica() bool {
	_, ready := v.Phase.(Ready)
	return ready && slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.State == ReplicaPlanned })
}

// replicaChangeDone tells whether the addition or removal of a replica is done. An
// unreachable host may remove its replica much later: the operation does not wait for that
// once the volume has all its replicas, each up to date.
func (v *Volume) replicaChangeDone() bool {
	if active := v.ActiveReplicas(); len(active) >= int(v.Replication.ReplicaCount) {
		return !v.isAddingReplica() && allUpToDate(active)
	}
	return !v.isChangingReplicas()
}

// isMadeFromSource tells whether the host's device is created from the volume's source; the
// other one of a replicated volume is created empty, and synchronised.
func (v *Volume) isMadeFromSource(host HostID) bool {
	return v.Replication == nil || v.isCreating() && v.Replication.Seed == host
}
