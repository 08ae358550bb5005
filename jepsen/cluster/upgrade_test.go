package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/traffic"
)

// previous is the last commit of the repository whose build understands one feature level less than this one. It is
// built from the history, so that it is what was released.
const previous = "0b17459"

// The feature levels of the two builds.
const previousLevel, currentLevel = 2, 3

// builds are the two builds that a cluster is made of, and the path that its processes
// are started from: what is installed there is what a process that starts next is.
type builds struct{ previous, current, installed string }

// prepareBuilds builds the previous build, or skips the test where its source is not there.
func prepareBuilds(t *testing.T) builds {
	t.Helper()
	this := testBinary(t)
	dir, begin := t.TempDir(), time.Now()
	built, err := harness.BuildCommit(t.Context(), previous)
	if errors.Is(err, harness.ErrNoHistory) {
		t.Skipf("skipped: %v; fetch the whole history, or name a binary of that commit with %s", err, harness.PreviousVariable)
	}
	require.NoError(t, err)
	t.Logf("built %s in %s", previous, time.Since(begin).Round(time.Second))
	return builds{previous: built, current: this, installed: filepath.Join(dir, "holdfast")}
}

// mixedCluster is a cluster whose processes are of two builds.
type mixedCluster struct {
	*harness.Cluster
	t *testing.T
	builds
	lifecycles map[string]*atomic.Int64 // of volumes, by node, that were lived to their end
}

// startPrevious starts a cluster of the previous build that compares its members' states
// often, and whose members often read each other's dumps.
func startPrevious(t *testing.T, b builds) *mixedCluster {
	t.Helper()
	require.NoError(t, harness.Install(b.previous, b.installed))
	c, err := harness.Start(t.Context(), harness.Options{Binary: b.installed, Nodes: 2, Flags: []string{
		"--controller-arg=--checkpoint-every=16", "--controller-arg=--snapshot-threshold=128", "--controller-arg=--snapshot-interval=1s"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, harness.Install(b.current, b.installed)) // it knows what either build left
		collectAndClean(t, c)
	})
	return &mixedCluster{Cluster: c, t: t, builds: b, lifecycles: map[string]*atomic.Int64{"n1": {}, "n2": {}}}
}

// rollTo stops one process after another and starts it as another build, under load. Before the next step volumes
// have run lifecycles on every node with this mix of builds, and all members have equal states, as the log's
// checkpoints confirm.
func (m *mixedCluster) rollTo(build string, ids ...string) {
	m.t.Helper()
	for _, id := range ids {
		begin := time.Now()
		m.restartAs(id, build)
		m.awaitLifecycles()
		m.awaitAgreement()
		m.t.Logf("%s is %s after %s", id, filepath.Base(build), time.Since(begin).Round(time.Millisecond))
	}
}

// restartAs starts a process as another build.
func (m *mixedCluster) restartAs(id, build string) {
	m.t.Helper()
	m.stop(id)
	require.NoError(m.t, harness.Install(build, m.installed))
	require.NoError(m.t, m.StartChild(m.t.Context(), id))
}

func (m *mixedCluster) stop(id string) {
	m.t.Helper()
	_, err := m.Signal(id, syscall.SIGTERM)
	require.NoError(m.t, err)
	require.NoError(m.t, m.AwaitDead(m.t.Context(), id))
}

// awaitLifecycles waits until a lifecycle that began after this call has ended on every node.
func (m *mixedCluster) awaitLifecycles() {
	m.t.Helper()
	for node, lives := range m.lifecycles {
		begun := lives.Load()
		require.NoError(m.t, harness.Poll(m.t.Context(), harness.Patience, "a life on "+node, func() (bool, error) {
			if m.t.Failed() {
				return false, harness.Permanent(errors.New("an earlier one failed"))
			}
			return lives.Load() >= begun+2, nil // the first of them may have begun before
		}))
	}
}

// awaitAgreement waits until all members have one hash at one index, and a later checkpoint was confirmed by a
// majority without a member that left because of it (S23, S72).
func (m *mixedCluster) awaitAgreement() {
	m.t.Helper()
	require.NoError(m.t, m.AwaitAgreement(m.t.Context()))
	s, err := m.Status(m.t.Context())
	require.NoError(m.t, err)
	at := s.Members[0].HashIndex
	require.NoError(m.t, harness.Poll(m.t.Context(), harness.Patience, fmt.Sprintf("a checkpoint after %d", at), func() (bool, error) {
		s, err := m.Status(m.t.Context())
		return s.Checkpoint.Index > at, err
	}))
	m.requireNoHashMismatch()
}

