package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
)

// S6: a primary whose I/O is not suspended, and of which requests wait that never end, is told from one that is slow, from one
// that waits for a verdict, and from one that has nothing to do.
func TestS6_RequestsThatNeverEndAreTold(t *testing.T) {
	waits := executor.ResourceStatus{InKernel: true, Primary: true, Requests: 1, Transferred: 100}
	with := func(change func(*executor.ResourceStatus)) executor.ResourceStatus {
		s := waits
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		between executor.ResourceStatus // observed half a minute before the end
		hangs   bool
	}{
		"they wait all the time":   {waits, true},
		"one ended":                {with(func(s *executor.ResourceStatus) { s.Transferred++ }), false},
		"none waited in between":   {with(func(s *executor.ResourceStatus) { s.Requests = 0 }), false},
		"its I/O was suspended":    {with(func(s *executor.ResourceStatus) { s.Suspended = true }), false},
		"it was not primary":       {with(func(s *executor.ResourceStatus) { s.Primary = false }), false},
		"it was not in the kernel": {executor.ResourceStatus{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var r RequestsSeen
			began := time.Unix(1, 0)
			require.False(t, r.Hang(&waits, began))
			require.False(t, r.Hang(&waits, began.Add(StuckAfter/4)))
			require.False(t, r.Hang(&tc.between, began.Add(StuckAfter/2)))
			last := waits
			last.Transferred = max(last.Transferred, tc.between.Transferred)
			require.Equal(t, tc.hangs, r.Hang(&last, began.Add(StuckAfter)))
			require.True(t, r.Hang(&last, began.Add(3*StuckAfter)) || !tc.hangs)
		})
	}
}
