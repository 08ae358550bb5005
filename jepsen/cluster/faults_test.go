package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/check"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/faultfs"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/faults"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
	"github.com/holdfast-storage/holdfast/jepsen/report"
	"github.com/holdfast-storage/holdfast/jepsen/traffic"
)

var (
	faultsSeed     = flag.Uint64("faults.seed", 1, "the `seed` of TestFaults; 0: any")
	faultsDuration = flag.Duration("faults.duration", 0, "how long TestFaults injects faults at least; 45 s of a seed's choice of faults when zero, else all faults")
)

// faultsCap is how long a run may take to see what it must have seen, beyond its duration: on any machine.
const faultsCap = 20 * time.Minute

// faultsRun is one run of TestFaults.
type faultsRun struct {
	t       *testing.T
	seed    uint64
	cluster *isolated.Cluster
	disks   *faultyDisks
	report  *report.Run
	logs    *keptLogs
	work    *durableWork
	start   time.Time
	before  map[string]resources

	calls   []check.Call
	samples []check.Sample
}

// TestFaults breaks an isolated cluster in every way at once while eight clients use it, heals it, and verifies
// what the clients were told against the log, the members, the hosts and the model: S1, S23, S103, S132, S133, S139, S161, S162, S164, S165 and S166.
func TestFaults(t *testing.T) {
	r := startFaults(t)
	t.Cleanup(r.write)
	stage := inBackground(t.Context(), func(ctx context.Context) error { return r.work.stage(ctx, r.report) })
	watch := inBackground(t.Context(), func(ctx context.Context) error {
		r.samples = observe(ctx, r.cluster, r.report, r.start)
		return nil
	})
	clients := r.startClients()

	campaign := r.campaign()
	r.disturb(campaign)
	require.NoError(t, campaign.Heal(t.Context()))
	r.awaitAnswers()
	result := clients()
	require.NoError(t, stage(), "a volume that is staged and unstaged")
	require.NoError(t, watch())
	require.Empty(t, result.Unexpected, "codes that no CO expects")
	r.calls = result.History.Calls()
	recordCalls(r.report, r.calls)
	r.verify()
	r.report.Check(catalog.NothingWasEmpty, len(r.calls), nil) // Judge adds what is missing
	require.NoError(t, r.report.Judge())
	requireVerified(t, r.report)
}

// requireVerified asserts that each check that the catalogue lists for this layer was done.
func requireVerified(t *testing.T, run *report.Run) {
	t.Helper()
	var done []catalog.Check
	for _, v := range run.Verdicts {
		done = append(done, v.Check)
	}
	require.ElementsMatch(t, verified, done)
}

func startFaults(t *testing.T) *faultsRun {
	t.Helper()
	for _, why := range []string{isolated.WhyUnavailable(), faultfs.WhyUnavailable()} {
		if why != "" {
			t.Skip("skipped: " + why)
		}
	}
	require.NoError(t, faultfs.Sweep())
	r := &faultsRun{t: t, seed: *faultsSeed, disks: &faultyDisks{byID: map[string]*faultfs.FS{}}, logs: newKeptLogs(t)}
	if r.seed == 0 {
		r.seed = newSeed()
	}
	name := fmt.Sprintf("cluster:%d", r.seed)
	t.Logf("replay with -run TestFaults -args -faults.seed %d -faults.duration %s", r.seed, *faultsDuration)
	r.report = report.New(catalog.Cluster, "TestFaults", name)
	r.start = time.Now()
	r.startCluster()
	return r
}

func (r *faultsRun) startCluster() {
	c, err := isolated.Start(r.t.Context(), isolated.Options{
		Binary: testBinary(r.t), Mount: r.disks.mount, LogStore: []string{"wal", "boltdb"}[r.seed%2],
	})
	require.NoError(r.t, err)
	r.cluster = c
	r.t.Cleanup(r.clean)
	r.before = resourcesOf(r.t, c)
	r.work = newDurableWork(r.t, c)
}

// clean keeps what a person needs to understand a failure, then proves that nothing of the cluster is left.
func (r *faultsRun) clean() {
	for _, f := range r.disks.byID {
		f.Heal()
	}
	if err := r.cluster.Panics(); err != nil {
		r.t.Error(err)
	}
	if r.t.Failed() {
		r.keepLogs()
	}
	require.NoError(r.t, r.cluster.Close(context.Background()))
}

