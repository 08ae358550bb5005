package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/report"
)

var (
	seeds     = flag.Int("sim.seeds", 1000, "how many seeds are played")
	firstSeed = flag.Int("sim.first", 1, "the first of them")
	oneSeed   = flag.Int("sim.seed", 0, "the only one, whose story is told")
	repeats   = flag.Int("sim.repeats", 10, "how many seeds are played twice")
	keepGoing = flag.Bool("sim.all", false, "failing seeds are listed and not shrunk")
	simSteps  = flag.Int("sim.steps", 500, "the steps with faults of a seed")
)

const (
	shortSeeds = 25
	shrinkRuns = 60
	// confirmations is how often a seed that failed in an interrupted run is played again.
	confirmations = 5
)

// memoryDir is a folder in memory, where there is one.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "holdfast-sim-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// player plays tapes, one at a time.
type player struct {
	t    *testing.T
	dir  string
	runs int
}

// play plays a tape in a bubble of its own.
func (p *player) play(seed int, tape *tape, story bool) (r *Result) {
	p.runs++
	runtime.GC()
	dir := filepath.Join(p.dir, fmt.Sprint(p.runs))
	synctest.Test(p.t, func(t *testing.T) {
		reseed := func(step int) { cryptotest.SetGlobalRandom(t, uint64(seed)<<32+uint64(step)) }
		reseed(0)
		extras := p.extras(seed)
		r = play(tape, Config{Dir: dir, Steps: *simSteps, Aims: aimsOf(seed, extras), Round: roundOf(seed), Story: story, Extras: extras, Reseed: reseed})
		synctest.Wait()
	})
	return r
}

// extras are a seed's. Those of the regressions have none: they are what they were when they failed.
func (p *player) extras(seed int) Extras {
	if slices.Contains(regressions, seed) {
		return Extras{}
	}
	return extrasOf(seed)
}

func (p *player) seed(seed int, story bool) *Result {
	return p.play(seed, newTape(uint64(seed)), story)
}

// maxMemory is when garbage is collected in the middle of a run after all.
const maxMemory = 1 << 30

// onOneProcessor: what one step wakes runs in one order, which collecting garbage would change too:
// that is done between two runs.
func onOneProcessor(t testing.TB) {
	before, gc, limit := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1), debug.SetMemoryLimit(maxMemory)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(gc)
		debug.SetMemoryLimit(limit)
	})
}

// regressions are seeds beyond the short form that once failed (jepsen/TRACK.md).
var regressions = []int{1076, 1408, 19836, 25508, 33319, 56494, 92290, 117197, 142966, 700049, 700590, 700791, 810036, 810313}

func TestRegressions(t *testing.T) {
	onOneProcessor(t)
	p, totals := &player{t: t, dir: memoryDir(t)}, newTotals()
	for _, seed := range regressions {
		totals.judge(t, p, seed, p.seed(seed, false))
	}
}

// Every rule that the checks know holds, whatever happens in whatever order.
func TestSeeds(t *testing.T) {
	onOneProcessor(t)
	p := &player{t: t, dir: memoryDir(t)}
	if *oneSeed != 0 {
		tell(t, p, *oneSeed)
		return
	}
	count := *seeds
	if testing.Short() || raceEnabled {
		count = min(count, shortSeeds)
	}
	totals := newTotals()
	for seed := *firstSeed; seed < *firstSeed+count; seed++ {
		r := p.seed(seed, false)
		totals.judge(t, p, seed, r)
		totals.add(r)
		totals.progress(t, seed-*firstSeed+1, count)
	}
	if count >= 1000 {
		totals.reachEachBoundary(t, p, *firstSeed+count)
	}
	totals.report(t)
	totals.write(t, count)
}

// judge fails the test if the seed failed, by itself or in a run that repeats it.
func (x *totals) judge(t *testing.T, p *player, seed int, r *Result) {
	switch open := openBug(r.Failure); {
	case r.Failure == "":
	case failureKind(r.Failure) == openSeeds[seed]:
		x.counts["open failure"]++
		t.Logf("ATTENTION: seed %d shows what is open: %s", seed, r.Failure)
	case open != "":
		x.counts["open failure"]++
		t.Logf("seed %d shows what is open (%s): %s", seed, open, r.Failure)
	case *keepGoing:
		x.failures = append(x.failures, r.Failure)
		t.Errorf("seed %d: %s", seed, r.Failure)
	case p.confirmed(seed, r):
		explain(t, p, seed, r)
	default:
		x.unconfirmed = append(x.unconfirmed, fmt.Sprintf("seed %d: %s", seed, r.Failure))
	}
}

// write says which failures did not come again, and keeps the record where a campaign wants it.
func (x *totals) write(t *testing.T, count int) {
	if n := len(x.unconfirmed); n > 0 {
		t.Logf("ATTENTION: %d seeds failed in a run that the machine interrupted, and in none of %d more:\n%s", n, confirmations, strings.Join(x.unconfirmed, "\n"))
	}
	run := x.record(t.Name(), fmt.Sprintf("sim:%d", *firstSeed), x.simulated, x.failures)
	run.Attach(fmt.Sprintf("%d failures that did not come again", len(x.unconfirmed)), strings.Join(x.unconfirmed, "\n"))
	if count < 1000 {
		run.Replay()
	}
	require.NoError(t, run.Judge())
	if dir := report.Dir(); dir != "" {
		_, err := run.Write(dir)
		require.NoError(t, err)
	}
}

