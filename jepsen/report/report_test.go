package report

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// lively is a run of the cluster that has everything that its layer needs.
func lively() *Run {
	r := New(catalog.Cluster, "TestFaults", "cluster:17")
	r.NeedFault(catalog.Kill)
	r.NeedWork(catalog.CreateVolume)
	r.Leader("c1", 2, time.Second)
	r.Leader("c2", 3, 3*time.Second)
	r.Count(catalog.SnapshotInstalls, 1)
	r.Fault(catalog.Kill, "c1", 2*time.Second, 4*time.Second)
	r.Unavailable("all", 2*time.Second, 3*time.Second)
	r.Operation(Operation{Client: 1, Workload: catalog.CreateVolume, What: "a: created", From: time.Second, To: 2 * time.Second, Outcome: OK})
	r.Operation(Operation{Client: 2, Workload: catalog.DeleteVolume, What: "a: <Unavailable>", From: 2 * time.Second, To: 5 * time.Second, Outcome: Unknown})
	r.Check(catalog.Linearizable, 2, nil)
	return r
}

func TestARunThatHasWhatItNeedsPasses(t *testing.T) {
	require.NoError(t, lively().Judge())
}

func TestAnEmptyRunFails(t *testing.T) {
	err := New(catalog.Cluster, "TestFaults", "").Judge()
	for _, problem := range []string{"no operation", "no check", "elections: 0 of at least 1", "raft-snapshot-installs", "unknown-outcomes"} {
		require.ErrorContains(t, err, problem)
	}
}

func TestARunFails(t *testing.T) {
	for problem, spoil := range map[string]func(*Run){
		"fault pause: 0 of at least 1":          func(r *Run) { r.NeedFault(catalog.Pause) },
		"workload expand: 0 of at least 1":      func(r *Run) { r.NeedWork(catalog.Expand) },
		"elections: 2 of at least 3":            func(r *Run) { r.Need(catalog.Elections, 3) },
		"check audit: n1 has an orphan":         func(r *Run) { r.Check(catalog.Audit, 3, errors.New("n1 has an orphan")) },
		"empty: check stamps looked at nothing": func(r *Run) { r.Check(catalog.Stamps, 0, nil) },
		"unknown-outcomes: 0 of at least 1":     func(r *Run) { r.Counts[catalog.UnknownOutcomes] = 0 },
		"raft-snapshot-installs: 0 of at least": func(r *Run) { delete(r.Counts, catalog.SnapshotInstalls) },
	} {
		t.Run(problem, func(t *testing.T) {
			r := lively()
			spoil(r)
			require.ErrorContains(t, r.Judge(), problem)
		})
	}
}

func TestMissingSaysWhatIsStillToCome(t *testing.T) {
	r := lively()
	require.Empty(t, r.Missing())
	r.SetCount(catalog.SnapshotInstalls, 0)
	require.Equal(t, []string{"empty: raft-snapshot-installs: 0 of at least 1"}, r.Missing())
	r.SetCount(catalog.SnapshotInstalls, 2)
	require.Empty(t, r.Missing())
}

func TestAReplayNeedsNoCountsButFailsByItsChecks(t *testing.T) {
	r := New(catalog.Sim, "replay", "sim:17")
	r.Replay()
	require.NoError(t, r.Judge())
	r.Check(catalog.Stamps, 1, errors.New("went back"))
	require.ErrorContains(t, r.Judge(), "went back")
}

func TestWriteMakesOnePageAndOneLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	r := lively()
	r.Check(catalog.Stamps, 1, errors.New("block 3 <went> back"))
	r.Attach("log of c1", "one line & another")
	r.AttachPage("history", `<p class="picture">drawn</p>`)
	require.Error(t, r.Judge())
	path, err := r.Write(dir)
	require.NoError(t, err)
	_, err = lively().Write(dir)
	require.NoError(t, err)

	page, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, part := range []string{
		"make jepsen-replay SEED=cluster:17", "failed", "block 3 &lt;went&gt; back", "leader c2", "leads in term 3", "width:40.000%", "unavailable",
		"client 02", "one line &amp; another", "srcdoc=", "drawn",
	} {
		require.Contains(t, string(page), part)
	}
	require.NotRegexp(t, `https?://|ZgotmplZ`, string(page), "the page stands alone")

	lines, err := os.ReadFile(filepath.Join(dir, "runs.jsonl"))
	require.NoError(t, err)
	all := strings.Split(strings.TrimSpace(string(lines)), "\n")
	require.Len(t, all, 2)
	var first map[string]any
	require.NoError(t, json.Unmarshal([]byte(all[0]), &first))
	require.Equal(t, "cluster:17", first["seed"])
	require.Equal(t, []any{"check stamps: block 3 <went> back"}, first["problems"])
}

func TestManyGoroutinesAddToOneRun(t *testing.T) {
	r := lively()
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			for range 100 {
				r.Operation(Operation{Client: client, Workload: catalog.Read, Outcome: Refused})
				r.Fault(catalog.Pause, "c1", 0, 0)
			}
		})
	}
	all.Wait()
	require.Equal(t, 800, r.Worked[catalog.Read])
	require.Equal(t, 800, r.Injected[catalog.Pause])
}

func TestAPageShowsPartOfALongRun(t *testing.T) {
	r := lively()
	for range shownOperations {
		r.Operation(Operation{Client: 1, Workload: catalog.Read, Outcome: OK})
	}
	require.Equal(t, 2, view(r).Hidden)
}
