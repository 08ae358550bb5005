package raftsim

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/report"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// Result is what a schedule came to.
type Result struct {
	Plan     Plan
	Injected []catalog.Fault
	Err      error  // what the checks found
	Story    string // what happened, in order
	Log      string // what the members logged
	Virtual  time.Duration
	world    *world
}

// Run runs a plan in a bubble of testing/synctest, with its files below root.
func Run(plan Plan, root string) (r Result) {
	r.Plan = plan
	w, err := newWorld(plan, root)
	if err != nil {
		r.Err = err
		return r
	}
	r.world = w
	if err := w.found(); err != nil {
		w.fail(err)
	} else {
		r.Injected = w.disturb()
		w.judge()
	}
	w.fail(w.close())
	time.Sleep(5 * time.Minute) // longer than any call may take
	w.verdict(catalog.NoLeak, 1, leftBehind())
	r.Virtual, r.Log = time.Since(w.began), w.log.String()
	r.Story, r.Err = w.told()
	w.verdict(catalog.ServesAgain, len(plan.Steps), r.Err)
	return r
}

// disturb runs the clients and the plan's faults, and heals everything.
func (w *world) disturb() (injected []catalog.Fault) {
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() { w.client(stop) })
	}
	clients.Go(func() { w.observe(stop) })
	for _, s := range w.plan.Steps {
		time.Sleep(s.After)
		w.note("", "%s", s.Fault)
		if w.inject(s) {
			injected = append(injected, s.Fault)
		}
	}
	w.fail(w.awaitServing())
	time.Sleep(2 * time.Second)
	close(stop)
	clients.Wait()
	return injected
}

// awaitServing waits until all members serve again. A process may exit for a restart after the last fault as well: one that
// restores the same Raft snapshot again and again does some time after what made it so.
func (w *world) awaitServing() error {
	return w.until(3*time.Minute, "the members do not serve again", func() error {
		w.revive()
		return w.checkServing()
	})
}

// inject injects a fault, again if it did not take place: there may have been no leader to be its victim.
func (w *world) inject(s Step) bool {
	for range 4 {
		took := injectors[s.Fault](w, s)
		w.revive()
		if took {
			return true
		}
		w.note("", "%s did not take place", s.Fault)
		time.Sleep(3 * time.Second)
	}
	return false
}

// judge has every member apply the same, and checks what clients were told against it.
func (w *world) judge() {
	r := w.fork()
	var last uint64
	for _, p := range w.up() {
		w.fail(w.until(time.Minute, p.member.name+" takes no command", func() error {
			ctx, cancel := within(5 * time.Second)
			defer cancel()
			result, err := p.Propose(ctx, registration(r))
			if isUnavailable(err) {
				return err
			}
			last = max(last, result.GetIndex())
			return nil
		}))
	}
	for _, p := range w.up() {
		w.fail(w.until(time.Minute, p.member.name+" falls behind", func() error {
			if at := p.Fork().Cluster().Index; at < last {
				return fmt.Errorf("it is at %d of %d", at, last)
			}
			return nil
		}))
	}
	time.Sleep(time.Second) // for what members propose by themselves
	for _, p := range w.up() {
		w.fail(w.history.collect(p))
	}
	w.compare()
}

func (w *world) compare() {
	h := &w.history
	hashes, err := h.replay()
	w.verdict(catalog.ReplayEqual, len(h.entries), err)
	w.verdict(catalog.LogsEqual, h.compared, nil) // looked at where they were collected
	w.verdict(catalog.OneLeaderATerm, len(h.leaders), nil)
	w.verdict(catalog.RefusesDamage, h.damages, nil)
	for _, p := range w.up() {
		state := p.Fork()
		if want, known := hashes[state.Cluster().Index]; !known || want != state.Hash() {
			err = fmt.Errorf("%s has at index %d another state than the replayed log", p.member.name, state.Cluster().Index)
		}
		w.verdict(catalog.HashesEqual, 1, err)
		w.verdict(catalog.Invariants, 1, state.Check())
	}
	calls := len(h.operations)
	w.verdict(catalog.Acknowledged, calls, errors.Join(h.checkAcknowledged(), h.checkOnce()))
	w.verdict(catalog.NoStaleRead, calls, h.checkReads(hashes))
	w.verdict(catalog.Linearizable, calls, h.checkOrder())
	w.verdict(catalog.WatchWakes, calls, h.checkWakes())
}

// verdict records what a check found after it looked at so many things.
func (w *world) verdict(c catalog.Check, looked int, err error) {
	if err != nil && c != catalog.ServesAgain {
		err = fmt.Errorf("%s: %w", c, err)
		w.fail(err)
	}
	w.verdicts = append(w.verdicts, report.Verdict{Check: c, Looked: looked})
	if err != nil {
		w.verdicts[len(w.verdicts)-1].Finding = fmt.Sprintf("seed %d: %v", w.plan.Seed, err)
	}
}

func isUnavailable(err error) bool { return err != nil && raftnode.IsUnavailable(err) }

// Record adds what the schedule did and what was found to the record of a run.
func (r Result) Record(run *report.Run) {
	if r.world == nil {
		return
	}
	h := &r.world.history
	for _, f := range r.Injected {
		run.CountFault(f, 1)
	}
	for _, op := range h.operations {
		work := catalog.Read
		if op.write {
			work = catalog.Proposals
		}
		run.CountWork(work, 1)
		if op.outcome == unknown {
			run.Count(catalog.UnknownOutcomes, 1)
		} else {
			run.Count(catalog.Acknowledgements, 1)
		}
	}
	for _, v := range r.world.verdicts {
		addVerdict(run, v)
	}
	run.Count(catalog.Elections, h.elections)
	run.Count(catalog.SnapshotInstalls, h.installs)
}

// addVerdict adds a schedule's verdict to that of the run: one of each check.
func addVerdict(run *report.Run, v report.Verdict) {
	for i := range run.Verdicts {
		if had := &run.Verdicts[i]; had.Check == v.Check {
			had.Looked += v.Looked
			had.Finding = strings.TrimSpace(had.Finding + " " + v.Finding)
			return
		}
	}
	run.Verdicts = append(run.Verdicts, v)
}
