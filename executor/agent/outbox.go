package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func teardownObservation(id fsm.VolumeID, o records.PendingTeardown) *fsmpb.Observation {
	ob := &fsmpb.Observation{VolumeId: string(id), Epoch: o.Epoch.Proto(), Sequence: o.Sequence}
	if o.Target == "" {
		ob.Fact = &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}
	} else {
		ob.Fact = &fsmpb.Observation_TargetGone{TargetGone: &fsmpb.TargetGone{TargetPath: o.Target}}
	}
	return ob
}

// outboxReport is a report of a volume's outbox under way. There is at most one, so that records
// are applied in their order, and each once.
type outboxReport struct {
	teardowns []records.PendingTeardown
	done      chan struct{}
	err       error // valid after done
}

// queueTeardowns writes records of teardowns into the volume's outbox, synced, so that they are
// reported even if this process dies (S16). A teardown that the log acknowledged since the
// volume's last grant, or that is in the outbox already, is not queued again (S73). The caller
// holds the volume's lock.
func (ob *outbox) queueTeardowns(v *volume, teardowns ...records.PendingTeardown) error {
	for _, teardown := range ob.unackedTeardowns(v, teardowns) {
		number, err := ob.records.reserveSequence(v)
		if err != nil {
			return err
		}
		teardown.Sequence = number
		v.record.PendingTeardowns = append(v.record.PendingTeardowns, teardown)
		ob.forgetCommitted(v, teardown)
	}
	return ob.records.saveRecord(v, true)
}

// unackedTeardowns are those that are not acknowledged and not in the outbox. An acknowledged one
// may still be in the desired state until the next update.
func (ob *outbox) unackedTeardowns(v *volume, teardowns []records.PendingTeardown) []records.PendingTeardown {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	var left []records.PendingTeardown
	for _, teardown := range teardowns {
		last, ok := v.acked[plan.FactOf(teardown)]
		acked := ok && time.Now().Before(last.resendAt) && last.at.Compare(v.record.Floor) > 0
		if !acked && !v.record.HasPendingTeardown(teardown) {
			left = append(left, teardown)
		}
	}
	return left
}

// forgetCommitted forgets the committed facts that the teardown ended.
func (ob *outbox) forgetCommitted(v *volume, teardown records.PendingTeardown) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	for f := range v.committed {
		if teardown.Target == "" || f.Name == plan.FactTargetBound && f.Path == teardown.Target {
			delete(v.committed, f)
		}
	}
}

// sendOutbox sends the outbox and returns the report under way; nil when everything in it is
// acknowledged. A replica's unreported observation precedes the report that nothing of the volume
// is up. The caller holds the volume's lock.
func (ob *outbox) sendOutbox(ctx context.Context, v *volume) *outboxReport {
	ob.mu.Lock()
	underWay, acked := v.outboxReport, v.ackedTeardown
	ob.mu.Unlock()
	if underWay != nil {
		return underWay
	}
	d := &outboxReport{done: make(chan struct{})}
	var all []*fsmpb.Observation
	for _, o := range v.record.PendingTeardowns {
		if o.Sequence <= acked {
			continue
		}
		if o.Target == "" {
			all = append(all, ob.observer.unreportedReplica(ctx, v)...)
		}
		d.teardowns, all = append(d.teardowns, o), append(all, teardownObservation(v.id, o))
	}
	if len(all) == 0 {
		return nil
	}
	ob.mu.Lock()
	defer ob.mu.Unlock()
	v.outboxReport = d
	ob.reports.send(reportBatch{all, func(at fsm.Epoch, err error) { ob.onOutboxAnswer(v, d, at, err) }})
	return d
}

// onOutboxAnswer is called when the report ended; what was not applied is reconciled again.
func (ob *outbox) onOutboxAnswer(v *volume, d *outboxReport, at fsm.Epoch, err error) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	v.outboxReport, d.err = nil, err
	close(d.done)
	if err != nil {
		ob.volumeQueue.addAfter(v.id, reportRetry)
		return
	}
	for _, o := range d.teardowns {
		v.ackedTeardown = max(v.ackedTeardown, o.Sequence)
		if v.desiredAt.Compare(at) < 0 {
			ob.noteAcked(v, plan.FactOf(o), at)
		}
	}
	ob.volumeQueue.add(v.id)
}

// drain waits until the volume's outbox is acknowledged, no longer than limit. The caller
// holds the volume's lock.
func (ob *outbox) drain(ctx context.Context, v *volume, c *call, limit time.Duration) error {
	if len(v.record.PendingTeardowns) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if c != nil {
		c.proposing.Add(1)
		defer c.proposing.Add(-1)
	}
	ob.hitFaultPoint("drain.before")
	for d := ob.sendOutbox(ctx, v); d != nil; d = ob.sendOutbox(ctx, v) {
		select {
		case <-d.done:
		case <-ctx.Done():
			return &unavailable{ctx.Err()}
		}
		if d.err != nil {
			return d.err
		}
	}
	ob.hitFaultPoint("drain.after")
	return ob.records.pruneOutbox(v)
}
