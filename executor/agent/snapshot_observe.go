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
func (sw *snapshotWorker) observeSnapshot(ctx context.Context, snap *snapshotState) (*plan.SnapshotView, fsm.Epoch, error) {
	sw.mu.Lock()
	s := &plan.SnapshotView{Desired: snap.desired, Record: snap.record, FreezeHold: snap.freezeHold.known(), Now: time.Now(), IncarnationID: sw.session.incarnationID}
	at := sw.session.at
	s.Actionable = sw.session.number != 0 && sw.session.adopted && at.Compare(sw.acted.OnDisk()) >= 0
	snap.awaitingSession = !s.Actionable
	sw.mu.Unlock()
	snap.lastTried = s.Desired
	if s.Desired == nil {
		return s, at, nil
	}
	if now := (attempt{s.Desired.Operation, s.Desired.Retry}); now != snap.failedAttempt {
		snap.failedAttempt, snap.failures = now, 0
	}
	backend, err := sw.poolSet.snapshotPool(s.Desired)
	if err != nil {
		return nil, at, err
	}
	if s.Have, err = backend.ObserveSnapshot(ctx, snap.id); err != nil {
		return nil, at, fmt.Errorf("look at snapshot %s: %w", snap.id, err)
	}
	return s, at, nil
}
