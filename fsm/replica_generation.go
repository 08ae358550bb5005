package fsm

import "github.com/holdfast-storage/holdfast/plantedbug"

// bumpGenerations begins a new generation of each volume of which a teardown is pending on this
// host, as the host became unreachable or reachable. Whether the peer stays disconnected depends
// on that, so only what the peer observes from here on counts (S8). Hosts whose replicas wait
// for this one are notified.
func (s *State) bumpGenerations(n *Node) {
	if s.level2() {
		s.beginSweep(SweepGenerations, n, "")
		s.beginSweep(SweepWaiting, n, "")
		return
	}
	var changed []Volume
	for v := range s.volumesWithTeardownOn(n.ID) {
		if updated, bumped := v.withBumpedGeneration(n.Host, s.cluster.Index); bumped {
			changed = append(changed, updated)
		}
	}
	for _, v := range changed {
		s.putVolume(v)
	}
	s.announceWaiting(n)
}

// announceWaiting announces a change to the replicas that wait for their peer on the host.
func (s *State) announceWaiting(n *Node) {
	s.index.waitingForPeer.Ascend(nodeVolume{node: n.ID}, func(p nodeVolume) bool {
		if p.node == n.ID {
			s.announcePeersOf(p.volume, n.ID)
		}
		return p.node == n.ID
	})
}

// withBumpedGeneration is the volume in a new generation, where a teardown of it is pending on
// the host.
func (v *Volume) withBumpedGeneration(host HostID, index uint64) (Volume, bool) {
	if l := v.ActiveReplica(host); l == nil || l.Outdated || v.Teardown(host) == nil {
		return *v, false
	}
	updated := v.withReplication()
	updated.Replication.Generation = index
	return updated, true
}

// withObservationReset forgets what was observed in an earlier boot: the replica is neither
// attached nor primary any more (S5).
func (v *Volume) withObservationReset(host HostID) (Volume, bool) {
	l := v.ActiveReplica(host)
	if l == nil || !l.UpToDate && l.Observed == (ReplicaObservation{}) {
		return *v, false
	}
	updated := v.withReplication()
	l = updated.ActiveReplica(host)
	l.UpToDate, l.Observed = false, ReplicaObservation{}
	if plantedbug.Is(plantedbug.OutdatedForgotten) {
		l.UpToDate, l.Outdated = true, false
	}
	return updated, true
}

// announcePeers announces a change to the hosts that replicate with this one.
func (s *State) announcePeers(n *Node) {
	if s.level2() {
		s.beginSweep(SweepPeers, n, "")
		return
	}
	for v := range s.VolumesOn(n.ID) {
		s.announceOtherNodes(v, n.ID)
	}
}

func (s *State) announcePeersOf(key uuid, node NodeID) {
	if v, ok := s.volume(key); ok {
		s.announceOtherNodes(v, node)
	}
}

func (s *State) announceOtherNodes(v *Volume, node NodeID) {
	if v.Replication == nil {
		return
	}
	for _, involved := range v.InvolvedNodes() {
		if involved != node {
			s.changes = append(s.changes, Change{Volume: v.ID, Node: involved})
		}
	}
}

// resetReplicaObservations forgets after a restore which replicas are up to date, and every
// grant: entries that were lost may have outdated what this state calls up to date. Every
// replica is observed again. Outdated ones stay outdated.
func (s *State) resetReplicaObservations() {
	if s.level2() {
		s.beginSweep(SweepRestore, nil, "")
		s.resetGroupRelations()
		s.runSweeps()
		return
	}
	var changed []Volume
	for v := range s.Volumes("") {
		if updated, replicated := v.withReplicationReset(s.cluster.Index); replicated {
			changed = append(changed, updated)
		}
	}
	for _, v := range changed {
		s.putVolume(v)
	}
}

func (v *Volume) withReplicationReset(index uint64) (Volume, bool) {
	if v.Replication == nil {
		return *v, false
	}
	updated := v.withReplication()
	r := updated.Replication
	r.Generation, r.Primary, r.Forced = index, nil, nil
	for _, l := range updated.ActiveReplicas() {
		l.UpToDate, l.Observed, l.InSyncUUID, l.SoloPrimaryUUID = false, ReplicaObservation{}, RecordedUUID{}, RecordedUUID{}
	}
	return updated, true
}

// withRestoreReset is withReplicationReset from feature level 2 on: nobody was granted in this incarnation yet.
func (v *Volume) withRestoreReset(index uint64) (Volume, bool) {
	updated, changed := v.withReplicationReset(index)
	if changed {
		updated.Replication.LastGrantIndex = 0
		updated.noteUseEnded(index) // the log that was lost may have granted it
	}
	updated, converted := updated.withConversionRestored()
	if v.Relation != nil {
		reset := v.Relation.withRestoreReset(index)
		updated.Relation = &reset
	}
	return updated, changed || converted
}

// withRestoreReset: the role may have moved in the part of the log that was lost. Nobody has it, and an operator says
// who gets it: each site is demoted before it is promoted (S1, S41).
func (r *Relation) withRestoreReset(index uint64) Relation {
	updated := *r
	updated.Promoted, updated.Move, updated.Cut, updated.Role = false, nil, 0, index
	updated.Ousted = []Ousted{{Site: r.Sites[0], Index: index}, {Site: r.Sites[1], Index: index}}
	return updated
}

func (s *State) resetGroupRelations() {
	var replicated []VolumeGroup
	for g := range s.VolumeGroups("") {
		if g.Relation != nil {
			replicated = append(replicated, *g)
		}
	}
	for _, g := range replicated {
		reset := g.Relation.withRestoreReset(s.cluster.Index)
		g.Relation = &reset
		s.putVolumeGroup(g)
	}
}
