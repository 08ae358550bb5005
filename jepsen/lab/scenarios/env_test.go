package scenarios

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

var (
	long  = flag.Bool("long", false, "the long form: each scenario many times")
	times = flag.Int("times", 20, "how many times, in the long form")
)

// rounds is how often a scenario is repeated.
func rounds() int {
	if *long {
		return *times
	}
	return 1
}

// env is one lab with a cluster in it, shared by all scenarios: each leaves it as it
// found it, with all guests up and all networks connected.
type env struct {
	lab     *lab.Lab
	layout  layout
	cluster *lab.Cluster
	co      *orchestrator
	count   int
	// lastError is how much each guest's kernels had said when the scenario began.
	lastError map[int]int
	// openErr is what a scenario failed of, repeated behind the logs: a reader may see their end only.
	openErr string
	// nodeArgs are further flags of node processes that start from now on.
	nodeArgs []string
}

// sharedEnv is made by the first scenario and closed by TestMain. currentEnv is the one of the scenario that runs.
var sharedEnv, currentEnv *env

// layout is in what clusters of scenarios differ.
type layout struct {
	guests int      // 0: three; a controller runs in each
	nodes  int      // 0: one in each guest
	sites  []string // of each guest; nil: there is one site
	// impatient: a primary goes on without a peer that takes longer than the default to confirm a write. Guests may stand
	// still for longer while others use the machine's processors, and a peer that was outdated for that takes nothing over.
	impatient bool
	// behind is how far the guests' clocks are behind this machine's when the processes start.
	behind time.Duration
	// disks are of each guest, beside the pool's; setup prepares them, after the pool.
	disks []int64
	setup string
	// controllerArgs are further flags of controllers, firstNodeArgs those of nodes as they start first.
	controllerArgs, firstNodeArgs []string
}

// nodeArgs are the flags of all nodes.
func (y *layout) nodeArgs() []string {
	args := []string{"--allow-root", "/var/lib/kubelet", "--health-interval", "1s", "--max-volumes", fmt.Sprint(attachLimit), "--enable-fault-points"}
	if y.impatient {
		return args
	}
	return append(args, "--ko-count", "15")
}

// siteArgs are the flags of the processes in a guest that say where it is.
func (y *layout) siteArgs(g *lab.Guest) []string {
	if y.sites == nil {
		return nil
	}
	return []string{"--site", y.sites[g.Index-1]}
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, w := range []*env{alertsEnv, sharedEnv, sitesEnv} {
		if w == nil {
			continue
		}
		w.cluster.Close()
		if err := w.lab.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// attachLimit is how many volumes may be published to one host; csi-sanity asks for one more.
const attachLimit = 8

// resyncTimeout is how long a synchronisation may take on a machine that does much else.
const resyncTimeout = 4 * time.Minute

// pools makes the volume group that the node makes its pool in.
const pools = "pvcreate -qq -ff -y /dev/ubdc && vgcreate -qq vg /dev/ubdc"

// newScenario is the test environment for one scenario. Whatever a scenario did is undone behind it.
func newScenario(t *testing.T) *env {
	t.Helper()
	return sharedScenario(t, &sharedEnv, layout{})
}

// sharedScenario is newScenario in an environment that is made when it is first asked for.
func sharedScenario(t *testing.T, shared **env, y layout) *env {
	t.Helper()
	lab.RequireLab(t)
	if *shared == nil {
		closeAlertsEnv(t)
		w, err := openEnv(context.WithoutCancel(t.Context()), y)
		require.NoError(t, err)
		*shared = w
	}
	w := *shared
	t.Cleanup(func() {
		require.NoError(t, w.restore(context.WithoutCancel(t.Context())), "leave the lab as it was")
	})
	w.begin(t)
	return w
}

// newEnvOf is an environment of another layout, for one scenario.
func newEnvOf(t *testing.T, y layout) *env {
	t.Helper()
	lab.RequireLab(t)
	w, err := openEnv(context.WithoutCancel(t.Context()), y)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.cluster.Close()
		require.NoError(t, w.lab.Close())
	})
	w.begin(t)
	return w
}

