package plan

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ObservedCrypt is what was observed of a volume's encryption.
type ObservedCrypt struct {
	Below    executor.Device     // that the header is on
	Mapping  executor.Device     // above it, while the volume is open
	Header   executor.LUKSHeader // as far as it was read since the device below is active
	BackedUp bool                // this process copied the header to its data directory since the device below is active
	Restored bool                // this process wrote its backup since the device below is active
	Wiped    bool                // this process overwrote the header
}

// nextOpen brings the mapping up. The header is read whenever the device below became active.
func nextOpen(want *VolumeSpec, have *ObservedVolume) Step {
	c, g := have.Crypt, want.Grant.Crypt
	switch {
	case g == nil:
		return refuse(fsm.Precondition, "volume %s is encrypted on this host, and not by the log", want.Volume)
	case want.Grant.Block && !have.recorded:
		return Step{Kind: StepWriteRecord}
	case !c.Below.Active():
		return Step{Kind: StepActivate}
	case !c.Header.Read:
		return Step{Kind: StepProbeHeader}
	case g.Formatting:
		return nextFormatHeader(want, have)
	case c.Header.UUID == "" || len(c.Header.Slots) == 0:
		return nextRestoreHeader(want, have)
	case g.Cloned:
		return nextChangeHeaderUUID(want, have)
	case c.Header.UUID != g.UUID:
		return refuse(fsm.Precondition, "the LUKS header of volume %s on this host is %s, not %s that was made for it", want.Volume, c.Header.UUID, g.UUID)
	}
	return Step{Kind: StepOpenMapping}
}

// nextFormatHeader makes the header once in the volume's life, over what is empty or over a part of one
// that was left (S15, S62). One that is complete stays: it may be the peer's.
func nextFormatHeader(want *VolumeSpec, have *ObservedVolume) Step {
	c, g := have.Crypt, want.Grant.Crypt
	complete := c.Header.UUID == g.UUID && len(c.Header.Slots) > 0
	peers := have.Replica != nil && g.FormatBegunBefore && (c.Header.UUID == "" || c.Header.UUID == g.UUID)
	switch {
	case complete:
		return nextRecordHeader(have)
	case !c.Header.Empty && !have.headerBegun && !peers:
		return refuse(fsm.Precondition, "%s of volume %s is not empty: no LUKS header is made over it", c.Below.Path, want.Volume)
	case !have.recorded || !have.headerBegun:
		return Step{Kind: StepWriteRecord}
	}
	return Step{Kind: StepFormatHeader}
}

// nextChangeHeaderUUID gives a clone's header a UUID of its own.
func nextChangeHeaderUUID(want *VolumeSpec, have *ObservedVolume) Step {
	if have.Crypt.Header.UUID == want.Grant.Crypt.UUID {
		return nextRecordHeader(have)
	}
	return Step{Kind: StepChangeHeaderUUID}
}

// nextRecordHeader keeps a copy of the header, then has it committed, before anything is written above it.
func nextRecordHeader(have *ObservedVolume) Step {
	if !have.Crypt.BackedUp {
		return Step{Kind: StepBackUpHeader}
	}
	return Step{Kind: StepReportHeader}
}

// nextResizeMapping grows the mapping of a volume whose device grew while it was open.
func nextResizeMapping(have *ObservedVolume) Step {
	if have.Crypt != nil && have.Crypt.Mapping.Exists && have.Crypt.Mapping.Size < have.SizeBelow() {
		return Step{Kind: StepResizeMapping}
	}
	return Step{}
}
