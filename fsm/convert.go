package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

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
	return &fsmpb.Format{Phase: f.Phase, FsType: f.FSType, FsUuid: f.FSUUID, Epoch: f.Epoch.proto()}
}

// FormatFrom reads a format, as a grant carries it.
func FormatFrom(p *fsmpb.Format) Format { return formatFrom(p) }

func formatFrom(p *fsmpb.Format) Format {
	return Format{Phase: p.GetPhase(), FSType: sharedFSType(p.GetFsType()), FSUUID: p.GetFsUuid(), Epoch: epochFrom(p.GetEpoch())}
}
