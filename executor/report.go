package executor

import (
	"context"
	"sync"
	"time"

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
// once, with where they were applied.
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
		at, err := r.executor.proposeReport(letters)
		for _, l := range letters {
			l.done(at, err)
		}
	}
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

func (e *Executor) proposeReport(letters []letter) (fsm.Epoch, error) {
	report := &fsmpb.Report{NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.Boot}
	for _, l := range letters {
		report.Observations = append(report.Observations, l.observations...)
	}
	validTexts(report.Observations)
	e.hit("report.before")
	answer, err := e.propose(e.ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: report}})
	e.hit("report.after")
	e.metrics.reports.WithLabelValues(outcome(err)).Inc()
	e.mu.Lock()
	defer e.mu.Unlock()
	return fsm.Epoch{Incarnation: e.session.at.Incarnation, Index: answer.GetIndex()}, err
}

// report says something and waits until it is in the log, or ctx ends.
func (e *Executor) report(ctx context.Context, c *call, observations ...*fsmpb.Observation) error {
	if c != nil {
		c.asking.Add(1)
		defer c.asking.Add(-1)
	}
	answered := make(chan error, 1)
	e.reports.send(letter{observations, func(_ fsm.Epoch, err error) { answered <- err }})
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return &unavailable{ctx.Err()}
	}
}

// owe writes records of tear-downs into the volume's outbox, synced: what was taken
// down is said, whatever happens to this process (S16). The caller holds the lock.
func (e *Executor) owe(v *volume, debts ...owed) error {
	for _, debt := range debts {
		number, err := e.sequence(v)
		if err != nil {
			return err
		}
		debt.Sequence = number
		v.journal.Owed = append(v.journal.Owed, debt)
	}
	return e.save(v, true)
}

func (o owed) observation(id fsm.VolumeID) *fsmpb.Observation {
	ob := &fsmpb.Observation{VolumeId: string(id), Epoch: epochProto(o.Epoch), Sequence: o.Sequence}
	if o.Target == "" {
		ob.Fact = &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}
	} else {
		ob.Fact = &fsmpb.Observation_TargetGone{TargetGone: &fsmpb.TargetGone{TargetPath: o.Target}}
	}
	return ob
}

// drain empties the volume's outbox, waiting no longer than limit. The caller holds
// the lock.
func (e *Executor) drain(ctx context.Context, v *volume, c *call, limit time.Duration) error {
	if len(v.journal.Owed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var all []*fsmpb.Observation
	for _, o := range v.journal.Owed {
		all = append(all, o.observation(v.id))
	}
	last := v.journal.Owed[len(v.journal.Owed)-1].Sequence
	e.hit("drain.before")
	if err := e.report(ctx, c, all...); err != nil {
		return err
	}
	e.hit("drain.after")
	e.heard(v, last)
	return e.prune(v)
}

// heard notes that the log took the volume's records up to a number.
func (e *Executor) heard(v *volume, sequence uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.heard = max(v.heard, sequence)
}
