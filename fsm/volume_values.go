package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Format is whether and how the volume's content was initialised (S15).
type Format struct {
	Phase  fsmpb.FormatPhase
	FSType string
	FSUUID string
	// Epoch is of the stage that set Formatting, or that chose a clone's uuid.
	Epoch Epoch
	// Cloned: the filesystem was a source's. FSUUID is the source's until the first
	// stage chose another (Epoch is set then); the host gives the filesystem that
	// identity and reports Formatted, which ends this.
	Cloned bool
}

// Capability is a CSI capability without its mount flags.
type Capability struct {
	Mode   fsmpb.AccessMode
	Block  bool
	FSType string
	Flags  string // fingerprint of the mount flags; empty without
}

// Source is what a volume's content is made from; at most one is set.
type Source struct {
	Snapshot SnapshotID
	Volume   VolumeID
}

// IsZero tells an empty volume's source.
func (s Source) IsZero() bool { return s == Source{} }

// Limits bound a volume's I/O on the host where it is staged; 0: none.
type Limits struct {
	ReadIOPS, WriteIOPS uint64
	ReadBPS, WriteBPS   uint64 // bytes a second
}

func hashCapability(e *encoder, c *Capability) {
	e.u64(uint64(c.Mode))
	e.bool(c.Block)
	e.str(c.FSType)
	e.str(c.Flags)
}

func (d *dictionary) capability(r *fsmpb.CapabilityRecord, c *Capability) *fsmpb.CapabilityRecord {
	r.Mode, r.Block, r.FsTypeRef, r.FlagsRef = c.Mode, c.Block, d.ref(c.FSType), d.ref(c.Flags)
	return r
}

func (x *dumpDecoder) capability(c *fsmpb.CapabilityRecord, err *error) Capability {
	return Capability{Mode: c.GetMode(), Block: c.GetBlock(), FSType: x.textAt(c.GetFsTypeRef(), err), Flags: x.textAt(c.GetFlagsRef(), err)}
}

func hashFormat(e *encoder, f Format) {
	e.u64(uint64(f.Phase))
	e.str(f.FSType)
	e.str(f.FSUUID)
	e.epoch(f.Epoch)
	e.bool(f.Cloned)
}

func (d *dictionary) format(r *fsmpb.FormatRecord, f *Format) {
	r.Phase, r.FsTypeRef, r.FsUuid, r.FsUuidText, r.Epoch = f.Phase, d.ref(f.FSType), nil, "", nil
	if id, ok := parseUUID(f.FSUUID); ok {
		packed := id.packed()
		r.FsUuid = packed[:]
	} else {
		r.FsUuidText = f.FSUUID
	}
	r.Cloned = f.Cloned
	if !f.Epoch.IsZero() {
		r.Epoch = f.Epoch.Proto()
	}
}

func (x *dumpDecoder) format(f *fsmpb.FormatRecord, err *error) Format {
	format := Format{Phase: f.GetPhase(), FSType: x.textAt(f.GetFsTypeRef(), err), FSUUID: f.GetFsUuidText(), Epoch: EpochFrom(f.GetEpoch()), Cloned: f.GetCloned()}
	if packed := f.GetFsUuid(); len(packed) != 0 {
		u, ok := unpackUUID(packed)
		if !ok {
			*err = errForm
		}
		format.FSUUID = u.text()
	}
	return format
}

func hashLimits(e *encoder, l *Limits) {
	e.u64(l.ReadIOPS)
	e.u64(l.WriteIOPS)
	e.u64(l.ReadBPS)
	e.u64(l.WriteBPS)
}

func initialLimitsFrom(p *fsmpb.Limits) *Limits {
	if p == nil {
		return nil
	}
	requested := LimitsFrom(p)
	return &requested
}

// record is the source as a dump carries it, nil for none.
func (s Source) record() *fsmpb.SourceRecord {
	switch {
	case s.Snapshot != "":
		return &fsmpb.SourceRecord{Snapshot: true, Id: packedAfter(snapshotPrefix, string(s.Snapshot))}
	case s.Volume != "":
		return &fsmpb.SourceRecord{Id: packedAfter(volumePrefix, string(s.Volume))}
	}
	return nil
}

func sourceFromRecord(r *fsmpb.SourceRecord, err *error) Source {
	switch {
	case r == nil:
		return Source{}
	case r.GetSnapshot():
		return Source{Snapshot: SnapshotID(idFrom(snapshotPrefix, r.GetId(), false, err))}
	}
	return Source{Volume: VolumeID(idFrom(volumePrefix, r.GetId(), false, err))}
}
