package fsm

import (
	"slices"
)

// checkReplication is S151 to S159 of one volume.
func (s *State) checkReplication(v *Volume) error {
	if v.Replication == nil {
		return checkLocal(v)
	}
	for _, check := range []func(*Volume) error{s.checkMinor, s.checkGrant, s.checkReplicaSyncs, s.checkReplicationIndexes, checkInitialSync, s.checkLastCopy} {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

// checkLocal is S159 of a volume that is not replicated.
func checkLocal(v *Volume) error {
	if v.Unconverted != nil {
		return checkUnconverted(v)
	}
	if len(v.Replicas) > 1 || slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.State == ReplicaLeaving || r.ReplicaSync != nil }) {
		return violated("S159", "volume %s is not replicated and has the replicas %v", v.ID, v.replicaStates())
	}
	return nil
}

// checkUnconverted: beside the volume's replica there are only those that are being removed.
func checkUnconverted(v *Volume) error {
	staying := 0
	for i := range v.Replicas {
		if v.Replicas[i].State != ReplicaLeaving && v.Replicas[i].State != ReplicaGone {
			staying++
		}
	}
	if staying > 1 || slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.ReplicaSync != nil }) {
		return violated("S159", "volume %s could not be converted and has the replicas %v", v.ID, v.replicaStates())
	}
	return nil
}

// replicaStates are the states of the replicas' devices, by host, for people.
func (v *Volume) replicaStates() map[HostID]ReplicaState {
	states := map[HostID]ReplicaState{}
	for _, r := range v.Replicas {
		states[r.Host] = r.State
	}
	return states
}

// checkMinor is S152.
func (s *State) checkMinor(v *Volume) error {
	r := v.Replication
	key, _ := v.ID.uuid()
	if owner, ok := s.index.minors.Get(r.Minor); !ok || owner != key || r.Minor < firstMinor || r.Port < firstPort || r.Port > lastPort || !s.level2() && r.Port != firstPort+r.Minor-firstMinor {
		return violated("S152", "volume %s has the minor %d and the port %d", v.ID, r.Minor, r.Port)
	}
	return nil
}

// portOwners are the volumes that have the hosts' ports.
type portOwners map[hostPort]VolumeID

// add checks S152 of the volume against the volumes before it.
func (o portOwners) add(v *Volume) (err error) {
	(&storedVolume{Volume: *v}).eachPort(func(p hostPort) {
		if other, twice := o[p]; twice {
			err = violated("S152", "volumes %s and %s both have the port %d on host %s", other, v.ID, p.port, p.host)
		}
		o[p] = v.ID
	})
	return err
}

// checkGrant is S151 and S154.
func (s *State) checkGrant(v *Volume) error {
	r := v.Replication
	if r.Forced != nil && v.ActiveReplica(r.Forced.Host) == nil {
		return violated("S151", "volume %s is forced on host %s, which has no replica of it", v.ID, r.Forced.Host)
	}
	g := r.Primary
	if g == nil {
		return nil
	}
	p := v.Publication(g.Node)
	switch l := v.ActiveReplica(g.Host); {
	case p == nil || p.Host != g.Host || p.Epoch != g.Epoch || l == nil:
		return violated("S151", "volume %s is granted to node %s at epoch %s, to which it is not published so", v.ID, g.Node, g.Epoch)
	case s.PrimaryHost(v) != "" && l.Outdated:
		return violated("S154", "volume %s is granted to host %s, which is outdated", v.ID, g.Host)
	case g.Index > r.LastGrantIndex || g.Boot != "" && g.Index != r.LastGrantIndex:
		return violated("S151", "volume %s has a grant of index %d, the last is of %d", v.ID, g.Index, r.LastGrantIndex)
	}
	return nil
}

