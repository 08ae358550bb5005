package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

const (
	// outVariable names the file that gets the results; JSON when it ends so.
	outVariable   = "HOLDFAST_CONFORMANCE_OUT"
	committedPage = "CONFORMANCE.md"
)

var (
	builder       harness.Builder
	sharedEnvOnce struct {
		once  sync.Once
		world *Env
		err   error
	}
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopSharedClusters(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// stopSharedClusters cleans the shared clusters and proves that nothing of them is left.
func stopSharedClusters() error {
	var cleaned error
	if sharedEnvOnce.world != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		cleaned = sharedEnvOnce.world.Cluster.Clean(ctx)
	}
	for _, small := range []*smallCluster{&disabledCluster, &configuredCluster} {
		if small.cluster != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			cleaned = errors.Join(cleaned, small.cluster.Clean(ctx))
		}
	}
	return errors.Join(cleaned, builder.Close())
}

// sharedEnv returns the cluster that all rows share, started at the first call.
func sharedEnv(t *testing.T) *Env {
	t.Helper()
	if why := harness.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	sharedEnvOnce.once.Do(func() {
		path, err := builder.Path(context.Background())
		if err != nil {
			sharedEnvOnce.err = err
			return
		}
		c, err := harness.Start(context.Background(), harness.Options{Binary: path, Controllers: 3, Nodes: 2, Supervise: true, Flags: []string{"--log-level=debug", "--node-arg=--volume-mount-group"}})
		if err != nil {
			sharedEnvOnce.err = err
			return
		}
		sharedEnvOnce.world = &Env{Cluster: c, CO: c.NewCO()}
	})
	require.NoError(t, sharedEnvOnce.err)
	return sharedEnvOnce.world
}

// TestRows checks the cluster against every row. It fails for a row without a test and without a reason, and for a row
// that the committed page has as passed and that does not pass any more.
func TestRows(t *testing.T) {
	rows, err := readRows("rows.csv")
	require.NoError(t, err)
	lab, err := readLab("lab.csv")
	require.NoError(t, err)
	reasons, err := readNotApplicable(".")
	require.NoError(t, err)
	calm, err := mergeTables(catalogue)
	require.NoError(t, err)
	tests, err := mergeTables(append(append([]map[string]rowTest{}, catalogue...), disruptiveRows...))
	require.NoError(t, err)
	require.NoError(t, tableErrors(rows, tests, reasons, lab))
	before, err := passedRows(committedPage)
	require.NoError(t, err)

	w := sharedEnv(t)
	results := map[string]result{}
	for _, late := range []bool{false, true} {
		for _, r := range rows {
			if tests[r.ID] != nil && (calm[r.ID] == nil) == late {
				results[r.ID] = result{ID: r.ID, Obligation: r.Obligation, Result: runRow(t, w, r.ID, tests[r.ID])}
			}
		}
	}
	writeReport(t, judge(t, rows, results, reasons, lab, before))
}

// runRow runs one row and sees that it left nothing behind.
func runRow(t *testing.T, w *Env, id string, test rowTest) string {
	ran, clean := false, true
	ok := t.Run(id, func(t *testing.T) {
		ran = true
		before := w.inventory(t)
		t.Cleanup(func() {
			left := w.inventory(t)
			for thing := range before {
				delete(left, thing)
			}
			if clean = len(left) == 0; !clean {
				t.Errorf("the row left %v behind", left)
			}
			ran = !t.Skipped()
		})
		test(t, w)
	})
	switch {
	case !ran:
		return notRun
	case ok && clean:
		return passed
	}
	return failed
}

// inventory is every volume, snapshot and volume group that the cluster knows.
func (w *Env) inventory(t *testing.T) map[string]bool {
	ctx, cancel := context.WithTimeout(context.Background(), rowTime)
	defer cancel()
	all := map[string]bool{}
	listed, err := w.CO.List(ctx)
	require.NoError(t, err)
	for id := range listed {
		all["volume "+id] = true
	}
	snapshot, err := w.Controller(t).ListSnapshots(ctx, &csi.ListSnapshotsRequest{})
	require.NoError(t, err)
	for _, s := range snapshot.GetEntries() {
		all["snapshot "+s.GetSnapshot().GetSnapshotId()] = true
	}
	groups, err := volumegroup.NewControllerClient(w.Conn(t, "c1")).ListVolumeGroups(ctx, &volumegroup.ListVolumeGroupsRequest{})
	require.NoError(t, err)
	for _, e := range groups.GetEntries() {
		all["volume group "+e.GetVolumeGroup().GetVolumeGroupId()] = true
	}
	return all
}

// judge is the result of every row, also of those that did not run, and fails for what passes no longer.
func judge(t *testing.T, rows []row, results map[string]result, reasons, lab map[string]string, before map[string]bool) (all []result) {
	for _, r := range rows {
		res, run := results[r.ID]
		if !run {
			res = result{ID: r.ID, Obligation: r.Obligation, Result: withoutTest, Remark: reasons[r.ID]}
			if res.Remark != "" {
				res.Result = notApplicable
			}
			if test := lab[r.ID]; test != "" {
				res.Result, res.Remark = inTheLab, test
			}
		}
		if res.Result == withoutTest {
			t.Errorf("%s has neither a test nor a reason why it is not applicable", r.ID)
		}
		if before[r.ID] && res.Result != passed && res.Result != notRun {
			t.Errorf("%s passed on the committed page and is %s now", r.ID, res.Result)
		}
		all = append(all, res)
	}
	return all
}

// writeReport writes the page.
func writeReport(t *testing.T, all []result) {
	t.Logf("%d passed, %d in the lab, %d failed, %d not applicable, %d without a test, %d not run", count(all, passed), count(all, inTheLab),
		count(all, failed), count(all, notApplicable), count(all, withoutTest), count(all, notRun))
	if out := os.Getenv(outVariable); out != "" {
		require.NoError(t, writeResults(out, all))
	}
}
