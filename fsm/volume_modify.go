package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyModifyVolume replaces limits. Where the volume is staged its host puts them in
// force; elsewhere they hold from the next staging on.
func applyModifyVolume(s *State, m Meta, c *fsmpb.ModifyVolume) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.homeVolume(m.endpoint, "modify volume", c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	updated := *v
	updated.Limits = v.requestedLimits(c)
	if rej := updated.updateClaim(c.GetClaim()); rej != nil {
		return nil, rej
	}
	if v.hasLimits(updated.Limits) {
		if updated.Claim != v.Claim {
			s.putVolume(updated)
		}
		return s.operationOutcomeOf(v, OpModify), nil
	}
	if s.level2() && updated.Limits != v.Limits && updated.InitialLimits == nil {
		updated.InitialLimits = &v.Limits
	}
	if p := v.publicationWithOtherLimits(updated.Limits); p != nil {
		if rej := s.checkModify(v, p); rej != nil {
			return nil, rej
		}
		s.beginOperation(&updated, v.modifyOperation(m))
	} else {
		updated.endOperation(OpModify) // the limits in force are the desired ones again
	}
	s.putVolume(updated)
	return s.operationOutcomeOf(&updated, OpModify), nil
}

// requestedLimits are the volume's limits as the command wants them.
func (v *Volume) requestedLimits(c *fsmpb.ModifyVolume) Limits {
	return v.Limits.with(LimitsFrom(c.GetLimits()), c.GetSet())
}

// hasLimits tells whether the volume has these limits, and nothing failed on the way to them.
func (v *Volume) hasLimits(limits Limits) bool { return v.Limits == limits && !v.modifyFailed() }

// with is the limits with some of them replaced: those whose bit is set, in the order
// of their fields, or those that are not zero when no bit is.
func (l Limits) with(other Limits, set uint32) Limits {
	current := [4]*uint64{&l.ReadIOPS, &l.WriteIOPS, &l.ReadBPS, &l.WriteBPS}
	replacement := [4]uint64{other.ReadIOPS, other.WriteIOPS, other.ReadBPS, other.WriteBPS}
	for i := range current {
		if set&(1<<i) != 0 || set == 0 && replacement[i] != 0 {
			*current[i] = replacement[i]
		}
	}
	return l
}

// publicationWithOtherLimits is a publication whose host has the volume staged under other limits.
func (v *Volume) publicationWithOtherLimits(limits Limits) *Publication {
	publications := v.Publications()
	for i := range publications {
		r := v.Replica(publications[i].Host)
		if publications[i].Staging != nil && r != nil && r.Limits != limits {
			return &publications[i]
		}
	}
	return nil
}

func (v *Volume) modifyFailed() bool {
	op := v.OperationOf(OpModify)
	return op != nil && op.State != OpRunning
}

// checkModify: the host where it is staged must be free to do it. From feature level 2 on no
// other operation of the volume keeps it from that.
func (s *State) checkModify(v *Volume, p *Publication) *Rejection {
	if op := v.Operation; !s.level2() && op != nil && op.State == OpRunning && op.Kind != OpModify {
		return Reject(Busy, "modify volume %s: %s is under way on it", v.ID, op.ID)
	}
	_, rej := s.askableHost("volume "+string(v.ID), p.Node, p.Host)
	return rej
}

// modifyOperation continues the operation that is under way, or begins one.
func (v *Volume) modifyOperation(m Meta) *Operation {
	if op := v.running(OpModify); op != nil {
		return op
	}
	return m.operation(OpModify)
}

// limitsApplied: the host has these limits in force for the device that it has staged.
func (x reportContext) limitsApplied(v *Volume, f *fsmpb.LimitsApplied) (Volume, bool) {
	p := v.Publication(x.host.ID)
	if p == nil || p.Host != x.host.Host || p.Staging == nil {
		return *v, false
	}
	x.replica.Limits = LimitsFrom(f.GetLimits())
	updated := v.withReplica(x.replica)
	updated.finishModify()
	return updated, x.replica.Limits != v.Replica(x.host.Host).Limits || updated.Operation != v.Operation
}

// finishModify ends the operation when no host has the volume staged under others.
func (v *Volume) finishModify() {
	if v.OperationOf(OpModify) != nil && v.publicationWithOtherLimits(v.Limits) == nil {
		v.endOperation(OpModify)
	}
}

// withoutLimits: a volume that is not staged has no limits in force.
func (v *Volume) withoutLimits(host HostID) Volume {
	r := v.Replica(host)
	if r == nil || r.Limits == (Limits{}) {
		return *v
	}
	updated := *r
	updated.Limits = Limits{}
	return v.withReplica(updated)
}
