package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func teardownObservation(id fsm.VolumeID, t records.PendingTeardown) *fsmpb.Observation {
	ob := &fsmpb.Observation{VolumeId: string(id), Epoch: t.Epoch.Proto(), Sequence: t.Sequence}
	if t.Target == "" {
		ob.Fact = &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}
	} else {
		ob.Fact = &fsmpb.Observation_TargetGone{TargetGone: &fsmpb.TargetGone{TargetPath: t.Target}}
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
	report := &outboxReport{done: make(chan struct{})}
	var all []*fsmpb.Observation
	for _, t := range v.record.PendingTeardowns {
		if t.Sequence <= acked {
			continue
		}
		if t.Target == "" {
			all = append(all, ob.observer.unreportedReplica(ctx, v)...)
		}
		report.teardowns, all = append(report.teardowns, t), append(all, teardownObservation(v.id, t))
	}
	if len(all) == 0 {
		return nil
	}
	ob.mu.Lock()
	defer ob.mu.Unlock()
	v.outboxReport = report
	ob.reports.send(reportBatch{all, func(at fsm.Epoch, err error) { ob.onOutboxAnswer(v, report, at, err) }})
	return report
}

// onOutboxAnswer is called when the report ended; what was not applied is reconciled again.
func (ob *outbox) onOutboxAnswer(v *volume, report *outboxReport, at fsm.Epoch, err error) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	v.outboxReport, report.err = nil, err
	close(report.done)
	if err != nil {
		ob.volumeQueue.addAfter(v.id, reportRetry)
		return
	}
	for _, t := range report.teardowns {
		v.ackedTeardown = max(v.ackedTeardown, t.Sequence)
		if v.desiredAt.Compare(at) < 0 {
			ob.noteAcked(v, plan.FactOf(t), at)
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
	for report := ob.sendOutbox(ctx, v); report != nil; report = ob.sendOutbox(ctx, v) {
		select {
		case <-report.done:
		case <-ctx.Done():
			return &unavailable{ctx.Err()}
		}
		if report.err != nil {
			return report.err
		}
	}
	ob.hitFaultPoint("drain.after")
	return ob.records.pruneOutbox(v)
}
