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
	// maxConcurrentReports bounds how many Reports are under way; observations that come
	// meanwhile go together into the next one.
	maxConcurrentReports = 4
	// maxReportObservations is how many observations go into one Report.
	maxReportObservations = 256
)

// reportBatch is observations that are sent together. onAnswer is called once, with the epoch at which
// they were applied; with errSuperseded when one of them no longer applied.
type reportBatch struct {
	observations []*fsmpb.Observation
	onAnswer     func(at fsm.Epoch, err error)
}

// reporter sends reports.
type reporter struct {
	*table
	proposer *proposer
	batches  batcher
}

func (r *reporter) send(batch reportBatch) { r.batches.send(batch) }

// batcher puts observations of many volumes into few commands. Sequence numbers keep the order
// of observations in different commands (S16).
type batcher struct {
	propose func([]reportBatch) (*fsmpb.Outcome, fsm.Epoch, error)

	mu      sync.Mutex
	waiting []reportBatch
	running int
}

func (b *batcher) send(batch reportBatch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, batch)
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
		for _, batch := range batches {
			after := first + len(batch.observations)
			if err == nil && anySuperseded(outcome, first, after) {
				batch.onAnswer(at, errSuperseded)
			} else {
				batch.onAnswer(at, err)
			}
			first = after
		}
	}
}

// errSuperseded says that a later record made the report irrelevant.
var errSuperseded = errors.New("the desired state changed meanwhile")

// anySuperseded reports whether one of the observations from first up to after was superseded.
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
	for _, batch := range batches {
		report.Observations = append(report.Observations, batch.observations...)
	}
	sanitizeTexts(report.Observations)
	r.mu.Lock()
	incarnation := r.session.at.Incarnation // an index means nothing in a later incarnation (S1)
	r.mu.Unlock()
	r.hitFaultPoint("report.before")
	answer, err := r.proposer.propose(r.ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: report}})
	r.hitFaultPoint("report.after")
	r.metrics.reports.WithLabelValues(outcomeLabel(err)).Inc()
	return answer, fsm.Epoch{Incarnation: incarnation, Index: answer.GetIndex()}, err
}

// reportAndWait reports and waits until that is committed, or ctx ends.
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

// reportFactAndWait reports what a call achieved, and waits until it is committed: only then is
// the next call valid (S73). The fact is not reported again (it is in committed), unless another
// incarnation began meanwhile, whose log may not have it. The caller holds the volume's lock.
func (r *volumeReporter) reportFactAndWait(ctx context.Context, v *volume, c *call, f plan.Fact, ob *fsmpb.Observation) error {
	number, err := r.records.reserveSequence(v)
	if err != nil {
		return err
	}
	ob.VolumeId, ob.Epoch, ob.Sequence = string(v.id), f.Epoch.Proto(), number
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
