package plan

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// RotationView is what the next step of a rotation of a key depends on (S64).
type RotationView struct {
	Volume fsm.VolumeID
	// Slots are those of the header that hold a key, as they were read after the last step that changed
	// them; nil: they are not read.
	Slots []uint32
	// Authenticated: the new key or an old one was tried and opens a slot.
	Authenticated bool
	// Begun: the log answered. Rotation is then what it named, nil when there is nothing to do.
	Begun    bool
	Rotation *fsm.KeyRotation
	// Opens: the new key was just seen to open the slot that the log named.
	Opens bool
	// BackedUp: the copy of the header was replaced since.
	BackedUp bool
}

// NextRotationStep is the next step; StepNone when the rotation is done. Nothing is removed before the log has
// that the new key was added, and just before each removal the new key opens its slot again.
func NextRotationStep(s *RotationView) Step {
	r := s.Rotation
	switch {
	case s.Slots == nil:
		return Step{Kind: StepReadSlots}
	case !s.Authenticated:
		return refuse(fsm.Unauthenticated, "volume %s: no slot of its header is opened by the passphrases", s.Volume)
	case !s.Begun:
		return Step{Kind: StepBeginRotation}
	case r == nil && !s.BackedUp:
		return Step{Kind: StepBackUpRotated} // somebody else may have left the new key only
	case r == nil:
		return Step{Kind: StepNone}
	case !slices.Contains(s.Slots, r.Slot) && r.Added:
		return refuse(fsm.Busy, "volume %s: slot %d of its header lost its key; retry", s.Volume, r.Slot)
	case !slices.Contains(s.Slots, r.Slot):
		return Step{Kind: StepAddKey}
	case !s.Opens:
		return Step{Kind: StepCheckKey}
	case !r.Added:
		return Step{Kind: StepReportKeyAdded}
	case len(s.Slots) > 1 && !plantedbug.Is(plantedbug.OldKeyKept):
		return Step{Kind: StepDropKey}
	case !s.BackedUp:
		return Step{Kind: StepBackUpRotated}
	}
	return Step{Kind: StepReportKeyDropped}
}

// SlotToDrop is the first slot beside that of the new key.
func (s *RotationView) SlotToDrop() uint32 {
	for _, slot := range s.Slots {
		if slot != s.Rotation.Slot {
			return slot
		}
	}
	return s.Rotation.Slot
}
