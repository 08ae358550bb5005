package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

func claimFrom(p *fsmpb.Claim) *Claim {
	if p == nil {
		return nil
	}
	return &Claim{Name: p.GetName(), Namespace: p.GetNamespace(), Volume: p.GetVolume()}
}

func (c *Claim) proto() *fsmpb.Claim {
	if c == nil {
		return nil
	}
	return &fsmpb.Claim{Name: c.Name, Namespace: c.Namespace, Volume: c.Volume}
}

// check bounds what enters the state.
func (c *Claim) check() *Rejection {
	if c != nil && max(len(c.Name), len(c.Namespace), len(c.Volume)) > maxIDBytes {
		return Reject(Invalid, "a name of the volume's claim is longer than %d bytes", maxIDBytes)
	}
	return nil
}

// claim takes in what the orchestrator calls the volume now; unset, or equal: as it is.
func (v *Volume) claim(p *fsmpb.Claim) *Rejection {
	now := claimFrom(p)
	if now == nil || v.Claim != nil && *v.Claim == *now {
		return nil
	}
	v.Claim = now
	return now.check()
}

// limitsAsked are the limits that the volume was created with.
func (v *Volume) limitsAsked() Limits {
	if v.LimitsAsked != nil {
		return *v.LimitsAsked
	}
	return v.Limits
}

// limitsAskedRecord is not nil for limits that are none: they were asked for.
func limitsAskedRecord(l *Limits) *fsmpb.Limits {
	if l == nil {
		return nil
	}
	return &fsmpb.Limits{ReadIops: l.ReadIOPS, WriteIops: l.WriteIOPS, ReadBytesPerSecond: l.ReadBPS, WriteBytesPerSecond: l.WriteBPS}
}

func limitsAskedFrom(p *fsmpb.Limits) *Limits {
	if p == nil {
		return nil
	}
	asked := LimitsFrom(p)
	return &asked
}
