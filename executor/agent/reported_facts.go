package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// resendDelay is how long a fact may take to come back as a wish, at first.
const resendDelay = time.Second

// reportedFacts are what was said of a volume, or of a snapshot. They are guarded by table.mu.
type reportedFacts struct {
	inFlight map[plan.Fact]struct{}    // reports under way
	acked    map[plan.Fact]ackedReport // reports made, until a wish shows them
	dirty    bool                      // a fact was not reported again, as it was under way
}

// ackedReport is a report that the log took.
type ackedReport struct {
	at       fsm.Epoch
	resendAt time.Time // when it is made again if no wish showed it
	count    int
}

func newFacts() reportedFacts {
	return reportedFacts{inFlight: map[plan.Fact]struct{}{}, acked: map[plan.Fact]ackedReport{}}
}

// begin notes that a fact is being reported, unless it is already: it may be passed over
// then, and nobody would say it again.
func (f *reportedFacts) beginReport(about plan.Fact) bool {
	if _, inFlight := f.inFlight[about]; inFlight {
		f.dirty = true
		return false
	}
	f.inFlight[about] = struct{}{}
	return true
}

// ended tells whether something was not said meanwhile.
func (f *reportedFacts) endReport(about plan.Fact) (unsaid bool) {
	delete(f.inFlight, about)
	unsaid, f.dirty = f.dirty, false
	return unsaid
}

// isAcked: the log took it, and the wish that shows it has not come yet.
func (f *reportedFacts) isAcked(about plan.Fact) bool {
	acked, ok := f.acked[about]
	return ok && time.Now().Before(acked.resendAt)
}

// noteAcked notes that the log took a fact. One that was overtaken by a later record is
// passed over without a word, so it is told again when no wish shows it; ever more
// seldom.
func (f *reportedFacts) noteAcked(about plan.Fact, at fsm.Epoch, times int) (patience time.Duration) {
	patience = resendDelay << min(times, 8)
	f.acked[about] = ackedReport{at: at, resendAt: time.Now().Add(patience), count: times + 1}
	return patience
}

// dropShown forgets what a wish of that time shows.
func (f *reportedFacts) dropShown(at fsm.Epoch) {
	for about, acked := range f.acked {
		if at.Compare(acked.at) >= 0 {
			delete(f.acked, about)
		}
	}
}