func (r *faultsRun) keepLogs() {
	logs := r.cluster.View().Logs(1_000_000)
	path := filepath.Join(artifacts(r.t), "TestFaults.log")
	if os.Getenv("HOLDFAST_ARTIFACTS") == "" {
		r.t.Logf("set HOLDFAST_ARTIFACTS to a folder to keep the logs; their end:\n%s", r.cluster.View().Logs(40))
		return
	}
	if err := os.WriteFile(path, []byte(logs), 0o600); err != nil {
		r.t.Logf("keep the logs: %v", err)
	}
	r.t.Logf("the logs are in %s", path)
}

// write writes the report where a campaign wants it, or where it helps.
func (r *faultsRun) write() {
	dir := report.Dir()
	if dir == "" && r.t.Failed() {
		dir = os.Getenv("HOLDFAST_ARTIFACTS")
	}
	if dir == "" {
		return
	}
	page, err := r.report.Write(dir)
	r.t.Logf("the report is %s (%v)", page, err)
}

// startClients starts the traffic; the result ends it.
func (r *faultsRun) startClients() (stop func() traffic.Result) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.t.Cleanup(cancel)
	profile := faultsTraffic(r.t, r.cluster, r.seed, r.work)
	done := make(chan traffic.Result, 1)
	go func() { done <- traffic.Run(ctx, profile) }()
	return func() traffic.Result { cancel(); return <-done }
}

func (r *faultsRun) campaign() *faults.Campaign {
	r.report.NeedWork(catalog.ServedBy(catalog.Cluster).Workloads...)
	some := chosen(r.seed, r.disks.injectors(), *faultsDuration != 0)
	for i, one := range some {
		r.report.NeedFault(one.Fault)
		if one.Fault == catalog.MembershipChange {
			some[i].Begin = r.keepingLogs(one.Begin)
		}
	}
	return faults.NewCampaign(faults.Config{Cluster: r.cluster, Seed: r.seed, Injectors: some, Done: r.note})
}

// keepingLogs keeps a copy of the journals before a member may lose its disk.
func (r *faultsRun) keepingLogs(begin func(context.Context, *faults.Scene) (*faults.Injection, error)) func(context.Context, *faults.Scene) (*faults.Injection, error) {
	return func(ctx context.Context, s *faults.Scene) (*faults.Injection, error) {
		if err := r.logs.keep(s.Cluster.Controllers()); err != nil {
			return nil, err
		}
		return begin(ctx, s)
	}
}

func (r *faultsRun) note(f faults.Record) {
	r.report.Fault(f.Fault, f.Member, f.From.Sub(r.start), f.To.Sub(r.start))
	r.t.Logf("%6.1fs %s: %s; %s", f.From.Sub(r.start).Seconds(), f.Fault, f.Said, f.Came)
}

// disturb injects faults for as long as it is asked to, and until the run has seen what it must have seen.
func (r *faultsRun) disturb(campaign *faults.Campaign) {
	during := *faultsDuration
	if during == 0 {
		during = shortOrLong(45*time.Second, 10*time.Minute)
	}
	end := time.Now().Add(during)
	for limit := end.Add(faultsCap); time.Now().Before(end) || r.lacks() != ""; {
		if time.Now().After(limit) {
			r.t.Logf("%s later the run still lacks %s", faultsCap, r.lacks())
			return
		}
		require.NoError(r.t, campaign.Step(r.t.Context()))
	}
}

// lacks says what the run has not seen yet of what it must have seen, empty when nothing is missing. Calls are counted at the end, all but
// those that stage.
func (r *faultsRun) lacks() string {
	r.report.SetCount(catalog.SnapshotInstalls, r.snapshotInstalls())
	var missing []string
	for _, what := range r.report.Missing() {
		counted := strings.Contains(what, "workload "+string(catalog.Stage)) || !strings.Contains(what, "workload ")
		if counted && !strings.Contains(what, "operation") && !strings.Contains(what, "no check") && !strings.Contains(what, string(catalog.UnknownOutcomes)) {
			missing = append(missing, what)
		}
	}
	return strings.Join(missing, ", ")
}

// snapshotInstalls is how often members got the state as a dump, as their logs have it.
func (r *faultsRun) snapshotInstalls() (n int) {
	for _, m := range r.cluster.Controllers() {
		text, err := os.ReadFile(m.LogPath())
		require.NoError(r.t, err)
		n += strings.Count(string(text), "Installed remote snapshot")
	}
	return n
}
