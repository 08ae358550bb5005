package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportSnapshot sends what is new of a snapshot, and does not wait for the log.
func (r *snapshotReporter) reportSnapshot(c *snapshotState, s *plan.SnapshotView) {
	name := plan.UnreportedSnapshotFact(s)
	if name == "" {
		return
	}
	f := plan.Fact{Name: name, Epoch: fsm.Epoch{Index: uint64(s.Desired.Attempt)}}
	r.mu.Lock()
	acked := c.isAcked(f)
	r.mu.Unlock()
	if acked {
		return
	}
	ob := plan.ObservationOf(c.id, s.Desired.Source)
	s.FillObservation(name, ob)
	r.sendSnapshotFact(c, f, ob)
}

// sendSnapshotFact has one observation reported, unless it is under way.
func (r *snapshotReporter) sendSnapshotFact(c *snapshotState, f plan.Fact, ob *fsmpb.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.beginReport(f) {
		return
	}
	r.reports.send(reportBatch{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { r.onSnapshotFactAnswer(c, f, at, err) }})
}

// onSnapshotFactAnswer is the answer: what was not taken is looked at again.
func (r *snapshotReporter) onSnapshotFactAnswer(c *snapshotState, f plan.Fact, at fsm.Epoch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.endReport(f) {
		r.snapshotQueue.add(c.id)
	}
	switch {
	case c.desired == nil:
		r.snapshotQueue.add(c.id) // it may be dropped now
	case f.Name == plan.FactStepFailed: // it is tried again whatever the log says
	case err != nil:
		r.snapshotQueue.addAfter(c.id, reportRetry)
	case at.Incarnation != r.session.at.Incarnation:
		r.snapshotQueue.add(c.id) // a restored log may not have it (S1)
	case isLasting(f.Name):
		c.acked[f] = ackedReport{at: fsm.Epoch{Incarnation: ^uint64(0)}, resendAt: time.Now().Add(lastingResendDelay)}
	case c.desiredAt.Compare(at) < 0:
		r.snapshotQueue.addAfter(c.id, c.noteAcked(f, at, c.acked[f].count))
	}
}

// isLasting facts change no wish, so that none shows that they were heard.
func isLasting(name string) bool {
	return name == plan.FactSnapshotMissing || name == plan.FactSnapshotFound
}

// lastingResendDelay is how long such a fact is not told again.
const lastingResendDelay = time.Hour
