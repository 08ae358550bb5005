package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyUnpublishVolume ends a node's publication, or all of them; without one it changes
// nothing. Of a local volume the publication is revoked at once: no other host can reach its
// data, and its host has a pending teardown of what it may have staged, reachable or not (S31).
// A replicated volume that is staged on a reachable host stays published: the host is requested to
// unstage it, and the command is proposed again when it did. On an unreachable host, the
// unpublish is the first step of a takeover (S8): from here on the host's requests to outdate
// its peer are refused. With protocol A that could lose writes, so it takes a recorded
// decision first (S11). Orchestrators and operators do not end each other's.
func applyUnpublishVolume(s *State, m Meta, c *fsmpb.UnpublishVolume) (*fsmpb.Outcome, *Rejection) {
	if out := s.unpublishedVolume(m.Actor, m.endpoint, c); out != nil {
		return out, nil
	}
	v, _ := s.Volume(VolumeID(c.GetVolumeId()))
	out := &fsmpb.Outcome{VolumeId: string(v.ID)}
	ending := s.publicationsToEnd(m.Actor, m.endpoint, v, c)
	for i := range ending {
		if s.HostReachable(ending[i].Node, ending[i].Host) && ending[i].Staging != nil && (v.Replicated() || !s.level2()) {
			return s.requestEnd(v, &ending[i], out)
		}
		if s.needsForceFirst(v, &ending[i]) {
			return nil, Reject(Unreachable, "unpublish volume %s: node %s cannot be reached, and with protocol A the other replica may miss its last writes", v.ID, ending[i].Node)
		}
	}
	updated := *v
	for i := range ending {
		updated = s.withRevoked(m, &updated, &ending[i])
	}
	s.putVolume(updated)
	if updated.Operation != nil {
		out.OperationId = uint64(updated.Operation.ID)
	}
	return out, nil
}

// unpublishedVolume is the outcome where no publication is left that the actor ends; nil where one is.
func (s *State) unpublishedVolume(actor string, at endpoint, c *fsmpb.UnpublishVolume) *fsmpb.Outcome {
	v, ok := s.Volume(VolumeID(c.GetVolumeId()))
	switch {
	case !ok:
		return &fsmpb.Outcome{}
	case len(s.publicationsToEnd(actor, at, v, c)) == 0:
		return &fsmpb.Outcome{VolumeId: string(v.ID)}
	}
	return nil
}

// requestEnd requests a reachable host to unstage the volume, once; it stays published
// until the host did. At level 1 the host is not requested.
func (s *State) requestEnd(v *Volume, p *Publication, out *fsmpb.Outcome) (*fsmpb.Outcome, *Rejection) {
	if !s.level2() || p.Ending {
		used := ""
		if p.UsedBy != "" {
			used = ": " + p.UsedBy
		}
		return nil, Reject(InUse, "unpublish volume %s: node %s has it staged at %s%s", v.ID, p.Node, p.Staging.Path, used)
	}
	updated := *p
	updated.Ending = true
	s.putVolume(v.withPublication(updated))
	return out, nil
}

// publicationsToEnd are the publications that are meant: the node's, or all of the endpoint's site when
// it is empty, and only the one of the epoch when that is set (S4).
func (s *State) publicationsToEnd(actor string, at endpoint, v *Volume, c *fsmpb.UnpublishVolume) []Publication {
	return s.publicationsOn(actor, at, v, NodeID(c.GetNodeId()), EpochFrom(c.GetEpoch()))
}

// publicationsOn are those that the actor ends: the node's, or all of the endpoint's site when it is empty, and only
// the one of the epoch when that is not zero.
func (s *State) publicationsOn(actor string, at endpoint, v *Volume, node NodeID, epoch Epoch) []Publication {
	var matching []Publication
	for _, p := range v.Publications() {
		if !p.Reclaim && s.mayEnd(actor, &p) && s.concerns(at, node, p.Node) && (epoch.IsZero() || p.Epoch == epoch) {
			matching = append(matching, p)
		}
	}
	return matching
}

// mayEnd tells whether the one who unpublishes may end the publication. A certificate that mounts volumes on a host
// ends no orchestrator's, under which a workload may run anywhere; an orchestrator's unpublish that comes late, or after
// its publish was refused, ends none under which an operator has it mounted. An admin ends both. Below level 3 nobody
// knows who published.
func (s *State) mayEnd(actor string, p *Publication) bool {
	switch {
	case !s.level3():
		return true
	case hasRole(actor, "operator/"):
		return p.MadeBy != ""
	case hasRole(actor, "controller/"):
		return p.MadeBy == ""
	}
	return true
}

// needsForceFirst is S11.
func (s *State) needsForceFirst(v *Volume, p *Publication) bool {
	return v.Replicated() && v.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A && !s.HostReachable(p.Node, p.Host) && !v.forcedElsewhere(p.Host)
}

// withRevoked is the volume without the publication. A host that is unreachable, has it staged
// or may still be primary gets a pending teardown.
func (s *State) withRevoked(m Meta, v *Volume, p *Publication) Volume {
	updated := v.withoutPublication(p.Node)
	updated = updated.withoutLimits(p.Host)
	needsTeardown := !s.HostReachable(p.Node, p.Host) || s.mayBePrimary(v, p.Host) || s.level2() && p.Staging != nil
	if v.Replicated() {
		updated = updated.withReplication()
		updated.endGrant(m.Index)
	}
	if !needsTeardown {
		return updated
	}
	if v.Replicated() {
		updated.Replication.Generation = m.Index // observations from here on were made after it
	}
	updated = updated.withTeardown(Teardown{Node: p.Node, Host: p.Host, Epoch: p.Epoch})
	switch {
	case s.level2() && updated.OperationOf(OpTeardown) == nil:
		updated.putOperation(m.operation(OpTeardown))
	case s.level2():
	case updated.Operation == nil:
		updated.Operation = m.operation(OpTeardown)
	case updated.Operation.Kind != OpTeardown: // the other operation continues after the teardown
		updated.Operation = updated.Operation.withKind(OpTeardown)
	}
	return updated
}
