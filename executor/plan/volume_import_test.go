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
