package fsm

// newSight begins a new generation of each volume whose former primary, on this host,
// cannot be asked or can be asked again: what its peer sees from here on is seen
// knowing whether to stay disconnected (S8).
func (s *State) newSight(node NodeID, host HostID) {
	var changed []Volume
	for v := range s.owedBy(node) {
		if l := v.Leg(host); l == nil || l.Outdated || v.Teardown(host) == nil {
			continue
		}
		now := v.withReplication()
		now.Replication.Generation = s.cluster.Index
		changed = append(changed, now)
	}
	for _, v := range changed {
		s.putVolume(v)
	}
}

// forgetAttachments: what was attached or primary in an earlier boot is not any more (S5).
func (s *State) forgetAttachments(node NodeID, host HostID) {
	var changed []Volume
	for v := range s.VolumesOn(node) {
		l := v.Leg(host)
		if l == nil || !l.UpToDate && l.Seen == (ReplicaSeen{}) {
			continue
		}
		now := v.withReplication()
		l = now.Replication.leg(host)
		l.UpToDate, l.Seen = false, ReplicaSeen{}
		changed = append(changed, now)
	}
	for _, v := range changed {
		s.putVolume(v)
	}
}

// touchPeers tells the hosts that replicate with this one to look at it again.
func (s *State) touchPeers(node NodeID) {
	for v := range s.VolumesOn(node) {
		if v.Replication == nil {
			continue
		}
		for _, holder := range v.Holders() {
			if holder != node {
				s.touched = append(s.touched, Touch{Volume: v.ID, Node: holder})
			}
		}
	}
}

// forgetReplicas takes back every word that a replica is up to date, and every grant:
// the log went on, and may have outdated what it calls up to date here. Each host is
// seen anew. That a replica lost stays.
func (s *State) forgetReplicas() {
	var changed []Volume
	for v := range s.Volumes("") {
		if v.Replication == nil {
			continue
		}
		now := v.withReplication()
		r := now.Replication
		r.Generation, r.Primary, r.Forced = s.cluster.Index, nil, nil
		for i := range r.Legs {
			l := &r.Legs[i]
			l.UpToDate, l.Seen, l.Settled, l.Alone = false, ReplicaSeen{}, KnownUUID{}, KnownUUID{}
		}
		changed = append(changed, now)
	}
	for _, v := range changed {
		s.putVolume(v)
	}
}
