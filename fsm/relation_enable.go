package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyEnableReplication makes the endpoint's site the primary of a relation with another site, for all members of
// a group in one entry. Enabled already with the same parameters, it records the claim of the endpoint's site.
func applyEnableReplication(s *State, m Meta, c *fsmpb.EnableReplication) (*fsmpb.Outcome, *Rejection) {
	x, rej := s.replicationSource(c.GetSource(), c.GetReplicationId())
	if rej != nil {
		return nil, rej
	}
	want, rej := x.requestedRelation(m, c)
	if rej != nil {
		return nil, rej
	}
	if x.relation != nil {
		return x.enableAgain(m, want, c)
	}
	e := x.edit()
	e.relation = *want
	if rej := s.enableMembers(m, e, c); rej != nil {
		return nil, rej
	}
	e.put()
	return x.outcome(), nil
}

// enableMembers makes all of them ready to be members, or none: on a copy of the state, where each takes its device number,
// port and room before the next one is given any.
func (s *State) enableMembers(m Meta, e *relationEdit, c *fsmpb.EnableReplication) *Rejection {
	plan := s.Fork()
	plan.lookups = newTrialLookups()
	for i := range e.volumes {
		if rej := plan.enableMember(m, e, i, c); rej != nil && !(plantedbug.Is(plantedbug.GroupEnabledInPart) && i > 0) {
			return rej
		}
		plan.putVolume(e.volumes[i])
	}
	return nil
}

func (x *replicationSource) outcome() *fsmpb.Outcome {
	if x.group != nil {
		return &fsmpb.Outcome{VolumeGroupId: string(x.group.ID)}
	}
	return &fsmpb.Outcome{VolumeId: string(x.members[0].ID)}
}

// requestedRelation is what is asked for, before anything of the volumes is checked.
func (x *replicationSource) requestedRelation(m Meta, c *fsmpb.EnableReplication) (*Relation, *Rejection) {
	switch {
	case !m.named:
		return nil, Reject(Invalid, "enable replication of %s: it needs the site that is to be primary", x.name())
	case x.inGroupsRelation():
		return nil, Reject(Precondition, "enable replication of %s: it is replicated with its volume group %s", x.name(), x.s.GroupOf(x.members[0].ID))
	case len(c.GetReplicationId()) > maxIDBytes:
		return nil, Reject(Invalid, "enable replication of %s: the replication id has more than %d bytes", x.name(), maxIDBytes)
	}
	if rej := CheckSite(c.GetPeerSite()); rej != nil {
		return nil, rej
	}
	peer := SiteFrom(c.GetPeerSite())
	if peer == m.site {
		return nil, Reject(Invalid, "enable replication of %s: the peer site is the endpoint's own, %s", x.name(), m.site)
	}
	sites := []Site{m.site, peer}
	slices.Sort(sites)
	return &Relation{
		Sites: sites, ReplicationID: c.GetReplicationId(), Promoted: true, Primary: m.site, Role: m.Index, Claims: []Site{m.site},
		DiscardUnkept: c.GetDiscardUnkept(), Separately: c.GetSeparately(), FreezeIsolated: c.GetFreezeIsolated(), Enabled: m.Index,
	}, nil
}

// enableAgain: the relation is there. The sites are compared as a pair: each names the other one as its peer.
func (x *replicationSource) enableAgain(m Meta, want *Relation, c *fsmpb.EnableReplication) (*fsmpb.Outcome, *Rejection) {
	have := x.relation
	if !slices.Equal(have.Sites, want.Sites) {
		return nil, Reject(Precondition, "enable replication of %s: it is replicated between the sites %s and %s already", x.name(), have.Sites[0], have.Sites[1])
	}
	same := have.DiscardUnkept == want.DiscardUnkept && have.Separately == want.Separately && have.FreezeIsolated == want.FreezeIsolated
	for _, v := range x.members {
		same = same && (c.GetProtocol() == fsmpb.Protocol_PROTOCOL_UNKNOWN || c.GetProtocol() == v.Replication.Protocol)
	}
	if !same {
		return nil, Reject(Precondition, "enable replication of %s: it is replicated with other parameters", x.name())
	}
	if !slices.Contains(have.Claims, m.site) {
		e := x.edit()
		e.relation = have.withClaim(m.site)
		e.put()
	}
	return x.outcome(), nil
}

// enableMember makes one volume ready to be a member: it has, or is given, a replica at each of the two sites.
func (s *State) enableMember(m Meta, e *relationEdit, i int, c *fsmpb.EnableReplication) *Rejection {
	v := e.members[i]
	if rej := s.checkEnable(m, v, c.GetProtocol()); rej != nil {
		return rej
	}
	peer := e.relation.other(m.site)
	if held := s.publicationAt(v, peer); held != nil {
		return Reject(Precondition, "enable replication of volume %s: it is published to node %s at site %s, which is not to be primary", v.ID, held.Node, peer)
	}
	updated := e.volume(i)
	member := &RelationMember{UseEnded: m.Index} // it may have been used until it joins
	switch {
	case v.Replication == nil:
		if rej := s.beginConversion(m, updated, peer, c); rej != nil {
			return rej
		}
		member.Added, member.AddedAt = true, peer
	case len(v.Sites) > 0:
		if !slices.Equal(v.Sites, e.relation.Sites) {
			return Reject(Precondition, "enable replication of volume %s: its replicas are at the sites %s and %s", v.ID, v.Sites[0], v.Sites[1])
		}
		*updated = v.withReplication()
	default:
		if rej := s.addReplicaAt(m, updated, peer, c); rej != nil {
			return rej
		}
		member.Added, member.AddedAt = true, peer
	}
	updated.RelationMember, updated.Home = member, m.site
	updated.Sites = slices.Clone(e.relation.Sites)
	updated.forgetSynced()
	updated.noteSynced(s.cluster.Time)
	if e.group != nil {
		updated.renumber(OpReplicaChange, m.Index, v.Created.Index)
	}
	return nil
}