// requireNoHashMismatch asserts that no member found different states, or an unknown entry.
func (m *mixedCluster) requireNoHashMismatch() {
	m.t.Helper()
	l, err := m.Layout()
	require.NoError(m.t, err)
	for _, id := range l.ControllerIDs() {
		for _, word := range []string{"diverge", "no majority of the members agrees", "apply committed entries:"} {
			require.NotContains(m.t, m.ChildLog(id), word, "the log of %s", id)
		}
	}
}

// startLoad keeps a cluster under load until it is stopped: conflicting calls, of which many are refused, and on each
// node volumes that run lifecycles.
func (m *mixedCluster) startLoad() (stop func()) {
	ctx, cancel := context.WithCancel(m.t.Context())
	var work sync.WaitGroup
	var traffics traffic.Result
	calls := trafficMix(m.t, m.Cluster)
	calls.Clients, calls.Nodes = 3, []string{"n1", "n2"}
	work.Go(func() { traffics = traffic.Run(ctx, calls) })
	errs := make(chan error, len(m.lifecycles))
	for node := range m.lifecycles {
		work.Go(func() { errs <- m.runLifecyclesOn(ctx, node) })
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			work.Wait()
			for range m.lifecycles {
				require.NoError(m.t, <-errs)
			}
			require.Empty(m.t, traffics.Unexpected, "codes that no CO expects")
			m.t.Logf("lives: %d on n1, %d on n2; answers: %v", m.lifecycles["n1"].Load(), m.lifecycles["n2"].Load(), traffics.History.Count())
		})
	}
	m.t.Cleanup(func() { cancel(); work.Wait() })
	return stop
}

// runLifecyclesOn runs lifecycles of volumes with a snapshot and a copy on a node until ctx ends; the last one is
// completed.
func (m *mixedCluster) runLifecyclesOn(ctx context.Context, node string) error {
	co := m.NewCO()
	for n := 0; ctx.Err() == nil; n++ {
		spec := harness.Spec{Name: fmt.Sprintf("life-%s-%d", node, n), Node: node, Size: 16 * harness.Mi, Block: n%3 == 2}
		if err := m.lifecycle(m.t.Context(), co, spec); err != nil {
			m.t.Errorf("life %d on %s: %v", n, node, err)
			return err
		}
		m.lifecycles[node].Add(1)
	}
	return nil
}

