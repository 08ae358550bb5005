package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyUnpublishVolume ends a node's publication, or all of them. What is not
// published is unpublished. A reachable host must unstage first, and nothing
// changes until it did; an unreachable one keeps the obligation, as no other host
// can reach the data of a single replica (S31). Of a replicated volume this is the
// first step of a takeover (S8): from here on the host's questions are refused. With
// protocol A that would lose writes, so it takes a recorded decision first (S11).
func applyUnpublishVolume(s *State, m Meta, c *fsmpb.UnpublishVolume) (*fsmpb.Outcome, *Rejection) {
	v, ok := s.Volume(VolumeID(c.GetVolumeId()))
	if !ok {
		return &fsmpb.Outcome{}, nil
	}
	out := &fsmpb.Outcome{VolumeId: string(v.ID)}
	ending := v.ending(NodeID(c.GetNodeId()), epochFrom(c.GetEpoch()))
	for i := range ending {
		if s.canAsk(&ending[i]) && ending[i].Staging != nil {
			return nil, Reject(InUse, "unpublish volume %s: node %s has it staged at %s", v.ID, ending[i].Node, ending[i].Staging.Path)
		}
		if s.mustDecideFirst(v, &ending[i]) {
			return nil, Reject(Unreachable, "unpublish volume %s: node %s cannot be reached, and with protocol A the other replica may miss its last writes", v.ID, ending[i].Node)
		}
	}
	if len(ending) == 0 {
		return out, nil
	}
	now := *v
	for i := range ending {
		now = s.revoked(m, &now, &ending[i])
	}
	s.putVolume(now)
	if now.Operation != nil {
		out.OperationId = uint64(now.Operation.ID)
	}
	return out, nil
}

// ending are the publications that are meant: the node's, or all when it is
// empty, and only the one of the epoch when that is set (S4).
func (v *Volume) ending(node NodeID, epoch Epoch) []Publication {
	var meant []Publication
	for _, p := range v.Publications() {
		if (node == "" || p.Node == node) && (epoch.IsZero() || p.Epoch == epoch) {
			meant = append(meant, p)
		}
	}
	return meant
}

// canAsk tells whether the publication's host can be asked to unstage.
func (s *State) canAsk(p *Publication) bool {
	n, ok := s.Node(p.Node)
	return ok && n.Host == p.Host && n.State == NodeReachable
}

// mustDecideFirst is S11.
func (s *State) mustDecideFirst(v *Volume, p *Publication) bool {
	return v.Replicated() && v.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A && !s.canAsk(p) && !v.forcedElsewhere(p.Host)
}

// revoked is the volume without the publication; a host that cannot be asked, or that
// may still be primary, keeps the obligation to end what it may have brought up.
func (s *State) revoked(m Meta, v *Volume, p *Publication) Volume {
	now := v.withoutPublication(p.Node)
	now = now.withoutLimits(p.Host)
	owes := !s.canAsk(p) || s.mayBePrimary(v, p.Host)
	if v.Replicated() {
		now = now.withReplication()
		now.Replication.endGrant(m.Index)
	}
	if !owes {
		return now
	}
	if v.Replicated() {
		now.Replication.Generation = m.Index // what is seen from here on is seen after it
	}
	now = now.withTeardown(Teardown{Node: p.Node, Host: p.Host, Epoch: p.Epoch})
	switch {
	case now.Operation == nil:
		now.Operation = m.operation(OpTeardown)
	case now.Operation.Kind != OpTeardown: // it goes on with what is left of that afterwards
		now.Operation = now.Operation.turned(OpTeardown)
	}
	return now
}
