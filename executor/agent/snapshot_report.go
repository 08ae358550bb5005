package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportSnapshot sends what the log does not have of a snapshot, without waiting for the log.
func (r *snapshotReporter) reportSnapshot(snap *snapshotState, s *plan.SnapshotView) {
	name := plan.UnreportedSnapshotFact(s)
	if name == "" {
		return
	}
	f := plan.Fact{Name: name, Epoch: fsm.Epoch{Index: uint64(s.Desired.Attempt)}}
	r.mu.Lock()
	acked := snap.isAcked(f)
	r.mu.Unlock()
	if acked {
		return
	}
	ob := plan.ObservationOf(snap.id, s.Desired.Source)
	s.FillObservation(name, ob)
	r.sendSnapshotFact(snap, f, ob)
}

// sendSnapshotFact sends one observation, unless its report is under way.
func (r *snapshotReporter) sendSnapshotFact(snap *snapshotState, f plan.Fact, ob *fsmpb.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !snap.beginReport(f) {
		return
	}
	r.reports.send(reportBatch{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { r.onSnapshotFactAnswer(snap, f, at, err) }})
}

// onSnapshotFactAnswer is called when the report ended; what was not applied is reconciled again.
func (r *snapshotReporter) onSnapshotFactAnswer(snap *snapshotState, f plan.Fact, at fsm.Epoch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if snap.endReport(f) {
		r.snapshotQueue.add(snap.id)
	}
	switch {
	case snap.desired == nil:
		r.snapshotQueue.add(snap.id) // its entry may be dropped now
	case f.Name == plan.FactStepFailed: // the step is tried again whatever the log answers
	case err != nil:
		r.snapshotQueue.addAfter(snap.id, reportRetry)
	case at.Incarnation != r.session.at.Incarnation:
		r.snapshotQueue.add(snap.id) // a restored log may not have it (S1)
	case isLasting(f.Name):
		snap.acked[f] = ackedReport{at: fsm.Epoch{Incarnation: ^uint64(0)}, resendAt: time.Now().Add(lastingResendDelay)}
	case snap.desiredAt.Compare(at) < 0:
		r.snapshotQueue.addAfter(snap.id, snap.noteAcked(f, at, snap.acked[f].count))
	}
}

// isLasting facts change no desired state, so none shows that they were applied.
func isLasting(name string) bool {
	return name == plan.FactSnapshotMissing || name == plan.FactSnapshotFound
}

// lastingResendDelay is how long such a fact is not reported again.
const lastingResendDelay = time.Hour
