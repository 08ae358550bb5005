package lab

import (
	"context"
	"fmt"
	"time"
)

// StepClock moves the time of day in the guest. The kernel then says that nobody sets its clock; timers do not notice. A boot begins with
// the host's time.
func (g *Guest) StepClock(ctx context.Context, by time.Duration) error {
	return g.clock(ctx, by)
}

// DisciplineClock tells the guest's kernel what a time daemon does, so that it says that somebody sets its clock.
func (g *Guest) DisciplineClock(ctx context.Context) error { return g.clock(ctx, 0) }

func (g *Guest) clock(ctx context.Context, step time.Duration) error {
	out, code, err := g.Exec(ctx, "/run/lab/agent clock "+step.String())
	if err == nil && code != 0 {
		err = fmt.Errorf("set the clock of %s: exit code %d: %s", g.Name(), code, out)
	}
	return err
}

// StepClocks moves the time of day in all guests at once, so that they agree with each other.
func (l *Lab) StepClocks(ctx context.Context, by time.Duration) error {
	return l.forEachGuest(func(g *Guest) error { return g.StepClock(ctx, by) })
}

// DisciplineClocks has all guests' kernels say that somebody sets their clocks.
func (l *Lab) DisciplineClocks(ctx context.Context) error {
	return l.forEachGuest(func(g *Guest) error { return g.DisciplineClock(ctx) })
}
