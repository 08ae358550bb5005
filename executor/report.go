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
	// reportsAtOnce bounds how many Reports are under way; what comes meanwhile
	// goes together into the next.
	reportsAtOnce = 4
	// reportLimit is how many observations go into one Report.
	reportLimit = 256
)

// letter is observations and who waits for them to be in the log. done is called
// once, with where they were applied; errOvertaken when one did not count.
type letter struct {
	observations []*fsmpb.Observation
	done         func(at fsm.Epoch, err error)
}

// reporter puts observations of many volumes into few commands. Their order
// between commands is kept by their sequence numbers (S16).
type reporter struct {
	executor *Executor
	mu       sync.Mutex
	waiting  []letter
	running  int
}

func (r *reporter) send(l letter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, l)
	if r.running < reportsAtOnce {
		r.running++
		go r.run()
	}
}

func (r *reporter) run() {
	for {
		letters := r.take()
		if len(letters) == 0 {
			return
		}
		outcome, at, err := r.executor.proposeReport(letters)
		first := 0
		for _, l := range letters {
			after := first + len(l.observations)
			if err == nil && overtaken(outcome, first, after) {
				l.done(at, errOvertaken)
			} else {
				l.done(at, err)
			}
			first = after
		}
	}
}

// errOvertaken says that the log passed a fact over, as it wants it so no more.
var errOvertaken = errors.New("the log does not want it any more")

// overtaken tells whether one of the report's observations from first up to after was.
func overtaken(outcome *fsmpb.Outcome, first, after int) bool {
	return slices.ContainsFunc(outcome.GetOvertaken(), func(number uint32) bool { return first <= int(number) && int(number) < after })
}

func (r *reporter) take() []letter {
	r.mu.Lock()
	defer r.mu.Unlock()
	size, n := 0, 0
	for n < len(r.waiting) && (n == 0 || size+len(r.waiting[n].observations) <= reportLimit) {
		size += len(r.waiting[n].observations)
		n++
	}
	letters := r.waiting[:n:n]
	r.waiting = r.waiting[n:]
	if n == 0 {
		r.running--
	}
	return letters
}

func (e *Executor) proposeReport(letters []letter) (*fsmpb.Outcome, fsm.Epoch, error) {
	report := &fsmpb.Report{NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.Boot}
	for _, l := range letters {
		report.Observations = append(report.Observations, l.observations...)
	}
	validTexts(report.Observations)
	e.mu.Lock()
	incarnation := e.session.at.Incarnation // an index is not of a later one (S1)
	e.mu.Unlock()
	e.hit("report.before")
	answer, err := e.propose(e.ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: report}})
	e.hit("report.after")
	e.metrics.reports.WithLabelValues(outcome(err)).Inc()
	return answer, fsm.Epoch{Incarnation: incarnation, Index: answer.GetIndex()}, err
}

// report says something and waits until it is in the log, or ctx ends.
func (e *Executor) report(ctx context.Context, c *call, observations ...*fsmpb.Observation) (fsm.Epoch, error) {
	if c != nil {
		c.asking.Add(1)
		defer c.asking.Add(-1)
	}
	type answer struct {
		at  fsm.Epoch
		err error
	}
	answered := make(chan answer, 1)
	e.reports.send(letter{observations, func(at fsm.Epoch, err error) { answered <- answer{at, err} }})
	select {
	case a := <-answered:
		return a.at, a.err
	case <-ctx.Done():
		return fsm.Epoch{}, &unavailable{ctx.Err()}
	}
}

// reportFact says what a call achieved, and waits until it is in the log: only then is
// the next call valid (S73). The fact is not told again (taken), unless another incarnation
// began meanwhile, whose log may not have it. The caller holds the lock.
func (e *Executor) reportFact(ctx context.Context, v *volume, c *call, f fact, ob *fsmpb.Observation) error {
	number, err := e.sequence(v)
	if err != nil {
		return err
	}
	ob.VolumeId, ob.Epoch, ob.Sequence = string(v.id), epochProto(f.epoch), number
	at, err := e.report(ctx, c, ob)
	if errors.Is(err, errOvertaken) {
		return fsm.Reject(fsm.StaleEpoch, "volume %s: its publication to this host at epoch %s was ended meanwhile", v.id, f.epoch)
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.Incarnation != e.session.at.Incarnation {
		return errOtherSession
	}
	v.known[f] = struct{}{}
	if v.wishAt.Compare(at) < 0 {
		e.taken(v, f, at)
	}
	return nil
}
