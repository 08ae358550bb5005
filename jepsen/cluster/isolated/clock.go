package isolated

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// StepClock sets the wall clock of the member's process, and of nothing else, to so much ahead of the machine's (behind, when it is
// negative), until it is set again or the process ends. Its monotonic clock goes on as before, as that of a host does
// whose clock is set. It waits for a process that has just begun to read its clock, and for one that is ending to have ended.
func (m *Member) StepClock(ahead time.Duration) error {
	return harness.Poll(context.Background(), harness.Patience, "the clock of "+m.ID+" to be set", func() (bool, error) {
		pid := m.PID()
		if pid == 0 {
			return false, harness.Permanent(ErrNoProcess)
		}
		err := stepClock(pid, ahead)
		if errors.Is(err, ErrNoClock) {
			err = harness.Permanent(err)
		}
		return err == nil, err
	})
}

func stepClock(pid int, ahead time.Duration) error {
	v, err := findVDSO(pid)
	if err != nil {
		return err
	}
	return v.run(clockCode(ahead))
}
