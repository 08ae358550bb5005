package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

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