// checkReplicaSyncs is S153, S156 and S158.
func (s *State) checkReplicaSyncs(v *Volume) error {
	_, deleting := v.Phase.(Deleting)
	for i := range v.Replicas {
		switch x := &v.Replicas[i]; {
		case x.State == ReplicaLeaving && v.isActive(x):
			return violated("S156", "volume %s is still replicated to host %s, which is leaving", v.ID, x.Host)
		case x.State != ReplicaGone && x.State != ReplicaLeaving && !v.isActive(x) && !deleting:
			return violated("S156", "volume %s has a replica on host %s that is not replicated", v.ID, x.Host)
		}
	}
	active := v.ActiveReplicas()
	if len(active) > int(v.Replication.ReplicaCount) {
		return violated("S156", "volume %s has the replicas %v", v.ID, v.replicaStates())
	}
	for i, l := range active {
		n, ok := s.nodeOfReplica(l)
		switch {
		case l.UpToDate && l.Outdated:
			return violated("S153", "the replica of volume %s on host %s is up to date and outdated", v.ID, l.Host)
		case l.SoloPrimaryUUID.Value != 0 && v.PeerReplica(l.Host) != nil && !v.PeerReplica(l.Host).Outdated:
			return violated("S153", "the replica of volume %s on host %s went on alone, and its peer is not outdated", v.ID, l.Host)
		case i > 0 && active[i-1].Host == l.Host:
			return violated("S156", "volume %s has two replicas on host %s", v.ID, l.Host)
		case ok && l.UpToDate && l.Boot != n.Boot:
			return violated("S158", "the replica of volume %s on host %s is up to date in an earlier boot", v.ID, l.Host)
		case l.Observed != (ReplicaObservation{}) && !l.Observed.Unconfigured && (l.Observed.Boot != l.Boot || l.Observed.Attachment != l.Attachment):
			return violated("S158", "the replica of volume %s on host %s was seen in another attachment", v.ID, l.Host)
		}
	}
	return nil
}

// checkReplicationIndexes is S155: no recorded index is in the future, and no recorded UUID
// that counts is older than the last grant.
func (s *State) checkReplicationIndexes(v *Volume) error {
	r, at := v.Replication, s.cluster.Index
	if r.Generation > at || r.LastGrantIndex > r.Generation || r.InitialSyncIndex > r.Generation || r.Generation < v.Created.Index {
		return violated("S155", "volume %s was synchronised at %d, granted at %d, and is at generation %d in a state at %d", v.ID, r.InitialSyncIndex, r.LastGrantIndex, r.Generation, at)
	}
	for _, l := range v.ActiveReplicas() {
		if l.InSyncUUID.Index > at || l.SoloPrimaryUUID.Index > at || l.Observed.Generation > at || l.InSyncUUID.Value != 0 && l.InSyncUUID.Index <= r.LastGrantIndex {
			return violated("S155", "host %s knows the contents %v and %v of volume %s, which was granted at %d", l.Host, l.InSyncUUID, l.SoloPrimaryUUID, v.ID, r.LastGrantIndex)
		}
	}
	return nil
}

// checkLastCopy is S160: while a leaving replica could take part again, another replica has
// or had the content; and no host is requested to remove the last good copy.
func (s *State) checkLastCopy(v *Volume) error {
	if _, ready := v.Phase.(Ready); !ready || !s.level2() {
		return nil
	}
	present := slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.State == ReplicaPresent || r.State == ReplicaMissing })
	if len(v.Replication.Leaving) > 0 && !present {
		return violated("S160", "no replica of volume %s has the content: %v", v.ID, v.replicaStates())
	}
	for _, host := range v.Replication.Leaving {
		if r := v.Replica(host); r == nil || r.State != ReplicaLeaving || r.ReplicaSync == nil {
			return violated("S160", "volume %s knows what host %s had of it, which is not leaving", v.ID, host)
		}
	}
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if n, ok := s.Node(r.Node); ok && n.Host == r.Host && r.Size > 0 && s.goal(n, v, v.Replica(r.Host)) == GoalRemove && !v.hasGoodCopy() {
			return violated("S160", "host %s is asked to remove the last copy of volume %s", r.Host, v.ID)
		}
	}
	return nil
}

// checkInitialSync is S157.
func checkInitialSync(v *Volume) error {
	_, ready := v.Phase.(Ready)
	if synced := v.Replication.InitialSyncIndex != 0; v.isCreating() && synced || ready && synced == (v.converting() != nil) {
		return violated("S157", "volume %s is %T, with its initial sync at %d", v.ID, v.Phase, v.Replication.InitialSyncIndex)
	}
	return nil
}
