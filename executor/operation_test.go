package executor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// S73: a failure is of the operation that the step was for: that of new limits has a number
// of its own beside a growth's.
func TestS73_AFailureNamesTheOperationOfItsStep(t *testing.T) {
	const gib = int64(1 << 30)
	limits := &fsm.Limits{ReadIOPS: 7}
	up := observedVolume{Device: Device{Exists: true, Size: gib, Path: "/dev/loop0", Number: 7}}
	for name, tc := range map[string]struct {
		want volumeSpec
		is   fsm.OperationID
	}{
		"the image lost its end":       {want: volumeSpec{goal: fsm.GoalKeep, size: 2 * gib, expanding: true, limits: limits, canThrottle: true}, is: 5},
		"limits are put in force":      {want: volumeSpec{goal: fsm.GoalKeep, size: gib, expanding: true, limits: limits, canThrottle: true}, is: 6},
		"this host can put none":       {want: volumeSpec{goal: fsm.GoalKeep, size: gib, expanding: true, limits: limits}, is: 6},
		"nothing is wanted but growth": {want: volumeSpec{goal: fsm.GoalKeep, size: 2 * gib, expanding: true}, is: 5},
	} {
		t.Run(name, func(t *testing.T) {
			v := &volume{lastTried: &fsm.DesiredVolume{Operation: 5, Attempt: 1, ModifyOperation: 6, ModifyAttempt: 2}}
			j := &job{v: v, want: &tc.want}
			v.limitsStep = j.isLimitsStep(nextVolumeStep(&tc.want, &up), &up)
			id, _ := v.currentOperation()
			require.Equal(t, tc.is, id)
		})
	}
}
