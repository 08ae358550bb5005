package agent

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// maxConcurrentReports bounds how many Reports are under way; what comes meanwhile
	// goes together into the next.
	maxConcurrentReports = 4
	// maxReportObservations is how many observations go into one Report.
	maxReportObservations = 256
)

// reportBatch is observations and who waits for them to be in the log. done is called
// once, with where they were applied; errSuperseded when one did not count.
type reportBatch struct {
	observations []*fsmpb.Observation
	onAnswer     func(at fsm.Epoch, err error)
}

// reporter has observations reported.
type reporter struct {
	*table
	proposer *proposer
	batches  batcher
}

func (r *reporter) send(l reportBatch) { r.batches.send(l) }

// batcher puts observations of many volumes into few commands. Their order
// between commands is kept by their sequence numbers (S16).
type batcher struct {
	propose func([]reportBatch) (*fsmpb.Outcome, fsm.Epoch, error)

	mu      sync.Mutex
	waiting []reportBatch
	running int
}

func (b *batcher) send(l reportBatch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, l)
	if b.running < maxConcurrentReports {
		b.running++
		go b.run()
	}
}

func (b *batcher) run() {
	for {
		batches := b.takeBatches()
		if len(batches) == 0 {
			return
		}
		outcome, at, err := b.propose(batches)
		first := 0
		for _, l := range batches {
			after := first + len(l.observations)
			if err == nil && anySuperseded(outcome, first, after) {
				l.onAnswer(at, errSuperseded)
			} else {
				l.onAnswer(at, err)
			}
			first = after
		}
	}
}

// errSuperseded says that the log passed a fact over, as it wants it so no more.
var errSuperseded = errors.New("the log does not want it any more")

// anySuperseded tells whether one of the report's observations from first up to after was.
func anySuperseded(outcome *fsmpb.Outcome, first, after int) bool {
	return slices.ContainsFunc(outcome.GetOvertaken(), func(number uint32) bool { return first <= int(number) && int(number) < after })
}

func (b *batcher) takeBatches() []reportBatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	size, n := 0, 0
	for n < len(b.waiting) && (n == 0 || size+len(b.waiting[n].observations) <= maxReportObservations) {
		size += len(b.waiting[n].observations)
		n++
	}
	batches := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	if n == 0 {
		b.running--
	}
	return batches
}

func (r *reporter) proposeReport(batches []reportBatch) (*fsmpb.Outcome, fsm.Epoch, error) {
	report := &fsmpb.Report{NodeId: string(r.Node), HostId: string(r.Host.ID), BootId: r.Host.BootID}
	for _, l := range batches {
		report.Observations = append(report.Observations, l.observations...)
	}
	sanitizeTexts(report.Observations)
	r.mu.Lock()
	incarnation := r.session.at.Incarnation // an index is not of a later one (S1)
	r.mu.Unlock()
	r.hitFaultPoint("report.before")
	answer, err := r.proposer.propose(r.ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: report}})
	r.hitFaultPoint("report.after")
	r.metrics.reports.WithLabelValues(outcomeLabel(err)).Inc()
	return answer, fsm.Epoch{Incarnation: incarnation, Index: answer.GetIndex()}, err
}

// reportAndWait says something and waits until it is in the log, or ctx ends.
func (r *reporter) reportAndWait(ctx context.Context, c *call, observations ...*fsmpb.Observation) (fsm.Epoch, error) {
	if c != nil {
		c.proposing.Add(1)
		defer c.proposing.Add(-1)
	}
	type answer struct {
		at  fsm.Epoch
		err error
	}
	answered := make(chan answer, 1)
	r.send(reportBatch{observations, func(at fsm.Epoch, err error) { answered <- answer{at, err} }})
	select {
	case a := <-answered:
		return a.at, a.err
	case <-ctx.Done():
		return fsm.Epoch{}, &unavailable{ctx.Err()}
	}
}

// reportFactAndWait says what a call achieved, and waits until it is in the log: only then is
// the next call valid (S73). The fact is not told again (taken), unless another incarnation
// began meanwhile, whose log may not have it. The caller holds the lock.
func (r *volumeReporter) reportFactAndWait(ctx context.Context, v *volume, c *call, f plan.Fact, ob *fsmpb.Observation) error {
	number, err := r.records.reserveSequence(v)
	if err != nil {
		return err
	}
	ob.VolumeId, ob.Epoch, ob.Sequence = string(v.id), epochProto(f.Epoch), number
	at, err := r.reports.reportAndWait(ctx, c, ob)
	if errors.Is(err, errSuperseded) {
		return fsm.Reject(fsm.StaleEpoch, "volume %s: its publication to this host at epoch %s was ended meanwhile", v.id, f.Epoch)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Incarnation != r.session.at.Incarnation {
		return errSessionChanged
	}
	v.committed[f] = struct{}{}
	if v.desiredAt.Compare(at) < 0 {
		r.noteAcked(v, f, at)
	}
	return nil
}
