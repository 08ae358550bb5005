package raftsim

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/report"
	"github.com/holdfast-storage/holdfast/raftnode"
)

var (
	schedules = flag.Int("raftsim.schedules", 18, "how many schedules to run")
	first     = flag.Uint64("raftsim.first", 0, "the first schedule's seed")
	seed      = flag.Int64("raftsim.seed", -1, "run this seed only")
	tries     = flag.Int("raftsim.tries", 1, "how often to run each seed: raft's own choices are not the seed's")
)

// memoryDir is a folder in memory when the machine has one.
func memoryDir(t testing.TB) string {
	t.Helper()
	base := "/dev/shm"
	if st, err := os.Stat(base); err != nil || !st.IsDir() {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "holdfast-raftsim-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// warm makes what bubbles share, once.
var warm = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "holdfast-raftsim-")
	if err != nil {
		return err
	}
	return errors.Join(Warm(dir), os.RemoveAll(dir))
})

// runSeed runs the schedule of a seed in a bubble of its own.
func runSeed(t *testing.T, seed uint64) (r Result) {
	t.Helper()
	inBubble(t, func(root string) { r = Run(NewPlan(seed), root) })
	return r
}

// inBubble runs something on virtual time, with a folder for its files.
func inBubble(t *testing.T, run func(root string)) {
	t.Helper()
	require.NoError(t, warm())
	root, ended := memoryDir(t), false
	defer func() {
		if p := recover(); p != nil && !(ended && strings.Contains(fmt.Sprint(p), "blocked goroutines remain")) {
			panic(p) // those that wait for the raft of a dead process are left, and no others: Run has looked
		}
	}()
	synctest.Test(t, func(*testing.T) { run(root); ended = true })
}

func TestAProcessThatExitsAfterTheLastFaultIsStartedAgain(t *testing.T) {
	inBubble(t, func(root string) {
		w, err := newWorld(NewPlan(0), root)
		require.NoError(t, err)
		require.NoError(t, w.found())
		p := w.members[1].running()
		p.die(raftnode.ExitRestart, p.disk.Kill)
		require.NoError(t, w.awaitServing())
		require.NotNil(t, w.members[1].running())
		require.NoError(t, w.close())
	})
}

func TestSchedules(t *testing.T) {
	run := report.New(catalog.RaftSim, t.Name(), fmt.Sprintf("raftsim:%d", *first))
	run.NeedFault(Faults()...)
	from, count := *first, *schedules
	if testing.Short() {
		count = min(count, 6) // enough for each fault once
	}
	if *seed >= 0 {
		from, count = uint64(*seed), 1
	}
	if count*steps < len(Faults()) {
		run.Replay()
	}
	for s := from; s < from+uint64(count) && !t.Failed(); s++ {
		for range *tries {
			runRecorded(t, run, s)
		}
	}
	if count > 1 {
		requireChecks(t, run)
	}
	require.NoError(t, run.Judge())
	t.Logf("%v %v", run.Counts, run.Injected)
	if dir := report.Dir(); dir != "" {
		_, err := run.Write(dir)
		require.NoError(t, err)
	}
}

// runRecorded runs a seed and adds it to the record.
func runRecorded(t *testing.T, run *report.Run, s uint64) {
	began := time.Now()
	r := runSeed(t, s)
	t.Logf("%v: %v of virtual time in %v", r.Plan, r.Virtual.Round(time.Second), time.Since(began).Round(time.Millisecond))
	r.Record(run)
	run.Took += r.Virtual
	if r.Err != nil {
		run.Attach(fmt.Sprintf("the story of seed %d", s), r.Story)
		t.Errorf("%v\n%v\n\nThe story:\n%s\n\nAgain: go test ./jepsen/raftsim -run '^TestSchedules$' -raftsim.seed=%d -raftsim.tries=20", r.Plan, r.Err, r.Story, s)
		t.Logf("What the members logged:\n%s", whatMatters(r.Log))
	}
}

// whatMatters is all of a log in a verbose run, and else the errors: why a process exited is one of them.
func whatMatters(log string) string {
	if testing.Verbose() {
		return log
	}
	isNoError := func(line string) bool { return !strings.Contains(line, "level=ERROR") }
	return strings.Join(slices.DeleteFunc(strings.Split(log, "\n"), isNoError), "\n")
}

func TestTheCatalogueListsWhatThisLayerHas(t *testing.T) {
	listed := catalog.ServedBy(catalog.RaftSim)
	listed.Faults = Faults()
	listed.Checks = checksMade
	require.Empty(t, catalog.Differences(catalog.RaftSim, listed))
}

// checksMade are the checks that every schedule makes.
var checksMade = []catalog.Check{
	catalog.Invariants, catalog.Linearizable, catalog.Acknowledged, catalog.ReplayEqual, catalog.HashesEqual, catalog.NoStaleRead,
	catalog.OneLeaderATerm, catalog.LogsEqual, catalog.RefusesDamage, catalog.ServesAgain, catalog.WatchWakes, catalog.NoLeak,
}

// requireChecks fails when a check was not made.
func requireChecks(t *testing.T, run *report.Run) {
	t.Helper()
	var made []catalog.Check
	for _, v := range run.Verdicts {
		made = append(made, v.Check)
	}
	require.ElementsMatch(t, checksMade, made)
}