// begin begins a scenario. If that fails, the evidence is printed before anything is undone.
func (w *env) begin(t *testing.T) {
	currentEnv, w.lastError, w.openErr = w, map[int]int{}, ""
	for _, g := range w.lab.Guests() {
		w.lastError[g.Index] = len(g.Console())
	}
	t.Cleanup(func() {
		if t.Failed() {
			w.showEvidence(t)
		}
	})
}

func openEnv(ctx context.Context, y layout) (_ *env, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	l, err := lab.Start(ctx, lab.Config{Guests: y.guests, Disks: append([]int64{2 << 30}, y.disks...)})
	if err != nil {
		return nil, err
	}
	w := &env{lab: l, layout: y, co: &orchestrator{}, nodeArgs: y.firstNodeArgs}
	defer func() {
		if err != nil {
			_ = l.Close() // the first error says more
		}
	}()
	if err := lab.Build(ctx, filepath.Join(l.Dir(), "bin", "writer"), "jepsen/lab/writer"); err != nil {
		return nil, err
	}
	if err := l.Boot(ctx); err != nil {
		return nil, err
	}
	w.cluster, err = l.NewCluster(ctx, lab.ClusterConfig{
		Setup: pools + y.setup, Pool: "lvm:vg/pool", Controllers: y.guests, Nodes: y.nodes, ControllerArgsOf: y.siteArgs, CertificatesAge: 2 * y.behind,
		// A guest may stand still for a second while others use the machine's processors.
		ControllerArgs: append([]string{"--heartbeat-timeout", "2s", "--election-timeout", "2s", "--lease-timeout", "1500ms"}, y.controllerArgs...),
		NodeArgs:       y.nodeArgs(),
		NodeArgsOf: func(g *lab.Guest) []string {
			return append(append(y.siteArgs(g), "--replication-address", g.IP(lab.Replication), "--fence-address", g.IP(lab.Management)), w.nodeArgs...)
		},
	})
	if err != nil {
		return nil, err
	}
	w.co.folder = func(ctx context.Context, node, path string) error { return run(ctx, w.guest(node), "mkdir -p "+path) }
	for _, g := range l.Guests() {
		if err := w.prepare(ctx, g); err != nil {
			return nil, err
		}
	}
	if y.behind > 0 {
		if err := l.StepClocks(ctx, -y.behind); err != nil {
			return nil, err
		}
	}
	if err := w.cluster.Start(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, w.logs(30))
	}
	return w, w.connect()
}

// prepare makes what the kubelet would: the directory of its mounts, gone with each boot.
func (w *env) prepare(ctx context.Context, g *lab.Guest) error {
	return run(ctx, g, "mkdir -p /var/lib/kubelet/staging /var/lib/kubelet/pods; mountpoint -q /var/lib/kubelet || { mount --bind /var/lib/kubelet /var/lib/kubelet && mount --make-shared /var/lib/kubelet; }")
}

func (w *env) connect() error {
	w.co.lastSilence = make([]atomic.Int64, len(w.lab.Guests()))
	for i := range w.lab.Guests() {
		controller, err := w.cluster.ControllerCSI(i + 1)
		if err != nil {
			return err
		}
		node, err := w.cluster.NodeCSI(i + 1)
		if err != nil {
			return err
		}
		w.co.controllers = append(w.co.controllers, csi.NewControllerClient(controller))
		w.co.nodes = append(w.co.nodes, csi.NewNodeClient(node))
	}
	return nil
}

// restore heals all networks, boots what is down, starts what does not run.
func (w *env) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := w.lab.ReconnectAll(ctx); err != nil {
		return err
	}
	for _, g := range w.lab.Guests() {
		if err := w.ensureRunning(ctx, g); err != nil {
			return err
		}
	}
	return w.cluster.AwaitReady(ctx)
}

// ensureRunning boots a guest that is down and starts the processes that do not run in it.
func (w *env) ensureRunning(ctx context.Context, g *lab.Guest) error {
	if !g.Running() {
		return w.bootGuest(ctx, g)
	}
	if !w.cluster.Controller(g.Index).Running(ctx) {
		if err := w.cluster.StartController(ctx, g.Index); err != nil {
			return err
		}
	}
	if n := w.cluster.Node(g.Index); n != nil && !n.Running(ctx) {
		return w.cluster.StartNode(ctx, g.Index)
	}
	return nil
}