// checkEnable checks what does not depend on the volume's replicas.
func (s *State) checkEnable(m Meta, v *Volume, protocol fsmpb.Protocol) *Rejection {
	if rej := s.checkHome(m.endpoint, "enable replication", v); rej != nil {
		return rej
	}
	switch {
	case v.isFailed():
		return Reject(Precondition, "enable replication: volume %s failed", v.ID)
	case v.Relation != nil:
		return Reject(Precondition, "enable replication: volume %s is replicated by itself already", v.ID)
	case v.Unconverted != nil:
		return Reject(Busy, "enable replication of volume %s: what was made for it before is still being removed", v.ID)
	case v.Replication != nil && protocol != fsmpb.Protocol_PROTOCOL_UNKNOWN && protocol != v.Replication.Protocol:
		return Reject(Precondition, "enable replication of volume %s: it was created with another protocol than %s", v.ID, protocolName(protocol))
	case v.Replication != nil && v.Replication.Conversion != nil:
		return Reject(Busy, "enable replication of volume %s: it is being converted", v.ID)
	}
	return v.reclaimFirst("enable replication of")
}

// addReplicaAt gives a volume that has one replica, of DRBD, another one at the peer site.
func (s *State) addReplicaAt(m Meta, updated *Volume, peer Site, c *fsmpb.EnableReplication) *Rejection {
	v := *updated
	active := v.ActiveReplicas()
	switch {
	case len(active) == 1 && v.isChangingReplicas():
		return Reject(Busy, "enable replication of volume %s: a replica of it is being made or removed; retry", v.ID)
	case len(active) != 1:
		return Reject(Precondition, "enable replication of volume %s: its %d replicas are at one site, and it can have %d: remove one first", v.ID, len(active), MaxReplicas)
	case s.siteOf(active[0].Node) != m.site:
		return Reject(Precondition, "enable replication of volume %s: its replica is not at site %s", v.ID, m.site)
	case active[0].Outdated || active[0].DiskFailed != 0:
		return Reject(Precondition, "enable replication of volume %s: its replica is not up to date", v.ID)
	case s.level3() && v.mayMissWrites(active[0]):
		return Reject(Precondition, "enable replication of volume %s: nothing says since the cluster was restored that its replica has every write: force it to go on first, if what it has is good enough", v.ID)
	case s.operationBlockingReplicaChange(&v) != nil:
		return Reject(Busy, "enable replication of volume %s: %s is under way on it", v.ID, s.operationBlockingReplicaChange(&v).ID)
	}
	r, rej := s.placeAtPeer(&v, peer, c)
	if rej != nil {
		return rej
	}
	port, rej := s.portForAdded(&v, &r)
	if rej != nil {
		return rej
	}
	*updated = v.withReplication()
	updated.Replication.Port, updated.Replication.ReplicaCount, updated.Replication.Generation = port, MaxReplicas, m.Index
	r.ReplicaSync = &ReplicaSync{Outdated: true, KeyGeneration: v.Crypt.keyGeneration()}
	updated.Replicas = append(updated.Replicas, r)
	s.beginReplicaChange(updated, m)
	return nil
}

// placeAtPeer places a second replica at the peer site.
func (s *State) placeAtPeer(v *Volume, peer Site, c *fsmpb.EnableReplication) (Replica, *Rejection) {
	w := &placementRequest{size: v.Crypt.deviceBytes(v.Size), facts: c.GetFacts(), replicated: true, port: 0, at: endpoint{site: peer, named: true}}
	for i := range v.Replicas {
		w.excluded = append(w.excluded, v.Replicas[i].Node)
	}
	if node := NodeID(c.GetPeerNode()); node != "" {
		n, ok := s.Node(node)
		if !ok || n.site() != peer {
			return Replica{}, Reject(Invalid, "enable replication of volume %s: node %s is not known at site %s", v.ID, clip(c.GetPeerNode()), peer)
		}
		w.requisite = []Topology{{{Key: TopologyKey, Value: string(n.ID)}}}
	}
	r, rej := s.placePeerReplica(w, v.Replicas[0].Node)
	if rej != nil {
		return r, Reject(rej.Reason, "enable replication of volume %s at site %s: %s", v.ID, peer, rej.Message)
	}
	if node := NodeID(c.GetPeerNode()); node != "" && r.Node != node {
		return r, Reject(NoCapacity, "enable replication of volume %s: node %s cannot be asked, is cordoned, holds no replicas, or has no room for %d bytes", v.ID, node, w.size)
	}
	return r, nil
}
