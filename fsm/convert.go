package fsm

import (
	"encoding/hex"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The values that commands, sessions and dumps carry alike. Each has one conversion and its
// inverse, here; what only a dump has is in the dump_ files, what only a session has in
// executor/session.

// Proto is the epoch as commands carry it.
func (e Epoch) Proto() *fsmpb.Epoch {
	return &fsmpb.Epoch{Incarnation: e.Incarnation, Index: e.Index}
}

// EpochFrom reads an epoch; the zero Epoch stands for none.
func EpochFrom(p *fsmpb.Epoch) Epoch {
	return Epoch{Incarnation: p.GetIncarnation(), Index: p.GetIndex()}
}

// Proto is the format as a grant carries it.
func (f Format) Proto() *fsmpb.Format {
	return &fsmpb.Format{Phase: f.Phase, FsType: f.FSType, FsUuid: f.FSUUID, Epoch: f.Epoch.Proto(), Cloned: f.Cloned}
}

// FormatFrom reads a format.
func FormatFrom(p *fsmpb.Format) Format {
	return Format{Phase: p.GetPhase(), FSType: sharedFSType(p.GetFsType()), FSUUID: p.GetFsUuid(), Epoch: EpochFrom(p.GetEpoch()), Cloned: p.GetCloned()}
}

// Proto is the source as commands carry it, nil for an empty volume's.
func (s Source) Proto() *fsmpb.Source {
	if s.IsZero() {
		return nil
	}
	return &fsmpb.Source{SnapshotId: string(s.Snapshot), VolumeId: string(s.Volume)}
}

// SourceFrom reads a source; the zero Source stands for none.
func SourceFrom(p *fsmpb.Source) Source {
	return Source{Snapshot: SnapshotID(p.GetSnapshotId()), Volume: VolumeID(p.GetVolumeId())}
}

// Proto is the limits as commands carry them, nil when there are none.
func (l Limits) Proto() *fsmpb.Limits {
	if l == (Limits{}) {
		return nil
	}
	return (&l).setProto()
}

// setProto is nil for none only: zero limits were requested.
func (l *Limits) setProto() *fsmpb.Limits {
	if l == nil {
		return nil
	}
	return &fsmpb.Limits{ReadIops: l.ReadIOPS, WriteIops: l.WriteIOPS, ReadBytesPerSecond: l.ReadBPS, WriteBytesPerSecond: l.WriteBPS}
}

// LimitsFrom reads limits; zero Limits stand for none.
func LimitsFrom(p *fsmpb.Limits) Limits {
	return Limits{ReadIOPS: p.GetReadIops(), WriteIOPS: p.GetWriteIops(), ReadBPS: p.GetReadBytesPerSecond(), WriteBPS: p.GetWriteBytesPerSecond()}
}

// Proto is the claim as commands carry it, nil when it is not known.
func (c *Claim) Proto() *fsmpb.Claim {
	if c == nil {
		return nil
	}
	return &fsmpb.Claim{Name: c.Name, Namespace: c.Namespace, Volume: c.Volume}
}

// ClaimFrom reads a claim, nil when it is not known.
func ClaimFrom(p *fsmpb.Claim) *Claim {
	if p == nil {
		return nil
	}
	return &Claim{Name: p.GetName(), Namespace: p.GetNamespace(), Volume: p.GetVolume()}
}

// The fingerprint of mount flags has two forms on the wire, and both are in the records of
// clusters that run: hosts' commands carry its bytes (Proto), controllers' commands and sessions
// the text of Flags (TextProto). CapabilityFrom reads a command of either: what it makes of a text is
// twice as long, and is compared with what came in the same form only.

// Proto is the capability as hosts' commands carry it. A fingerprint that is not hexadecimal is Invalid.
func (c Capability) Proto() (*fsmpb.Capability, error) {
	flags, err := hex.DecodeString(c.Flags)
	p := &fsmpb.Capability{Mode: c.Mode, Block: c.Block, FsType: c.FSType, FlagsFingerprint: flags}
	if err != nil {
		return p, Reject(Invalid, "the fingerprint of the mount flags is not hexadecimal")
	}
	return p, nil
}

// CapabilityFrom reads a capability from a command. Its flags are their fingerprint in hexadecimal.
func CapabilityFrom(c *fsmpb.Capability) Capability {
	return Capability{Mode: c.GetMode(), Block: c.GetBlock(), FSType: sharedFSType(c.GetFsType()), Flags: hex.EncodeToString(c.GetFlagsFingerprint())}
}

// TextProto is the capability as controllers' commands and sessions carry it: with the text of Flags.
func (c Capability) TextProto() *fsmpb.Capability {
	p := &fsmpb.Capability{Mode: c.Mode, Block: c.Block, FsType: c.FSType}
	if c.Flags != "" {
		p.FlagsFingerprint = []byte(c.Flags)
	}
	return p
}

// CapabilityFromText is the inverse of TextProto.
func CapabilityFromText(c *fsmpb.Capability) Capability {
	return Capability{Mode: c.GetMode(), Block: c.GetBlock(), FSType: sharedFSType(c.GetFsType()), Flags: string(c.GetFlagsFingerprint())}
}

// TargetFingerprint is a target's fingerprint as hosts' commands carry it: the bytes of its
// hexadecimal text; anything else is taken as it is. Target.Fingerprint is the text.
func TargetFingerprint(text string) []byte {
	if b, err := hex.DecodeString(text); err == nil {
		return b
	}
	return []byte(text)
}

// targetFingerprintFrom is the inverse of TargetFingerprint.
func targetFingerprintFrom(b []byte) string { return hex.EncodeToString(b) }

// Proto are the labels as commands carry them.
func (t Topology) Proto() []*fsmpb.Label {
	var labels []*fsmpb.Label
	for _, l := range t {
		labels = append(labels, &fsmpb.Label{Key: l.Key, Value: l.Value})
	}
	return labels
}

// TimeOf reads Unix nanoseconds; zero is the zero time.
func TimeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

// nanosOf is the inverse of TimeOf.
func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
