package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S73: a failure names the operation that its step was for: new limits are another operation
// than an expansion.
func TestS73_AFailureNamesTheOperationOfItsStep(t *testing.T) {
	const gib = int64(1 << 30)
	limits := &fsm.Limits{ReadIOPS: 7}
	up := plan.ObservedVolume{Device: executor.Device{Exists: true, Size: gib, Path: "/dev/loop0", Number: 7}}
	for name, tc := range map[string]struct {
		want plan.VolumeSpec
		is   fsm.OperationID
	}{
		"the image lost its end":       {want: plan.VolumeSpec{Goal: fsm.GoalKeep, Size: 2 * gib, Expanding: true, Limits: limits, CanThrottle: true}, is: 5},
		"limits are put in force":      {want: plan.VolumeSpec{Goal: fsm.GoalKeep, Size: gib, Expanding: true, Limits: limits, CanThrottle: true}, is: 6},
		"this host can put none":       {want: plan.VolumeSpec{Goal: fsm.GoalKeep, Size: gib, Expanding: true, Limits: limits}, is: 6},
		"nothing is wanted but growth": {want: plan.VolumeSpec{Goal: fsm.GoalKeep, Size: 2 * gib, Expanding: true}, is: 5},
	} {
		t.Run(name, func(t *testing.T) {
			v := &volume{lastTried: &fsm.DesiredVolume{Operation: 5, Attempt: 1, ModifyOperation: 6, ModifyAttempt: 2}}
			j := &job{v: v, want: &tc.want}
			v.limitsStep = j.isLimitsStep(plan.NextVolumeStep(&tc.want, &up), &up)
			id, _ := v.currentOperation()
			require.Equal(t, tc.is, id)
		})
	}
}
