package scenarios

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/report"
)

var (
	randomSeed     = flag.Uint64("random.seed", 8, "what chooses the faults of TestRandomFaults, their places and their order")
	randomDuration = flag.Duration("random.duration", 0, "for how long TestRandomFaults begins new rounds; 0: the short form, one round")
)

// randomRun is one run of TestRandomFaults. Its choices come from the seed; when things happen does not.
type randomRun struct {
	*env
	t      *testing.T
	rng    *rand.Rand
	began  time.Time
	record *report.Run
	// subjects are the volumes.
	subjects []*subject
	deck     []*disturbance
	// away are the guests that answer nothing now: without power, or paused.
	away map[string]bool
	// brokenHost is the one host whose disks fail in this round: where both replicas' disks fail, an operator decides.
	brokenHost string
	// pending waits for work that goes on over the end of the faults.
	pending   []func()
	restarted int // hosts whose kernel was stuck
}

// TestRandomFaults: writers stamp volumes with two replicas and with one, raw and with filesystems, while faults
// chosen by a seed overlap. After each round everything works again by itself, no acknowledged stamp is lost on
// any replica, none went back, no two writers mixed, both replicas are equal, and the audit is empty.
func TestRandomFaults(t *testing.T) {
	r := newRandomRun(t)
	defer r.finish()
	r.addSubjects()
	for round := 1; round == 1 || time.Since(r.began) < *randomDuration; round++ {
		faults := r.draw(round)
		t.Logf("%s round %d: %s", r.since(), round, names(faults))
		r.round(faults)
	}
}

func newRandomRun(t *testing.T) *randomRun {
	w := newScenario(t)
	seed := fmt.Sprintf("lab:%d", *randomSeed)
	t.Logf("seed %s: repeat with -args -random.seed=%d -random.duration=%s", seed, *randomSeed, *randomDuration)
	r := &randomRun{
		env: w, t: t, rng: rand.New(rand.NewPCG(*randomSeed, 0)), began: time.Now(), away: map[string]bool{},
		record: report.New(catalog.Lab, t.Name(), seed),
	}
	r.record.NeedWork(catalog.Writers, catalog.Publish, catalog.Stage)
	return r
}

// addSubjects makes the volumes. One replica is where nobody takes over.
func (r *randomRun) addSubjects() {
	r.subject("fs", false, "n1", "n2")
	r.subject("raw", true, "n2", "n3")
	r.subject("alone", true, "n3")
	if *randomDuration > 0 {
		r.subject("fs-alone", false, "n1")
	}
}

// draw takes the next disturbances from the deck, which has each once and is shuffled anew when it is used up: two
// of different names, and a loss of power in the first round and in every second of the others.
func (r *randomRun) draw(round int) (drawn []*disturbance) {
	for len(drawn) < 2 {
		if len(r.deck) == 0 {
			r.deck = r.shuffled()
		}
		i := slices.IndexFunc(r.deck, func(d *disturbance) bool { return len(drawn) == 0 || !d.excludes(drawn[0]) })
		if i < 0 {
			r.deck = r.shuffled()
			continue
		}
		drawn = append(drawn, r.deck[i])
		r.deck = slices.Delete(r.deck, i, i+1)
	}
	if losses := lossesBeside(drawn); round%2 == 1 && len(losses) > 0 {
		drawn = append(drawn, losses[r.rng.IntN(len(losses))])
	}
	// What needs a guest's help comes before what takes the guest away.
	slices.SortStableFunc(drawn, func(a, b *disturbance) int { return a.order - b.order })
	return drawn
}

func (r *randomRun) shuffled() []*disturbance {
	all := slices.DeleteFunc(disturbances(), func(d *disturbance) bool { return *randomDuration == 0 && !d.inShort })
	r.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// lossesBeside are the losses of power that can be in a round with others.
func lossesBeside(drawn []*disturbance) []*disturbance {
	return slices.DeleteFunc(disturbances(), func(d *disturbance) bool {
		return d.fault != catalog.PowerLoss || slices.ContainsFunc(drawn, d.excludes)
	})
}

// round uses all volumes, disturbs them, ends the disturbances, and checks.
func (r *randomRun) round(faults []*disturbance) {
	r.brokenHost = ""
	for _, s := range r.subjects {
		s.begin(s.v.hosts[r.rng.IntN(len(s.v.hosts))])
	}
	ends := r.inject(faults)
	r.takeOverSome()
	for _, end := range slices.Backward(ends) {
		end()
	}
	require.NoError(r.t, r.restore(r.t.Context()), "%s: all is repaired", r.since())
	clear(r.away)
	for _, s := range r.subjects {
		s.settle()
	}
	for _, await := range r.pending {
		await()
	}
	r.pending = nil
	r.check()
}

// inject begins the disturbances, each of which has been seen to have its effect, and answers what ends them.
func (r *randomRun) inject(faults []*disturbance) (ends []func()) {
	for _, d := range faults {
		began := time.Since(r.began)
		where, end := d.begin(r)
		r.t.Logf("%s %s: %s", r.since(), d.name, where)
		ends = append(ends, func() {
			if end != nil {
				end()
			}
			r.note(d, where, began)
		})
		r.dwell()
	}
	return ends
}

// note records what was done.
func (r *randomRun) note(d *disturbance, where string, began time.Duration) {
	if d.fault == "" {
		r.record.Operation(report.Operation{Workload: d.workload, What: d.name + ": " + where, From: began, To: time.Since(r.began), Outcome: report.OK})
		return
	}
	r.record.Fault(d.fault, where, began, time.Since(r.began))
	if d.fault == catalog.PowerLoss {
		r.record.Count(catalog.PowerLosses, 1)
	}
	r.record.NeedFault(d.fault)
}

// dwell lets time pass, so that a disturbance meets another in all of its states.
func (r *randomRun) dwell() { time.Sleep(time.Duration(r.rng.IntN(4000)) * time.Millisecond) }

func (r *randomRun) since() time.Duration { return time.Since(r.began).Round(time.Millisecond) }

func names(all []*disturbance) (names []string) {
	for _, d := range all {
		names = append(names, d.name)
	}
	return names
}

// finish judges the run, and writes its report where one is asked for.
func (r *randomRun) finish() {
	if r.t.Failed() { // the report of a run that failed says so, whatever it failed of
		r.record.Check(catalog.NothingWasEmpty, 1, errors.New("the run ended early: "+r.openErr))
		r.record.Attach("logs", r.logs(60))
	}
	err := r.record.Judge()
	if dir := report.Dir(); dir != "" {
		page, werr := r.record.Write(dir)
		require.NoError(r.t, werr)
		r.t.Logf("report: %s", page)
	}
	r.t.Logf("%d hosts were restarted because their kernel was stuck", r.restarted)
	if !r.t.Failed() {
		require.NoError(r.t, err)
	}
}