// bootGuest boots a guest as a host comes back: its volume group, its directories, its processes.
func (w *env) bootGuest(ctx context.Context, g *lab.Guest) error {
	if err := g.Boot(ctx); err != nil {
		return err
	}
	if err := w.prepare(ctx, g); err != nil {
		return err
	}
	return w.cluster.StartGuest(ctx, g.Index)
}

// guest is the one that a node "n<i>" runs in.
func (w *env) guest(node string) *lab.Guest { return w.lab.Guest(int(node[len(node)-1] - '0')) }

// run runs a script that must succeed.
func run(ctx context.Context, g *lab.Guest, script string) error {
	out, code, err := g.Exec(ctx, script)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(out))
	}
	if err != nil {
		return fmt.Errorf("in %s: %s: %w", g.Name(), script, err)
	}
	return nil
}

// must runs a script that must succeed and answers what it printed.
func (w *env) mustExec(t *testing.T, node, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	out, code, err := w.guest(node).Exec(ctx, script)
	if err != nil || code != 0 {
		w.fatalf(t, "%s: %s: exit code %d, %v: %s", node, script, code, err, out)
	}
	return out
}

// fatalf ends the scenario.
func (w *env) fatalf(t *testing.T, format string, args ...any) {
	t.Helper()
	w.openErr = fmt.Sprintf(format, args...)
	require.Fail(t, w.openErr)
}

// eventually asks until the answer is nil, within a time.
func eventually(t *testing.T, within time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	last := fmt.Errorf("nothing was asked")
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			currentEnv.fatalf(t, "%s: not within %s: %v", what, within, last)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// nodeState is what the log knows of a node: "reachable", "unreachable" or "lost".
func (w *env) nodeState(ctx context.Context, node string) (string, error) {
	var all struct {
		Nodes []struct{ ID, State string } `json:"nodes"`
	}
	if err := w.cluster.Ask(ctx, &all, "nodes"); err != nil {
		return "", err
	}
	for _, n := range all.Nodes {
		if n.ID == node {
			return n.State, nil
		}
	}
	return "", fmt.Errorf("node %s is not known", node)
}

func (w *env) awaitState(t *testing.T, node, state string) {
	t.Helper()
	eventually(t, timeout, node+" is "+state, func(ctx context.Context) error {
		is, err := w.nodeState(ctx, node)
		if err == nil && is != state {
			err = fmt.Errorf("it is %s", is)
		}
		return err
	})
}

// noSplitBrain: no kernel saw one since the scenario began.
func (w *env) noSplitBrain(t *testing.T) {
	t.Helper()
	for _, g := range w.lab.Guests() {
		require.NotContains(t, g.Console()[w.lastError[g.Index]:], "Split-Brain", g.Name())
	}
}

// replicated makes a volume of two replicas on the first two guests.
func (w *env) replicated(t *testing.T, name string, block bool) *volume {
	t.Helper()
	w.count++
	v := &volume{name: fmt.Sprintf("%s-%d", name, w.count), size: 32 * mi, block: block}
	require.NoError(t, w.co.create(t.Context(), v, []string{"n1", "n2"}, map[string]string{"replicas": "2"}))
	require.Equal(t, []string{"n1", "n2"}, v.hosts, "both hosts are in the accessible topology")
	t.Cleanup(func() {
		if t.Failed() {
			return // it is what a reader wants to look at; the lab goes with it
		}
		require.NoError(t, w.co.delete(context.WithoutCancel(t.Context()), v))
	})
	return v
}

// publishAndStage publishes and stages it.
func (w *env) publishAndStage(t *testing.T, v *volume, node string) {
	t.Helper()
	require.NoError(t, w.co.publish(t.Context(), v, node))
	require.NoError(t, w.co.stage(t.Context(), v, node))
}

// unstageAndUnpublish ends both.
func (w *env) unstageAndUnpublish(t *testing.T, v *volume, node string) {
	t.Helper()
	require.NoError(t, w.co.unstage(t.Context(), v, node))
	require.NoError(t, w.co.unpublish(t.Context(), v, node))
}
