package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportRetry is how long to wait before a report that failed is repeated.
const reportRetry = 500 * time.Millisecond

// reportChanges sends the outbox and all unreported facts, without waiting for the log: a call
// that takes the volume down must find it unlocked (S28).
func (r *volumeReporter) reportChanges(v *volume, view *plan.VolumeView) error {
	r.outbox.sendOutbox(r.ctx, v)
	for _, f := range plan.UnreportedFacts(view) {
		if r.isAcked(v, f) {
			continue
		}
		ob := &fsmpb.Observation{VolumeId: string(v.id), Epoch: f.Epoch.Proto()}
		f.FillObservation(ob, view)
		if !f.Epoch.IsZero() && f.Name != plan.FactLimitsApplied {
			number, err := r.records.reserveSequence(v)
			if err != nil {
				return err
			}
			ob.Sequence = number
		}
		r.sendFact(v, f, ob)
	}
	return nil
}

// isAcked reports whether the log acknowledged a volume's fact; see reportedFacts.isAcked.
func (t *table) isAcked(v *volume, f plan.Fact) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.reportedFacts.isAcked(f)
}

// noteAcked notes that the log acknowledged a volume's fact. The caller holds table.mu.
func (t *table) noteAcked(v *volume, f plan.Fact, at fsm.Epoch) {
	times := v.acked[f].count
	if f.Name == plan.FactTornDown {
		times = 0 // a call may wait for the teardown to show: no growing delays
	}
	t.volumeQueue.addAfter(v.id, v.noteAcked(f, at, times))
}

// sendFact sends one observation, unless its report is under way.
func (r *volumeReporter) sendFact(v *volume, f plan.Fact, ob *fsmpb.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !v.reportedFacts.beginReport(f) {
		return
	}
	if f.Name == plan.FactLimitsApplied {
		v.forgetAckedLimits()
	}
	limits := v.limitsReport
	r.reports.send(reportBatch{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { r.onFactAnswer(v, f, limits, at, err) }})
}

// forgetAckedLimits makes only the answer to a report that is still to be sent tell which limits the
// log has: until then it may have others than those of the last answer.
func (v *volume) forgetAckedLimits() {
	v.limitsReport++
	v.ackedLimits = nil
}

// onFactAnswer is called when the report ended; what was not applied is reconciled again. limits is
// the volume's limitsReport when the report was sent.
func (r *volumeReporter) onFactAnswer(v *volume, f plan.Fact, limits uint64, at fsm.Epoch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wasDirty := v.reportedFacts.endReport(f)
	if v.desired == nil {
		r.volumeQueue.add(v.id) // its entry may be dropped now
	}
	failed := err != nil && !errors.Is(err, errSuperseded)
	if !failed && (f.Name == plan.FactReplicaObserved || wasDirty) { // it may have changed meanwhile, or been superseded
		r.volumeQueue.add(v.id)
	}
	switch {
	case failed: // what changed meanwhile waits, too: a log that refuses at once must not be asked in a loop
		r.volumeQueue.addAfter(v.id, reportRetry)
	case at.Incarnation != r.session.at.Incarnation:
		r.volumeQueue.add(v.id) // a restored log may not have it (S1)
	case f.Name == plan.FactCondition:
		v.ackedHealth = &f.Path
		r.volumeQueue.add(v.id)
	case f.Name == plan.FactLimitsApplied && v.limitsReport != limits:
		r.volumeQueue.add(v.id) // others were reported since, or the staging that they were in force for is over
	case f.Name == plan.FactLimitsApplied && v.desired != nil && f.Path == fmt.Sprint(v.desired.Limits):
		v.ackedLimits = &v.desired.Limits
	case v.desiredAt.Compare(at) < 0:
		r.noteAcked(v, f, at)
	}
}
