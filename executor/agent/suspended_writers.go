package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// killTimeout is how long killed processes may take until none of their threads runs any more.
	killTimeout      = 5 * time.Second
	killPollInterval = 10 * time.Millisecond
)

// endWriters kills the processes that write to the device, and returns when none of them can see
// the end of a write any more (S9). The disk is gone: who opens the device from now on cannot have
// a write that succeeds.
func (s *suspendedWatcher) endWriters(ctx context.Context, v *volume, device executor.Device) error {
	killed := map[executor.Process]bool{}
	for began := time.Now(); ; {
		writers, err := s.Mounter.Writers(ctx, device)
		if err != nil {
			return fmt.Errorf("look for the writers of volume %s: %w", v.id, err)
		}
		left := plan.WritersToKill(writers)
		if len(left) == 0 {
			return nil
		}
		if err := s.killWriters(ctx, v, left, killed); err != nil {
			return err
		}
		if time.Since(began) > killTimeout {
			return errWriterLeft(v, left[0])
		}
		if err := sleep(ctx, killPollInterval); err != nil {
			return err
		}
	}
}

// killWriters kills those that were not killed yet.
func (s *suspendedWatcher) killWriters(ctx context.Context, v *volume, writers []executor.Process, killed map[executor.Process]bool) error {
	for _, p := range writers {
		if killed[p] {
			continue
		}
		if err := s.Mounter.Kill(ctx, p); err != nil {
			return fmt.Errorf("kill process %d (%s), a writer of volume %s: %w", p.PID, p.Name, v.id, err)
		}
		killed[p] = true
		s.logger(v).Warn("killed a process that had the volume open for writing: this replica lost, and a write of it could have ended in success", "pid", p.PID, "name", p.Name)
	}
	return nil
}

func errWriterLeft(v *volume, p executor.Process) error {
	return fsm.Reject(fsm.Busy, "volume %s: process %d (%s), which had it open for writing, was killed and still runs", v.id, p.PID, p.Name)
}
