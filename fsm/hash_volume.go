package fsm

func (e *encoder) volume(v *Volume) sum256 {
	e.begin(kindVolume)
	e.str(string(v.ID))
	e.str(v.Name)
	e.bytes(v.Fingerprint)
	e.i64(v.Size)
	e.u64(uint64(len(v.Capabilities)))
	for i := range v.Capabilities {
		e.capability(&v.Capabilities[i])
	}
	e.u64(uint64(len(v.Requisite)))
	for _, term := range v.Requisite {
		e.labels(term)
	}
	e.u64(uint64(len(v.Replicas)))
	for i := range v.Replicas {
		e.replica(&v.Replicas[i])
	}
	e.format(v.Format)
	e.phase(v.Phase)
	e.u64(uint64(len(v.Teardowns)))
	for i := range v.Teardowns {
		e.teardown(&v.Teardowns[i])
	}
	e.operation(v.Operation)
	e.bool(v.Condition.Abnormal)
	e.str(v.Condition.Message)
	e.str(string(v.Source.Snapshot))
	e.str(string(v.Source.Volume))
	e.limits(&v.Limits)
	e.epoch(v.Created)
	e.u64(v.Modified)
	e.replication(v)
	e.volumeLevel2(v)
	return e.sum()
}

// The fields of a volume that came with level 2, each behind a number of its own and
// only where it is set, so that other volumes hash as they did before.
const (
	fieldInitialLimits = iota + 1
	fieldClaim
	fieldEnding
	fieldOtherOperations
	fieldUndersized
)

func (e *encoder) volumeLevel2(v *Volume) {
	if v.InitialLimits != nil {
		e.u64(fieldInitialLimits)
		e.limits(v.InitialLimits)
	}
	if c := v.Claim; c != nil {
		e.u64(fieldClaim)
		e.str(c.Name)
		e.str(c.Namespace)
		e.str(c.Volume)
	}
	for _, p := range v.Publications() {
		if p.Ending {
			e.u64(fieldEnding)
			e.str(string(p.Node))
			e.str(p.UsedBy)
		}
	}
	for i := range v.OtherOperations {
		e.u64(fieldOtherOperations)
		e.operation(&v.OtherOperations[i])
	}
	for i := range v.Replicas {
		if v.Replicas[i].Undersized {
			e.u64(fieldUndersized)
			e.str(string(v.Replicas[i].Host))
		}
	}
}

func (e *encoder) capability(c *Capability) {
	e.u64(uint64(c.Mode))
	e.bool(c.Block)
	e.str(c.FSType)
	e.str(c.Flags)
}

func (e *encoder) replica(r *Replica) {
	e.str(string(r.Node))
	e.str(string(r.Host))
	e.str(string(r.Pool))
	e.u64(uint64(r.State))
	e.u64(r.Sequence)
	e.i64(r.Size)
	e.limits(&r.Limits)
}

func (e *encoder) format(f Format) {
	e.u64(uint64(f.Phase))
	e.str(f.FSType)
	e.str(f.FSUUID)
	e.epoch(f.Epoch)
	e.bool(f.Cloned)
}

func (e *encoder) phase(p Phase) {
	switch p := p.(type) {
	case Creating:
		e.u64(1)
	case Ready:
		e.u64(2)
		e.u64(uint64(len(p.Publications)))
		for i := range p.Publications {
			e.publication(&p.Publications[i])
		}
	case Deleting:
		e.u64(3)
		e.epoch(p.Since)
	case Failed:
		e.u64(4)
		e.str(p.Reason)
		e.bool(p.NoSpace)
	}
}

func (e *encoder) publication(p *Publication) {
	e.str(string(p.Node))
	e.str(string(p.Host))
	e.capability(&p.Capability)
	e.bool(p.ReadOnly)
	e.epoch(p.Epoch)
	e.staging(p.Staging)
	e.u64(uint64(len(p.Targets)))
	for i := range p.Targets {
		e.target(&p.Targets[i])
	}
}

func (e *encoder) staging(s *Staging) {
	e.bool(s != nil)
	if s == nil {
		return
	}
	e.str(s.Path)
	e.str(s.Boot)
	e.capability(&s.Capability)
	e.bool(s.Done)
}

func (e *encoder) target(t *Target) {
	e.str(t.Path)
	e.bool(t.ReadOnly)
	e.capability(&t.Capability)
	e.str(t.Fingerprint)
	e.bool(t.Done)
}

func (e *encoder) teardown(t *Teardown) {
	e.str(string(t.Node))
	e.str(string(t.Host))
	e.epoch(t.Epoch)
}

func (e *encoder) operation(o *Operation) {
	e.bool(o != nil)
	if o == nil {
		return
	}
	e.u64(uint64(o.ID))
	e.u64(uint64(o.Kind))
	e.u64(uint64(o.State))
	e.str(o.Step)
	e.u64(uint64(o.Attempts))
	e.u64(uint64(o.Retries))
	e.str(o.LastError)
	e.u64(uint64(o.Reason))
	e.i64(o.DoneBytes)
	e.i64(o.TotalBytes)
	e.i64(nanosOf(o.Started))
	e.i64(nanosOf(o.Deadline))
}
