package plan

import (
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// TrimView is what is known of a volume before each step of a trim.
type TrimView struct {
	Volume  fsm.VolumeID
	Have    *ObservedVolume
	Size    int64 // of the device when the trim began, in bytes
	Staging *records.StagingRecord
	// Desired is nil when the log does not know the volume any more.
	Desired *fsm.DesiredVolume
	Frozen  bool
	// SnapshotWaits and CallWaits: other work waits for the volume, or was refused because of the trim.
	SnapshotWaits, CallWaits bool
}

// CheckTrim is asked before each step. Nothing is discarded while the volume is frozen or grown, its
// publication ends or its I/O is suspended, and other work goes first (S61). Such a refusal is Busy: the next
// call goes on where this one ended. A device that is missing is a Precondition: waiting does not bring it back.
func CheckTrim(s *TrimView) *fsm.Rejection {
	switch d := s.Desired; {
	case s.Have.ioSuspended():
		return fsm.Reject(fsm.Busy, "volume %s: its I/O is suspended", s.Volume)
	case s.Frozen:
		return fsm.Reject(fsm.Busy, "volume %s: its filesystem is frozen", s.Volume)
	case d == nil || d.Publication == nil || d.Publication.Ending || s.Staging == nil || d.Publication.Epoch != s.Staging.Epoch:
		return fsm.Reject(fsm.Busy, "volume %s: its publication is being ended", s.Volume)
	case !s.Have.Exists && s.Have.DeviceSize() < d.Size:
		return fsm.Reject(fsm.Precondition, "the device of volume %s is missing", s.Volume)
	case d.Goal != fsm.GoalKeep || d.Size > s.Size || s.Have.DeviceSize() > s.Size:
		return fsm.Reject(fsm.Busy, "volume %s: it is being grown", s.Volume)
	case s.SnapshotWaits:
		return fsm.Reject(fsm.Busy, "volume %s: a snapshot of it waits, and its space is reclaimed afterwards", s.Volume)
	case s.CallWaits:
		return fsm.Reject(fsm.Busy, "volume %s: another call waits, and its space is reclaimed afterwards", s.Volume)
	}
	return nil
}

// WantsReclaim reports whether the host is to reclaim the space of a volume that nobody uses, and has not
// begun (S61).
func WantsReclaim(s *VolumeView) bool {
	d := s.Desired
	return s.Actionable && d != nil && d.Publication != nil && d.Publication.Reclaim && !d.Publication.Ending && d.Teardown == nil && s.Record.Staging == nil
}
