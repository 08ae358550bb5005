package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Publication is a node's right to use a Ready volume (S3).
type Publication struct {
	Node       NodeID
	Host       HostID
	Capability Capability
	ReadOnly   bool
	Epoch      Epoch
	// Staging is set from the intent to stage until the host reports it observed
	// no mount and no open device.
	Staging *Staging
	Targets []Target // sorted by path
	// Ending is set when the unpublish was requested while it is staged on a reachable host:
	// the host unstages it as soon as nothing uses it, and nothing more is staged or bound
	// under it. UsedBy is what still uses it, as the host reported.
	Ending bool
	UsedBy string
	// Reclaim: the host is to discard what the filesystem does not use, and no orchestrator knows of the
	// publication (S61).
	Reclaim bool
	// MadeBy is the operator who published; empty: an orchestrator did. Neither joins the other's.
	MadeBy string
}

// Staging is a host's intent to stage, and whether it reported it done.
type Staging struct {
	Path       string
	Boot       string
	Capability Capability
	Done       bool
}

// Target is a host's intent to bind a staged volume to a path, and whether it reported it done.
type Target struct {
	Path        string
	ReadOnly    bool
	Capability  Capability
	Fingerprint string
	Done        bool
}

// Teardown is a pending teardown: the host must end a publication that was revoked.
type Teardown struct {
	Node  NodeID
	Host  HostID
	Epoch Epoch
}

func hashPublication(e *encoder, p *Publication) {
	e.str(string(p.Node))
	e.str(string(p.Host))
	hashCapability(e, &p.Capability)
	e.bool(p.ReadOnly)
	e.epoch(p.Epoch)
	hashStaging(e, p.Staging)
	e.u64(uint64(len(p.Targets)))
	for i := range p.Targets {
		hashTarget(e, &p.Targets[i])
	}
}

func hashStaging(e *encoder, s *Staging) {
	e.bool(s != nil)
	if s == nil {
		return
	}
	e.str(s.Path)
	e.str(s.Boot)
	hashCapability(e, &s.Capability)
	e.bool(s.Done)
}

func hashTarget(e *encoder, t *Target) {
	e.str(t.Path)
	e.bool(t.ReadOnly)
	hashCapability(e, &t.Capability)
	e.str(t.Fingerprint)
	e.bool(t.Done)
}

func (d *dictionary) publication(p *Publication) *fsmpb.PublicationRecord {
	r := &fsmpb.PublicationRecord{
		NodeRef: d.ref(string(p.Node)), HostRef: d.ref(string(p.Host)), Capability: d.capability(&fsmpb.CapabilityRecord{}, &p.Capability),
		ReadOnly: p.ReadOnly, Epoch: p.Epoch.Proto(), Ending: p.Ending, UsedBy: p.UsedBy, Reclaim: p.Reclaim,
		MadeBy: p.MadeBy,
	}
	if s := p.Staging; s != nil {
		r.Staging = &fsmpb.StagingRecord{
			Path: s.Path, BootRef: d.ref(s.Boot), Capability: d.capability(&fsmpb.CapabilityRecord{}, &s.Capability), Done: s.Done,
		}
	}
	for i := range p.Targets {
		t := &p.Targets[i]
		r.Targets = append(r.Targets, &fsmpb.TargetRecord{
			Path: t.Path, ReadOnly: t.ReadOnly, Capability: d.capability(&fsmpb.CapabilityRecord{}, &t.Capability),
			Fingerprint: t.Fingerprint, Done: t.Done,
		})
	}
	return r
}

func (x *dumpDecoder) publication(r *fsmpb.PublicationRecord, err *error) Publication {
	p := Publication{
		Node: NodeID(x.textAt(r.GetNodeRef(), err)), Host: HostID(x.textAt(r.GetHostRef(), err)),
		Capability: x.capability(r.GetCapability(), err), ReadOnly: r.GetReadOnly(), Epoch: EpochFrom(r.GetEpoch()),
		Ending: r.GetEnding(), UsedBy: r.GetUsedBy(), Reclaim: r.GetReclaim(), MadeBy: r.GetMadeBy(),
	}
	if s := r.GetStaging(); s != nil {
		p.Staging = &Staging{Path: s.GetPath(), Boot: x.textAt(s.GetBootRef(), err), Capability: x.capability(s.GetCapability(), err), Done: s.GetDone()}
	}
	for _, t := range r.GetTargets() {
		p.Targets = append(p.Targets, Target{
			Path: t.GetPath(), ReadOnly: t.GetReadOnly(), Capability: x.capability(t.GetCapability(), err),
			Fingerprint: t.GetFingerprint(), Done: t.GetDone(),
		})
	}
	return p
}

// hashEnding writes near the end of the volume's record, as it came with level 2.
func hashEnding(e *encoder, publications []Publication) {
	for i := range publications {
		if p := &publications[i]; p.Ending {
			e.u64(fieldEnding)
			e.str(string(p.Node))
			e.str(p.UsedBy)
		}
	}
}

// fieldPublishedBy begins what is hashed of who published.
const fieldPublishedBy = 138

func hashPublishedBy(e *encoder, publications []Publication) {
	for i := range publications {
		if p := &publications[i]; p.MadeBy != "" {
			e.u64(fieldPublishedBy)
			e.str(string(p.Node))
			e.str(p.MadeBy)
		}
	}
}

func hashTeardown(e *encoder, t *Teardown) {
	e.str(string(t.Node))
	e.str(string(t.Host))
	e.epoch(t.Epoch)
}

func (d *dictionary) teardown(t *Teardown) *fsmpb.TeardownRecord {
	return &fsmpb.TeardownRecord{NodeRef: d.ref(string(t.Node)), HostRef: d.ref(string(t.Host)), Epoch: t.Epoch.Proto()}
}

func (x *dumpDecoder) teardown(t *fsmpb.TeardownRecord, err *error) Teardown {
	return Teardown{Node: NodeID(x.textAt(t.GetNodeRef(), err)), Host: HostID(x.textAt(t.GetHostRef(), err)), Epoch: EpochFrom(t.GetEpoch())}
}
