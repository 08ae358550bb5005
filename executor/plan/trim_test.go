package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S61: nothing is discarded while the volume is frozen, grown, ended or suspended, or other work waits.
func TestS61_ATrimEndsWhereItMustNotGoOn(t *testing.T) {
	epoch := fsm.Epoch{Incarnation: 1, Index: 7}
	for name, tc := range map[string]struct {
		change func(*TrimView)
		ends   bool
	}{
		"nothing else happens":             {change: func(*TrimView) {}},
		"it is frozen":                     {func(s *TrimView) { s.Frozen = true }, true},
		"its I/O is suspended":             {func(s *TrimView) { s.Have.Replica = &ObservedReplica{}; s.Have.Replica.Suspended = true }, true},
		"it is to grow":                    {func(s *TrimView) { s.Desired.Size = 200 }, true},
		"its device grew":                  {func(s *TrimView) { s.Have.Size = 200 }, true},
		"it is being deleted":              {func(s *TrimView) { s.Desired.Goal = fsm.GoalRemove }, true},
		"it was forgotten":                 {func(s *TrimView) { s.Desired = nil }, true},
		"its publication ended":            {func(s *TrimView) { s.Desired.Publication = nil }, true},
		"its publication ends":             {func(s *TrimView) { s.Desired.Publication.Ending = true }, true},
		"it is staged under another epoch": {func(s *TrimView) { s.Staging.Epoch.Index++ }, true},
		"it is not staged":                 {func(s *TrimView) { s.Staging = nil }, true},
		"a snapshot waits":                 {func(s *TrimView) { s.SnapshotWaits = true }, true},
		"a call waits":                     {func(s *TrimView) { s.CallWaits = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &TrimView{
				Volume: "v1", Size: 100, Have: &ObservedVolume{Device: executor.Device{Exists: true, Size: 100}}, Staging: &records.StagingRecord{Epoch: epoch},
				Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Size: 100, Publication: &fsm.Publication{Epoch: epoch}},
			}
			tc.change(s)
			rej := CheckTrim(s)
			require.Equal(t, tc.ends, rej != nil)
			if tc.ends {
				require.Equal(t, fsm.Busy, rej.Reason, "the next call goes on")
			}
		})
	}
}

// A device that is missing does not grow: the caller is told, instead of asked to come again.
func TestATrimIsRefusedWithoutItsDevice(t *testing.T) {
	s := &TrimView{
		Volume: "v1", Have: &ObservedVolume{}, Staging: &records.StagingRecord{},
		Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Size: 100, Publication: &fsm.Publication{}},
	}
	rej := CheckTrim(s)
	require.Equal(t, fsm.Precondition, rej.Why())
	require.Contains(t, rej.Error(), "is missing")
	s.Have.Device = executor.Device{Exists: true, Size: 50}
	require.Equal(t, fsm.Busy, CheckTrim(s).Why())
}
