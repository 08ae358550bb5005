package fsm

func (e *encoder) snapshot(n *Snapshot) sum256 {
	e.begin(kindSnapshot)
	e.str(string(n.ID))
	e.str(n.Name)
	e.bytes(n.Fingerprint)
	e.str(string(n.Source))
	e.str(string(n.Group))
	e.str(string(n.Node))
	e.str(string(n.Host))
	e.str(string(n.Pool))
	e.i64(n.Size)
	e.format(n.Format)
	e.u64(uint64(len(n.Capabilities)))
	for i := range n.Capabilities {
		e.capability(&n.Capabilities[i])
	}
	e.u64(uint64(n.Phase))
	e.i64(nanosOf(n.TakenAt))
	e.bool(n.Frozen)
	e.bool(n.Missing)
	e.bool(n.Gone)
	e.str(n.Error)
	e.u64(n.Sequence)
	e.operation(n.Operation)
	e.epoch(n.Created)
	e.u64(n.Modified)
	e.keptCopy(n.KeptCopy)
	return e.sum()
}

// keptCopy stands at the record's end, and only where it is set.
func (e *encoder) keptCopy(k *KeptCopy) {
	if k == nil {
		return
	}
	e.str(k.Reason)
	e.u64(k.Generation)
	e.u64(k.Attachment)
	e.i64(nanosOf(k.Superseded))
}

func (e *encoder) group(g *GroupSnapshot) sum256 {
	e.begin(kindGroup)
	e.str(string(g.ID))
	e.str(g.Name)
	e.bytes(g.Fingerprint)
	e.u64(uint64(len(g.Members)))
	for _, id := range g.Members {
		e.str(string(id))
	}
	e.u64(uint64(g.Phase))
	e.u64(uint64(g.Attempt))
	e.i64(nanosOf(g.TakenAt))
	e.str(g.Error)
	e.operation(g.Operation)
	e.epoch(g.Created)
	e.u64(g.Modified)
	return e.sum()
}

func (e *encoder) limits(l *Limits) {
	e.u64(l.ReadIOPS)
	e.u64(l.WriteIOPS)
	e.u64(l.ReadBPS)
	e.u64(l.WriteBPS)
}
