package executor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// S73: a failure is of the operation that the step was for: that of new limits has a number
// of its own beside a growth's.
func TestS73_AFailureNamesTheOperationOfItsStep(t *testing.T) {
	limits := &fsm.Limits{ReadIOPS: 7}
	up := observed{Device: attached}
	for name, tc := range map[string]struct {
		want desired
		is   fsm.OperationID
	}{
		"the image lost its end":       {want: desired{verb: fsm.GoalKeep, size: 2 * testGib, growing: true, limits: limits, throttles: true}, is: 5},
		"limits are put in force":      {want: desired{verb: fsm.GoalKeep, size: testGib, growing: true, limits: limits, throttles: true}, is: 6},
		"this host can put none":       {want: desired{verb: fsm.GoalKeep, size: testGib, growing: true, limits: limits}, is: 6},
		"nothing is wanted but growth": {want: desired{verb: fsm.GoalKeep, size: 2 * testGib, growing: true}, is: 5},
	} {
		t.Run(name, func(t *testing.T) {
			v := &volume{tried: &fsm.DesiredVolume{Operation: 5, Attempt: 1, ModifyOperation: 6, ModifyAttempt: 2}}
			j := &job{v: v, want: &tc.want}
			v.limiting = j.aboutLimits(next(&tc.want, &up), &up)
			id, _ := v.worksOn()
			require.Equal(t, tc.is, id)
		})
	}
}
