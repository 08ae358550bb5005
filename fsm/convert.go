package fsm

import (
	"encoding/hex"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Proto is the epoch as commands carry it.
func (e Epoch) Proto() *fsmpb.Epoch { return e.proto() }

func (e Epoch) proto() *fsmpb.Epoch {
	return &fsmpb.Epoch{Incarnation: e.Incarnation, Index: e.Index}
}

// EpochFrom reads an epoch; the zero Epoch stands for none.
func EpochFrom(p *fsmpb.Epoch) Epoch { return epochFrom(p) }

func epochFrom(p *fsmpb.Epoch) Epoch {
	return Epoch{Incarnation: p.GetIncarnation(), Index: p.GetIndex()}
}

func (f Format) proto() *fsmpb.Format {
	return &fsmpb.Format{Phase: f.Phase, FsType: f.FSType, FsUuid: f.FSUUID, Epoch: f.Epoch.proto(), Cloned: f.Cloned}
}

// FormatFrom reads a format, as a grant carries it.
func FormatFrom(p *fsmpb.Format) Format { return formatFrom(p) }

func formatFrom(p *fsmpb.Format) Format {
	return Format{Phase: p.GetPhase(), FSType: sharedFSType(p.GetFsType()), FSUUID: p.GetFsUuid(), Epoch: epochFrom(p.GetEpoch()), Cloned: p.GetCloned()}
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
	return &fsmpb.Limits{ReadIops: l.ReadIOPS, WriteIops: l.WriteIOPS, ReadBytesPerSecond: l.ReadBPS, WriteBytesPerSecond: l.WriteBPS}
}

// LimitsFrom reads limits; zero Limits stand for none.
func LimitsFrom(p *fsmpb.Limits) Limits {
	return Limits{ReadIOPS: p.GetReadIops(), WriteIOPS: p.GetWriteIops(), ReadBPS: p.GetReadBytesPerSecond(), WriteBPS: p.GetWriteBytesPerSecond()}
}

func (c *Capability) proto() *fsmpb.Capability {
	flags, _ := hex.DecodeString(c.Flags) // it was made by encoding
	return &fsmpb.Capability{Mode: c.Mode, Block: c.Block, FsType: c.FSType, FlagsFingerprint: flags}
}