// confirmed plays a seed that failed again. A run that the machine interrupted is one of several that
// the seed may give, as Go then moves what runs to another order (a write that takes long gives its
// processor away): a failure counts when any of several more runs of the seed fails too.
func (p *player) confirmed(seed int, r *Result) bool {
	if !r.Disturbed {
		return true
	}
	for range confirmations {
		again := p.seed(seed, false)
		if again.Failure != "" && openBug(again.Failure) == "" {
			return true
		}
	}
	return false
}

// explain shrinks a failing seed and tells its story.
func explain(t *testing.T, p *player, seed int, r *Result) {
	t.Helper()
	choices := shrink(r.Choices, r.Failure, shrinkRuns, func(c []uint32) *Result { return p.play(seed, replayTape(c), false) })
	told := p.play(seed, replayTape(choices), true)
	for _, line := range told.Story {
		t.Log(line)
	}
	t.Fatalf("seed %d: %s\n(as shrunk: %s; the whole: go test ./jepsen/sim -run 'TestSeeds$' -sim.seed=%d)", seed, r.Failure, told.Failure, seed)
}

func tell(t *testing.T, p *player, seed int) {
	r := p.seed(seed, true)
	for _, line := range r.Story {
		t.Log(line)
	}
	t.Logf("seed %d: %d steps, %s simulated, trace %x, aimed at %v", seed, r.Steps, r.Simulated, r.Hash, aimsOf(seed, p.extras(seed)))
	require.Empty(t, r.Failure)
}

// The same seed gives the same run, to the bit, and so does its tape.
func TestASeedIsRepeatedExactly(t *testing.T) {
	onOneProcessor(t)
	p := &player{t: t, dir: memoryDir(t)}
	compared := 0
	for seed := *firstSeed; seed < *firstSeed+*repeats; seed++ {
		first := p.seed(seed, true)
		for range 2 {
			second := p.play(seed, replayTape(first.Choices), true)
			if first.Hash == second.Hash {
				compared++
				break
			}
			if !first.Disturbed && !second.Disturbed {
				t.Fatalf("seed %d differs: %s", seed, firstDifference(first.Story, second.Story))
			}
			first = p.seed(seed, true)
		}
	}
	t.Logf("%d of %d seeds were the same twice, the others were interrupted by the machine", compared, *repeats)
}

// firstDifference shows where two runs part.
func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\n%s\n%s\nafter\n%s", i, a[i], b[i], a[max(0, i-2):i])
		}
	}
	return fmt.Sprintf("one has %d lines, the other %d", len(a), len(b))
}

// totals are sums over seeds.
type totals struct {
	began                time.Time
	seeds, steps         int
	simulated            time.Duration
	counts, points, hits map[string]int
	crashed              map[string]int // seeds, by boundary
	failures             []string
	unconfirmed          []string
}

func newTotals() *totals {
	return &totals{began: time.Now(), counts: map[string]int{}, points: map[string]int{}, hits: map[string]int{}, crashed: map[string]int{}}
}

func (x *totals) add(r *Result) {
	x.seeds++
	x.steps += r.Steps
	x.simulated += r.Simulated
	if r.Disturbed {
		x.counts["interrupted run"]++
	}
	for name, n := range r.Counts {
		x.counts[name] += n
	}
	for name, n := range r.CrashedAt {
		x.points[name] += n
		x.crashed[name]++
	}
	for name, n := range r.Hits {
		x.hits[name] += n
	}
}

func (x *totals) progress(t *testing.T, done, of int) {
	if done%100 == 0 {
		t.Logf("%d of %d seeds, %d steps, %.0f steps/s, %s simulated", done, of, x.steps, float64(x.steps)/time.Since(x.began).Seconds(), x.simulated.Round(time.Second))
	}
}

func (x *totals) report(t *testing.T) {
	names := make([]string, 0, len(x.counts))
	for name := range x.counts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		t.Logf("%6d %s", x.counts[name], name)
	}
	for _, name := range append(boundaries(), cryptBoundaries()...) {
		t.Logf("%6d crashes in %4d seeds and %7d passes: %s", x.points[name], x.crashed[name], x.hits[name], name)
	}
	t.Logf("%d seeds, %d steps, %.0f steps/s, crashed at %d of %d boundaries", x.seeds, x.steps, float64(x.steps)/time.Since(x.began).Seconds(), len(x.points), len(boundaries())+len(cryptBoundaries()))
}

// moreSeeds is how many are aimed at a boundary that no host crashed at.
const moreSeeds = 10

// reachEachBoundary: a boundary at which nothing ever crashed was not tested. More seeds are aimed at
// one that the seeds before missed.
func (x *totals) reachEachBoundary(t *testing.T, p *player, next int) {
	all := append(boundaries(), cryptBoundaries()...)
	for _, name := range all {
		for seed, tries := next, 0; x.points[name] == 0 && tries < moreSeeds; seed++ {
			if aimsOf(seed, p.extras(seed))[0] != name {
				continue
			}
			tries++
			r := p.seed(seed, false)
			x.judge(t, p, seed, r)
			x.add(r)
			x.counts["seed for a boundary that was missed"]++
		}
		if x.points[name] == 0 {
			t.Errorf("no host crashed at %s, which was passed %d times", name, x.hits[name])
		}
	}
}

// BenchmarkSteps reports how many steps a second one processor does.
func BenchmarkSteps(b *testing.B) {
	onOneProcessor(b)
	dir, steps := memoryDir(b), 0
	run := func(t *testing.T) {
		p := &player{t: t, dir: dir}
		for i := range b.N {
			steps += p.seed(i+1, false).Steps
		}
	}
	all := func(string, string) (bool, error) { return true, nil }
	if !testing.RunTests(all, []testing.InternalTest{{Name: "Steps", F: run}}) {
		b.Fatal("a seed could not be played")
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}
