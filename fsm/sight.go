package fsm

// newSight begins a new generation of each volume whose former primary, on this host,
// cannot be asked or can be asked again: what its peer sees from here on is seen
// knowing whether to stay disconnected (S8). A replica that waits for its peer is told
// whether that can be asked.
func (s *State) newSight(n *Node) {
	if s.level2() {
		s.beginSweep(SweepSight, n, "")
		s.beginSweep(SweepWaiting, n, "")
		return
	}
	var changed []Volume
	for v := range s.owedBy(n.ID) {
		if now, anew := v.sightedAnew(n.Host, s.cluster.Index); anew {
			changed = append(changed, now)
		}
	}
	for _, v := range changed {
		s.putVolume(v)
	}
	s.tellWaiting(n)
}

// tellWaiting tells the replicas that wait for their peer on the host.
func (s *State) tellWaiting(n *Node) {
	s.index.waiting.Ascend(placed{node: n.ID}, func(p placed) bool {
		if p.node == n.ID {
			s.touchPeersOf(p.volume, n.ID)
		}
		return p.node == n.ID
	})
}

// sightedAnew is the volume in a new generation, where the host was its primary and owes
// the end of that.
func (v *Volume) sightedAnew(host HostID, index uint64) (Volume, bool) {
	if l := v.Leg(host); l == nil || l.Outdated || v.Teardown(host) == nil {
		return *v, false
	}
	now := v.withReplication()
	now.Replication.Generation = index
	return now, true
}

// forgotAttachment: what was attached or primary in an earlier boot is not any more (S5).
func (v *Volume) forgotAttachment(host HostID) (Volume, bool) {
	l := v.Leg(host)
	if l == nil || !l.UpToDate && l.Seen == (ReplicaSeen{}) {
		return *v, false
	}
	now := v.withReplication()
	l = now.Replication.leg(host)
	l.UpToDate, l.Seen = false, ReplicaSeen{}
	return now, true
}

// touchPeers tells the hosts that replicate with this one to look at it again.
func (s *State) touchPeers(n *Node) {
	if s.level2() {
		s.beginSweep(SweepPeers, n, "")
		return
	}
	for v := range s.VolumesOn(n.ID) {
		s.touchOthers(v, n.ID)
	}
}

func (s *State) touchPeersOf(key uuid, node NodeID) {
	if v, ok := s.volume(key); ok {
		s.touchOthers(v, node)
	}
}

func (s *State) touchOthers(v *Volume, node NodeID) {
	if v.Replication == nil {
		return
	}
	for _, holder := range v.Holders() {
		if holder != node {
			s.touched = append(s.touched, Touch{Volume: v.ID, Node: holder})
		}
	}
}

// forgetReplicas takes back every word that a replica is up to date, and every grant:
// the log went on, and may have outdated what it calls up to date here. Each host is
// seen anew. That a replica lost stays.
func (s *State) forgetReplicas() {
	if s.level2() {
		s.beginSweep(SweepReplicas, nil, "")
		s.sweep()
		return
	}
	var changed []Volume
	for v := range s.Volumes("") {
		if now, replicated := v.withReplicasForgotten(s.cluster.Index); replicated {
			changed = append(changed, now)
		}
	}
	for _, v := range changed {
		s.putVolume(v)
	}
}

func (v *Volume) withReplicasForgotten(index uint64) (Volume, bool) {
	if v.Replication == nil {
		return *v, false
	}
	now := v.withReplication()
	r := now.Replication
	r.Generation, r.Primary, r.Forced = index, nil, nil
	for i := range r.Legs {
		l := &r.Legs[i]
		l.UpToDate, l.Seen, l.Settled, l.Alone = false, ReplicaSeen{}, KnownUUID{}, KnownUUID{}
	}
	return now, true
}
