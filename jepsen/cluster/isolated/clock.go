package isolated

import (
	"fmt"
	"time"
)

// StepClock sets the wall clock of the member's process, and of nothing else, to so much ahead of the machine's (behind, when it is
// negative), until it is set again or the process ends. Its monotonic clock goes on as before, as that of a host does
// whose clock is set.
func (m *Member) StepClock(ahead time.Duration) error {
	pid := m.PID()
	if pid == 0 {
		return fmt.Errorf("step the clock of %s: %w", m.ID, ErrNoProcess)
	}
	if err := stepClock(pid, ahead); err != nil {
		return fmt.Errorf("step the clock of %s: %w", m.ID, err)
	}
	return nil
}

func stepClock(pid int, ahead time.Duration) error {
	v, err := findVDSO(pid)
	if err != nil {
		return err
	}
	return v.run(clockCode(ahead))
}
