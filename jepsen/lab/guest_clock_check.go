package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrClockStands: the clock that a guest's timers go by stands still. Whatever failed there failed by the lab.
var ErrClockStands = errors.New("the lab failed, and not what is tested in it: the guest's clock stands still")

// clockPatience is for how long a clock may stand where the context has no deadline: hundreds of its alarms.
const clockPatience = 2 * time.Minute

// CheckClock answers nil as soon as the guest's clock advances, and ErrClockStands when it has not until the
// context's deadline, although the guest's agent answered. Programs go on there, so nothing else shows it, but
// replication and every timeout wait for ever.
func (g *Guest) CheckClock(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		within, cancel := context.WithTimeout(ctx, clockPatience)
		defer cancel()
		ctx = within
	}
	first, err := g.jiffies(ctx)
	for answers := 0; err == nil; answers++ {
		now, failed := g.jiffies(ctx)
		if err = failed; err == nil && now != first {
			return nil
		}
		if ctx.Err() != nil && answers > 0 {
			return fmt.Errorf("%s was asked %d times and is at %s: %w", g.Name(), answers, first, ErrClockStands)
		}
		if err == nil {
			pause(ctx)
		}
	}
	return fmt.Errorf("watch the clock of %s: %w", g.Name(), err)
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

// jiffies is the clock that the kernel's timers go by.
func (g *Guest) jiffies(ctx context.Context) (string, error) {
	text, err := g.Get(ctx, "/proc/timer_list")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "jiffies: "); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("the timers of %s have no clock", g.Name())
}
