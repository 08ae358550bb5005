package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S14, S15: what is imported is neither made nor removed, whatever else is known of it.
func TestS14_WhatIsImportedIsNeitherMadeNorRemoved(t *testing.T) {
	const device, size = "nnggwi", int64(20 << 20)
	there := executor.Device{Exists: true, Size: size}
	for name, tc := range map[string]struct {
		goal   fsm.Goal
		device string
		have   ObservedVolume
		want   StepKind
	}{
		"it is taken in":                            {fsm.GoalCreate, device, ObservedVolume{}, StepImport},
		"an interrupted import goes on":             {fsm.GoalCreate, device, ObservedVolume{Device: executor.Device{Unfinished: true}}, StepImport},
		"it is there":                               {fsm.GoalCreate, device, ObservedVolume{Device: there}, StepNone},
		"what may be torn elsewhere is not removed": {fsm.GoalCreate, device, ObservedVolume{Device: there, mayBeTorn: true}, StepNone},
		"another size is refused":                   {fsm.GoalCreate, device, ObservedVolume{Device: executor.Device{Exists: true, Size: size - 4096}}, StepRefuse},
		"an absent pool is waited for":              {fsm.GoalCreate, device, ObservedVolume{Device: executor.Device{Absent: true}}, StepRefuse},
		"it is given back":                          {fsm.GoalRemove, device, ObservedVolume{Device: there}, StepGiveBack},
		"an interrupted import is given back":       {fsm.GoalRemove, device, ObservedVolume{Device: executor.Device{Unfinished: true}}, StepGiveBack},
		"what is up is taken down first":            {fsm.GoalRemove, device, ObservedVolume{Device: executor.Device{Exists: true, Size: size, Path: "/dev/dm-1"}}, StepDeactivate},
		"it was given back":                         {fsm.GoalRemove, device, ObservedVolume{}, StepNone},
		"a volume in use before is removed":         {fsm.GoalRemove, "", ObservedVolume{Device: there}, StepRemove},
		"another volume is made":                    {fsm.GoalCreate, "", ObservedVolume{}, StepCreate},
	} {
		t.Run(name, func(t *testing.T) {
			want := &VolumeSpec{Volume: "hf-1", Goal: tc.goal, Size: size, Import: tc.device}
			require.Equal(t, tc.want, NextVolumeStep(want, &tc.have).Kind)
		})
	}
}

// S15, S55: the metadata of a DRBD resource of others are looked at again after the import, reported, and replaced only when
// the log says that every host has its device. Until then the replica's own steps wait.
func TestS55_MetadataOfOthersAreReplacedWhenEveryHostHasItsDevice(t *testing.T) {
	const size = int64(20 << 20)
	there := executor.Device{Exists: true, Size: size}
	for name, tc := range map[string]struct {
		replace            bool
		verified, replaced bool
		want               StepKind
	}{
		"it is looked at again":          {false, false, false, StepVerifyImport},
		"also when all have theirs":      {true, false, false, StepVerifyImport},
		"it waits for the other host":    {false, true, false, StepNone},
		"its metadata are replaced":      {true, true, false, StepReplaceMetadata},
		"they are replaced once":         {true, true, true, StepNone},
		"also by a log of before it was": {false, true, true, StepNone},
	} {
		t.Run(name, func(t *testing.T) {
			want := &VolumeSpec{Volume: "hf-1", Goal: fsm.GoalCreate, Size: size, Import: "uuid", ImportDRBD: &fsm.DesiredDRBDImport{Paired: true, Replace: tc.replace}}
			have := &ObservedVolume{Device: there, importVerified: tc.verified, metadataReplaced: tc.replaced}
			require.Equal(t, tc.want, NextVolumeStep(want, have).Kind)
			for _, goal := range []fsm.Goal{fsm.GoalRemove, fsm.GoalKeep} {
				want.Goal = goal
				require.NotContains(t, []StepKind{StepVerifyImport, StepReplaceMetadata}, NextVolumeStep(want, have).Kind)
			}
		})
	}
	replica := &ReplicaSpec{DesiredReplica: &fsm.DesiredReplica{Seed: true}, Volume: "hf-1", Goal: fsm.GoalCreate, Size: size}
	h := &ObservedReplica{Backing: there, AwaitsImport: true}
	require.Equal(t, StepNone, NextReplicaStep(replica, h).Kind, "it is not attached, and gets no metadata")
	h.AwaitsImport = false
	require.Equal(t, StepActivateBacking, NextReplicaStep(replica, h).Kind)
}
