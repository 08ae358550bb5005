package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// resendDelay is how long desired state that shows a fact is waited for, at first.
const resendDelay = time.Second

// reportedFacts are the reports about one volume or one snapshot. Guarded by table.mu.
type reportedFacts struct {
	inFlight map[plan.Fact]struct{}    // reports under way
	acked    map[plan.Fact]ackedReport // acknowledged, until desired state shows them
	dirty    bool                      // a fact was not reported again because its report was under way
}

// ackedReport is a report that the log acknowledged.
type ackedReport struct {
	at       fsm.Epoch
	resendAt time.Time // when it is sent again if no desired state showed it
	count    int
}

func newFacts() reportedFacts {
	return reportedFacts{inFlight: map[plan.Fact]struct{}{}, acked: map[plan.Fact]ackedReport{}}
}

// beginReport notes that a fact is being reported; false when its report is under way already.
// Then dirty is set, because that report may be superseded and must be repeated.
func (f *reportedFacts) beginReport(about plan.Fact) bool {
	if _, inFlight := f.inFlight[about]; inFlight {
		f.dirty = true
		return false
	}
	f.inFlight[about] = struct{}{}
	return true
}

// endReport reports whether something was left unreported meanwhile.
func (f *reportedFacts) endReport(about plan.Fact) (wasDirty bool) {
	delete(f.inFlight, about)
	wasDirty, f.dirty = f.dirty, false
	return wasDirty
}

// isAcked reports whether the log acknowledged the fact, and desired state that shows it may
// still be on its way.
func (f *reportedFacts) isAcked(about plan.Fact) bool {
	acked, ok := f.acked[about]
	return ok && time.Now().Before(acked.resendAt)
}

// noteAcked notes that the log acknowledged a fact. A superseded report is acknowledged too, so
// the fact is reported again after resendAfter if no desired state shows it; the delay doubles
// each time.
func (f *reportedFacts) noteAcked(about plan.Fact, at fsm.Epoch, times int) (resendAfter time.Duration) {
	resendAfter = resendDelay << min(times, 8)
	f.acked[about] = ackedReport{at: at, resendAt: time.Now().Add(resendAfter), count: times + 1}
	return resendAfter
}

// dropShown forgets the facts that desired state as of that epoch shows.
func (f *reportedFacts) dropShown(at fsm.Epoch) {
	for about, acked := range f.acked {
		if at.Compare(acked.at) >= 0 {
			delete(f.acked, about)
		}
	}
}
