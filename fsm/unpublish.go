package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyUnpublishVolume ends a node's publication, or all of them. What is not
// published is unpublished. No other host can reach the data of a single replica: its
// host keeps the obligation to end what it may have brought up, whether it can be asked
// now or not (S31). A replicated volume that is staged on a host that can be asked is not
// taken away: the host is asked to take it down, and the command is to be proposed again
// when it did; until then it is still published. From one that cannot be asked, this is the
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
		if s.canAsk(&ending[i]) && ending[i].Staging != nil && (v.Replicated() || !s.level2()) {
			return s.askToEnd(v, &ending[i], out)
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

// askToEnd asks a host that can be asked to take the volume down, once; it stays
// published until the host did. At level 1 the host is not asked.
func (s *State) askToEnd(v *Volume, p *Publication, out *fsmpb.Outcome) (*fsmpb.Outcome, *Rejection) {
	if !s.level2() || p.Ending {
		used := ""
		if p.UsedBy != "" {
			used = ": " + p.UsedBy
		}
		return nil, Reject(InUse, "unpublish volume %s: node %s has it staged at %s%s", v.ID, p.Node, p.Staging.Path, used)
	}
	now := *p
	now.Ending = true
	s.putVolume(v.withPublication(now))
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

// revoked is the volume without the publication; a host that cannot be asked, that has
// it staged or that may still be primary, keeps the obligation to end what it may have
// brought up.
func (s *State) revoked(m Meta, v *Volume, p *Publication) Volume {
	now := v.withoutPublication(p.Node)
	now = now.withoutLimits(p.Host)
	owes := !s.canAsk(p) || s.mayBePrimary(v, p.Host) || s.level2() && p.Staging != nil
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
	case s.level2() && now.OperationOf(OpTeardown) == nil:
		now.putOperation(m.operation(OpTeardown))
	case s.level2():
	case now.Operation == nil:
		now.Operation = m.operation(OpTeardown)
	case now.Operation.Kind != OpTeardown: // it goes on with what is left of that afterwards
		now.Operation = now.Operation.turned(OpTeardown)
	}
	return now
}