func (m *mixedCluster) lifecycle(ctx context.Context, co *harness.CO, spec harness.Spec) error {
	var v, w *harness.Volume
	var data []byte
	var snapshot string
	for _, part := range []func() error{
		func() (err error) { v, err = co.Create(ctx, spec); return err },
		func() error { return co.PublishStageBind(ctx, v, spec.Node) },
		func() (err error) { data, err = writeTo(v); return err },
		func() error { return co.UnbindUnstageUnpublish(ctx, v) },
		func() (err error) { snapshot, err = co.Snapshot(ctx, spec.Name, v); return err },
		func() (err error) {
			w, err = co.Restore(ctx, harness.Spec{Name: spec.Name + "-w", Size: spec.Size, Node: spec.Node, Block: spec.Block}, snapshot)
			return err
		},
		func() error { return co.Expand(ctx, v, spec.Size+16*harness.Mi) },
		func() error { return co.PublishStageBind(ctx, w, spec.Node) },
		func() error { return sameData(w, data) },
		func() error { return co.UnbindUnstageUnpublish(ctx, w) },
		func() error { return co.DeleteSnapshot(ctx, snapshot) },
		func() error { return co.Delete(ctx, w) },
		func() error { return co.Delete(ctx, v) },
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// TestTwoBuildsHoldOneState (S72): a cluster of the previous build is rolled forward to this one and back, under
// load, and forward again; then the level is raised. After every step its members have equal states, and volumes can
// be used on every node; what the level brings is used too.
func TestTwoBuildsHoldOneState(t *testing.T) {
	m := startPrevious(t, prepareBuilds(t))
	stop := m.startLoad()
	children := []string{"c1", "n1", "c2", "n2", "c3"}
	m.rollTo(m.current, children...)
	m.rollTo(m.previous, children...)
	m.rollTo(m.current, "c1", "n1", "c2", "n2")
	m.cannotFinish("c3")
	m.rollTo(m.current, "c3")
	m.finishUpgrade()
	m.useAddons()
	m.refusesOldController("c2")
	m.refusesOldNode("n1")
	m.awaitLifecycles()
	stop()
	removeAll(t, m.Cluster)
	require.NoError(t, m.AwaitCleanAudit(t.Context()))
	require.NoError(t, m.AwaitAgreement(t.Context()))
}

// cannotFinish asserts that a process that was not upgraded is named, and that the level stays.
func (m *mixedCluster) cannotFinish(missing string) {
	m.t.Helper()
	for range 2 {
		res := m.Run(m.t.Context(), "upgrade", "finish", "--yes", "--dir", m.Dir)
		require.Equal(m.t, 1, res.Code, "%s %s", res.Stdout, res.Stderr)
		require.Regexp(m.t, missing+" .*upgrade it", res.Stdout)
	}
	require.EqualValues(m.t, previousLevel, m.level())
}

// finishUpgrade raises the level; without --yes, and the second time, nothing changes.
func (m *mixedCluster) finishUpgrade() {
	m.t.Helper()
	for _, step := range []struct {
		args  []string
		level uint32
	}{{nil, previousLevel}, {[]string{"--yes"}, currentLevel}, {[]string{"--yes"}, currentLevel}} {
		res := m.Run(m.t.Context(), append([]string{"upgrade", "finish", "--dir", m.Dir}, step.args...)...)
		require.Zero(m.t, res.Code, "%s %s", res.Stdout, res.Stderr)
		require.Equal(m.t, step.level, m.level())
	}
	m.awaitLifecycles()
	m.awaitAgreement()
}

// level is the feature level that the cluster runs at.
func (m *mixedCluster) level() (level uint32) {
	m.t.Helper()
	require.NoError(m.t, harness.Poll(m.t.Context(), harness.Patience, "the status", func() (bool, error) {
		s, err := m.Status(m.t.Context())
		level = s.FeatureLevel
		return s.Leader != "", err
	}))
	return level
}

// refusesOldController asserts that a controller of the previous build that starts after the raise takes no part in
// the cluster. It exits and says why when its disk has entries of the new level; other members send it none. It
// comes back as this build.
func (m *mixedCluster) refusesOldController(id string) {
	m.t.Helper()
	before, others := len(m.ChildLog(id)), m.otherLogs(id)
	m.stop(id)
	require.NoError(m.t, harness.Install(m.previous, m.installed))
	require.Zero(m.t, m.Run(m.t.Context(), "dev", "start", "--dir", m.Dir, id).Code)
	var dead bool
	require.NoError(m.t, harness.Poll(m.t.Context(), harness.Patience, id+" to be refused", func() (bool, error) {
		l, err := m.Layout()
		dead = err == nil && l.PID(id) == 0
		return dead || strings.Contains(m.otherLogs(id)[len(others):], "names its member: upgrade the controller that dials"), err
	}))
	if dead {
		childLog := m.ChildLog(id)[before:]
		m.t.Logf("%s: %s", id, lastLine(childLog))
		require.Regexp(m.t, "needs feature level 3, this build understands 2|schema version 3 of .* is above this build's 2|its feature level is 3, this build understands 2 at most", childLog)
	} else {
		m.stop(id)
	}
	require.NoError(m.t, harness.Install(m.current, m.installed))
	m.awaitLifecycles()
	require.NoError(m.t, m.StartChild(m.t.Context(), id))
	require.NoError(m.t, m.AwaitAgreement(m.t.Context()))
}

// otherLogs returns the log of another controller, which the refused one dials.
func (m *mixedCluster) otherLogs(id string) string {
	for _, other := range []string{"c1", "c2", "c3"} {
		if other != id {
			return m.ChildLog(other)
		}
	}
	return ""
}

// refusesOldNode asserts that a node of the previous build gets no session after the raise, and is told why.
func (m *mixedCluster) refusesOldNode(id string) {
	m.t.Helper()
	before := len(m.ChildLog(id))
	m.restartAs(id, m.previous)
	require.NoError(m.t, harness.Poll(m.t.Context(), harness.Patience, id+" to be refused", func() (bool, error) {
		return strings.Contains(m.ChildLog(id)[before:], fmt.Sprintf("the cluster runs at %d: upgrade it", currentLevel)), nil
	}))
	m.restartAs(id, m.current)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
