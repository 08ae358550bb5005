package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// observeSnapshot observes the snapshot. Without desired state only the record is read, which is
// all that there is to remove.
func (sw *snapshotWorker) observeSnapshot(ctx context.Context, c *snapshotState) (*plan.SnapshotView, fsm.Epoch, error) {
	sw.mu.Lock()
	s := &plan.SnapshotView{Desired: c.desired, Record: c.record, FreezeHold: c.freezeHold.known(), Now: time.Now(), IncarnationID: sw.session.incarnationID}
	at := sw.session.at
	s.Actionable = sw.session.number != 0 && sw.session.adopted && at.Compare(sw.acted.OnDisk()) >= 0
	c.awaitingSession = !s.Actionable
	sw.mu.Unlock()
	c.lastTried = s.Desired
	if s.Desired == nil {
		return s, at, nil
	}
	if now := (attempt{s.Desired.Operation, s.Desired.Retry}); now != c.failedAttempt {
		c.failedAttempt, c.failures = now, 0
	}
	backend, err := sw.poolSet.snapshotPool(s.Desired)
	if err != nil {
		return nil, at, err
	}
	if s.Have, err = backend.ObserveSnapshot(ctx, c.id); err != nil {
		return nil, at, fmt.Errorf("look at snapshot %s: %w", c.id, err)
	}
	return s, at, nil
}
