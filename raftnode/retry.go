package raftnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// retry asks, again at each change of the leader and after short pauses, until it
// is answered, refused for good, or nobody could answer for the member's patience:
// without a leader it fails at once when there was none for that long (S28).
func (m *Member) retry(ctx context.Context, ask func(context.Context, *view) error) error {
	var failing time.Time // since when all attempts failed
	for try := 0; ; try++ {
		v := m.lead.now()
		err := m.ask(ctx, v, ask)
		switch {
		case err == nil:
			return nil
		case m.closing.Err() != nil:
			return fmt.Errorf("%w: %w", ErrShutdown, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case errors.Is(err, ErrDiskFull), errors.Is(err, ErrDiverged), errors.Is(err, ErrRefused):
			return err
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if m.lead.now().lost() > m.cfg.patience() || time.Since(failing) > 2*m.cfg.patience() {
			return err
		}
		m.rest(ctx, v, try)
	}
}

// ask gives one attempt a context that ends with the leader's time and the member's.
func (m *Member) ask(ctx context.Context, v *view, ask func(context.Context, *view) error) error {
	if m.closing.Err() != nil {
		return ErrShutdown
	}
	if err := m.inCluster(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if v.addr == "" {
		return fmt.Errorf("%w: no leader is known", ErrNotLeader)
	}
	if v.leading { // what is asked here ends by itself with leadership and with the member
		return ask(ctx, v)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(m.closing, func() { cancel(ErrShutdown) })
	defer stop()
	changed := context.AfterFunc(v.over, func() { cancel(errLeaderChanged) })
	defer changed()
	return ask(ctx, v)
}

// rest waits for another leader, or a little: sooner at first, never in step with others.
func (m *Member) rest(ctx context.Context, v *view, try int) {
	most := time.Millisecond << min(try+1, 6)
	if v.addr == "" {
		most = 50 * time.Millisecond
	}
	t := time.NewTimer(most/2 + rand.N(most/2+1))
	defer t.Stop()
	select {
	case <-t.C:
	case <-v.over.Done():
	case <-ctx.Done():
	case <-m.closing.Done():
	}
}
