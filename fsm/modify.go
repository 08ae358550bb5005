package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyModifyVolume replaces limits. Where the volume is staged its host puts them in
// force; elsewhere they hold from the next staging on.
func applyModifyVolume(s *State, m Meta, c *fsmpb.ModifyVolume) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.publishable(c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	now := *v
	now.Limits = v.Limits.with(LimitsFrom(c.GetLimits()), c.GetSet())
	if rej := now.claim(c.GetClaim()); rej != nil {
		return nil, rej
	}
	if now.Limits == v.Limits && !v.modifyFailed() {
		if now.Claim != v.Claim {
			s.putVolume(now)
		}
		return s.operatingOn(v, OpModify), nil
	}
	if s.level2() && now.Limits != v.Limits && now.LimitsAsked == nil {
		now.LimitsAsked = &v.Limits
	}
	if p := v.unlimited(now.Limits); p != nil {
		if rej := s.mayModify(v, p); rej != nil {
			return nil, rej
		}
		s.beginOn(&now, v.modifying(m))
	} else {
		now.endOperation(OpModify) // those that are in force already are wanted again
	}
	s.putVolume(now)
	return s.operatingOn(&now, OpModify), nil
}

// with is the limits with some of them replaced: those whose bit is set, in the order
// of their fields, or those that are not zero when no bit is.
func (l Limits) with(other Limits, set uint32) Limits {
	was := [4]*uint64{&l.ReadIOPS, &l.WriteIOPS, &l.ReadBPS, &l.WriteBPS}
	is := [4]uint64{other.ReadIOPS, other.WriteIOPS, other.ReadBPS, other.WriteBPS}
	for i := range was {
		if set&(1<<i) != 0 || set == 0 && is[i] != 0 {
			*was[i] = is[i]
		}
	}
	return l
}

// unlimited is a publication whose host has the volume staged under other limits.
func (v *Volume) unlimited(limits Limits) *Publication {
	held := v.Publications()
	for i := range held {
		r := v.Replica(held[i].Host)
		if held[i].Staging != nil && r != nil && r.Limits != limits {
			return &held[i]
		}
	}
	return nil
}

func (v *Volume) modifyFailed() bool {
	op := v.OperationOf(OpModify)
	return op != nil && op.State != OpRunning
}

// mayModify: the host where it is staged must be free to do it. From feature level 2 on no
// other operation of the volume keeps it from that.
func (s *State) mayModify(v *Volume, p *Publication) *Rejection {
	if op := v.Operation; !s.level2() && op != nil && op.State == OpRunning && op.Kind != OpModify {
		return Reject(Busy, "modify volume %s: %s is under way on it", v.ID, op.ID)
	}
	_, rej := s.keeper("volume "+string(v.ID), p.Node, p.Host)
	return rej
}

// modifying goes on with the operation that is under way, or begins one.
func (v *Volume) modifying(m Meta) *Operation {
	if op := v.running(OpModify); op != nil {
		return op
	}
	return m.operation(OpModify)
}

// limited: the host has these limits in force for the device that it has staged.
func (x observation) limited(v *Volume, f *fsmpb.LimitsApplied) (Volume, bool) {
	p := v.Publication(x.host.ID)
	if p == nil || p.Host != x.host.Host || p.Staging == nil {
		return *v, false
	}
	x.replica.Limits = LimitsFrom(f.GetLimits())
	now := v.withReplica(x.replica)
	now.settleLimits()
	return now, x.replica.Limits != v.Replica(x.host.Host).Limits || now.Operation != v.Operation
}

// settleLimits ends the operation when no host has the volume staged under others.
func (v *Volume) settleLimits() {
	if v.OperationOf(OpModify) != nil && v.unlimited(v.Limits) == nil {
		v.endOperation(OpModify)
	}
}

// withoutLimits: what is not staged has no limits in force.
func (v *Volume) withoutLimits(host HostID) Volume {
	r := v.Replica(host)
	if r == nil || r.Limits == (Limits{}) {
		return *v
	}
	now := *r
	now.Limits = Limits{}
	return v.withReplica(now)
}
