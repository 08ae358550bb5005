package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportRetry is how long to wait with a report that the log did not take.
const reportRetry = 500 * time.Millisecond

// tell sends what is owed and what is new, and does not wait for the log: tearing
// down must find the volume unlocked (S28).
func (r *volumeReporter) reportChanges(v *volume, s *plan.VolumeView) error {
	r.outbox.sendOutbox(r.ctx, v)
	for _, f := range plan.UnreportedFacts(s) {
		if r.isAcked(v, f) {
			continue
		}
		ob := &fsmpb.Observation{VolumeId: string(v.id), Epoch: epochProto(f.Epoch)}
		f.FillObservation(ob, s)
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

// isAcked says so of a volume's fact.
func (t *table) isAcked(v *volume, f plan.Fact) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.reportedFacts.isAcked(f)
}

// noteAcked notes that the log took a volume's fact. The caller holds mu.
func (t *table) noteAcked(v *volume, f plan.Fact, at fsm.Epoch) {
	times := v.acked[f].count
	if f.Name == plan.FactTornDown {
		times = 0 // somebody may wait for the end
	}
	t.volumeQueue.addAfter(v.id, v.noteAcked(f, at, times))
}

// send has one observation reported, unless it is under way.
func (r *volumeReporter) sendFact(v *volume, f plan.Fact, ob *fsmpb.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !v.reportedFacts.beginReport(f) {
		return
	}
	r.reports.send(reportBatch{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { r.onFactAnswer(v, f, at, err) }})
}

// onFactAnswer is the answer to send: what was not taken is looked at again.
func (r *volumeReporter) onFactAnswer(v *volume, f plan.Fact, at fsm.Epoch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unsaid := v.reportedFacts.endReport(f)
	if v.desired == nil {
		r.volumeQueue.add(v.id) // it may be dropped now
	}
	if f.Name == plan.FactReplicaObserved || unsaid { // it may be otherwise by now, or not have counted
		r.volumeQueue.add(v.id)
	}
	switch {
	case err != nil && !errors.Is(err, errSuperseded):
		r.volumeQueue.addAfter(v.id, reportRetry)
	case at.Incarnation != r.session.at.Incarnation:
		r.volumeQueue.add(v.id) // a restored log may not have it (S1)
	case f.Name == plan.FactCondition:
		v.ackedHealth = &f.Path
		r.volumeQueue.add(v.id)
	case f.Name == plan.FactLimitsApplied && v.desired != nil && f.Path == fmt.Sprint(v.desired.Limits):
		v.ackedLimits = &v.desired.Limits
	case v.desiredAt.Compare(at) < 0:
		r.noteAcked(v, f, at)
	}
}
