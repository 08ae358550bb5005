package executor

import (
	"context"
	"errors"
	"slices"
	"sync"

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

// reporter puts observations of many volumes into few commands. Their order
// between commands is kept by their sequence numbers (S16).
type reporter struct {
	executor *Executor
	mu       sync.Mutex
	waiting  []reportBatch
	running  int
}

func (r *reporter) send(l reportBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, l)
	if r.running < maxConcurrentReports {
		r.running++
		go r.run()
	}
}

func (r *reporter) run() {
	for {
		batches := r.takeBatches()
		if len(batches) == 0 {
			return
		}
		outcome, at, err := r.executor.proposeReport(batches)
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

func (r *reporter) takeBatches() []reportBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	size, n := 0, 0
	for n < len(r.waiting) && (n == 0 || size+len(r.waiting[n].observations) <= maxReportObservations) {
		size += len(r.waiting[n].observations)
		n++
	}
	batches := r.waiting[:n:n]
	r.waiting = r.waiting[n:]
	if n == 0 {
		r.running--
	}
	return batches
}

func (e *Executor) proposeReport(batches []reportBatch) (*fsmpb.Outcome, fsm.Epoch, error) {
	report := &fsmpb.Report{NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.BootID}
	for _, l := range batches {
		report.Observations = append(report.Observations, l.observations...)
	}
	sanitizeTexts(report.Observations)
	e.mu.Lock()
	incarnation := e.session.at.Incarnation // an index is not of a later one (S1)
	e.mu.Unlock()
	e.hitFaultPoint("report.before")
	answer, err := e.propose(e.ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: report}})
	e.hitFaultPoint("report.after")
	e.metrics.reports.WithLabelValues(outcomeLabel(err)).Inc()
	return answer, fsm.Epoch{Incarnation: incarnation, Index: answer.GetIndex()}, err
}

// reportAndWait says something and waits until it is in the log, or ctx ends.
func (e *Executor) reportAndWait(ctx context.Context, c *call, observations ...*fsmpb.Observation) (fsm.Epoch, error) {
	if c != nil {
		c.proposing.Add(1)
		defer c.proposing.Add(-1)
	}
	type answer struct {
		at  fsm.Epoch
		err error
	}
	answered := make(chan answer, 1)
	e.reporter.send(reportBatch{observations, func(at fsm.Epoch, err error) { answered <- answer{at, err} }})
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
func (e *Executor) reportFactAndWait(ctx context.Context, v *volume, c *call, f fact, ob *fsmpb.Observation) error {
	number, err := e.reserveSequence(v)
	if err != nil {
		return err
	}
	ob.VolumeId, ob.Epoch, ob.Sequence = string(v.id), epochProto(f.epoch), number
	at, err := e.reportAndWait(ctx, c, ob)
	if errors.Is(err, errSuperseded) {
		return fsm.Reject(fsm.StaleEpoch, "volume %s: its publication to this host at epoch %s was ended meanwhile", v.id, f.epoch)
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.Incarnation != e.session.at.Incarnation {
		return errSessionChanged
	}
	v.committed[f] = struct{}{}
	if v.desiredAt.Compare(at) < 0 {
		e.noteAcked(v, f, at)
	}
	return nil
}
