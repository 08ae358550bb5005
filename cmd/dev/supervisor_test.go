package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// testSupervisor is a supervisor of shell scripts.
type testSupervisor struct {
	t    *testing.T
	l    layout
	opts Options
	out  *buffer
	err  *buffer
	stop context.CancelFunc
	done chan error
}

// buffer may be written and read at once.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

const forever = `echo "$0 began"; trap "exit 0" TERM; while :; do sleep 60 & wait; done`

func newTestSupervisor(t *testing.T, supervise bool, script string) *testSupervisor {
	l, err := newLayout(t.TempDir())
	require.NoError(t, err)
	b := &testSupervisor{t: t, l: l, out: &buffer{}, err: &buffer{}}
	b.opts = Options{Dir: l.dir, Controllers: 2, Nodes: 1, Supervise: supervise, Stdout: b.out, Stderr: b.err, restartAfter: 20 * time.Millisecond, minLifetime: time.Hour, deathTimeout: time.Minute,
		argv: func(id string) []string { return []string{"/bin/sh", "-c", script, id} }}
	return b
}

// start runs the supervisor; ready is what its check answers.
func (b *testSupervisor) start(ready func(context.Context) error) {
	s, err := loadOrCreateSettings(b.l, b.opts.Controllers, b.opts.Nodes)
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(b.l.path("log"), 0o700))
	require.NoError(b.t, os.MkdirAll(b.l.sockets(), 0o700))
	control, err := listenControl(b.l)
	require.NoError(b.t, err)
	supervisor := newSupervisor(b.opts, b.l, s)
	ctx, stop := context.WithCancel(context.Background())
	b.stop, b.done = stop, make(chan error, 1)
	go supervisor.serveControl(control)
	go func() {
		err := supervisor.run(ctx, ready)
		b.done <- errors.Join(err, control.Close())
	}()
	b.t.Cleanup(func() {
		stop()
		for _, pid := range b.pids() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // most have ended already
		}
		_ = os.RemoveAll(b.l.shortDir())
	})
}

func isReady(context.Context) error { return nil }

// pids are those in cluster.json, by id; dead ones are left out.
func (b *testSupervisor) pids() map[string]int {
	pids := map[string]int{}
	c, err := ReadCluster(b.l.dir)
	if err != nil {
		return pids
	}
	for _, one := range c.Controllers {
		pids[one.ID] = one.PID
	}
	for _, one := range c.Nodes {
		pids[one.ID] = one.PID
	}
	for id, pid := range pids {
		if pid == 0 {
			delete(pids, id)
		}
	}
	return pids
}

func (b *testSupervisor) eventually(what string, ok func() bool) {
	b.t.Helper()
	require.Eventually(b.t, ok, time.Minute, 5*time.Millisecond, "%s; stderr: %s", what, b.err)
}

func (b *testSupervisor) awaitEnd() error {
	b.t.Helper()
	select {
	case err := <-b.done:
		return err
	case <-time.After(time.Minute):
		b.t.Fatal("the supervisor did not end")
		return nil
	}
}

func TestClusterFileIsThereBeforeReadyAndNamesEveryProcess(t *testing.T) {
	b := newTestSupervisor(t, true, forever)
	seen := make(chan map[string]int, 1)
	b.start(func(ctx context.Context) error { // it may outlive the test
		for ctx.Err() == nil && len(b.pids()) != 3 {
			time.Sleep(5 * time.Millisecond)
		}
		seen <- b.pids()
		return ctx.Err()
	})
	b.eventually("ready", func() bool { return strings.HasPrefix(b.out.String(), "ready") })
	require.Len(t, <-seen, 3)
	b.stop()
	require.NoError(t, b.awaitEnd())
	require.Empty(t, b.pids(), "all are dead")
}

func TestASupervisedChildComesBack(t *testing.T) {
	b := newTestSupervisor(t, true, forever)
	b.start(isReady)
	b.eventually("three processes", func() bool { return len(b.pids()) == 3 })
	for range 2 {
		before := b.pids()["c1"]
		require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
		b.eventually("another c1", func() bool { now := b.pids()["c1"]; return now != 0 && now != before })
	}
	b.stop()
	require.NoError(t, b.awaitEnd())
	require.Contains(t, b.err.String(), "c1 (pid")
	require.NotContains(t, b.err.String(), "its log ends with", "it was killed")
}

func TestFailingChildIsReportedOnce(t *testing.T) {
	const failures = 6
	count := fmt.Sprintf("%s/$0", t.TempDir())
	b := newTestSupervisor(t, true, fmt.Sprintf(`echo >>%s; if [ $(wc -l <%[1]s) -gt %d ]; then %s; fi; echo "no such disk" >&2; exit 3`, count, failures, forever))
	b.start(func(ctx context.Context) error { <-ctx.Done(); return nil })
	b.eventually("a start that goes well", func() bool {
		text, _ := os.ReadFile(b.l.log("c1"))
		return strings.Count(string(text), "no such disk") == failures && strings.Contains(string(text), "c1 began")
	})
	b.stop()
	require.NoError(t, b.awaitEnd())
	require.Equal(t, 1, strings.Count(b.err.String(), "c1 (pid"), b.err)
	require.Contains(t, b.err.String(), "exit status 3; it is started again in 20ms; its log ends with: no such disk")
}

func TestAChildThatIsNotSupervisedStaysDeadUntilItIsStarted(t *testing.T) {
	b := newTestSupervisor(t, false, forever)
	b.start(isReady)
	b.eventually("three processes", func() bool { return len(b.pids()) == 3 })
	for range 2 {
		before := b.pids()["n1"]
		require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
		require.NoError(t, StartOne(context.Background(), b.l.dir, "n1"), "also before its death was noticed")
		require.NotEqual(t, before, b.pids()["n1"])
	}
	require.NoError(t, syscall.Kill(b.pids()["c2"], syscall.SIGKILL))
	b.eventually("c2 has pid 0", func() bool { return b.pids()["c2"] == 0 })
	b.stop()
	require.NoError(t, b.awaitEnd())
}

func TestStartOneRefuses(t *testing.T) {
	b := newTestSupervisor(t, false, forever)
	b.opts.deathTimeout = time.Millisecond
	require.Equal(t, exit.Unavailable, exit.Code(StartOne(context.Background(), b.l.dir, "c1")), "nobody runs there")
	b.start(isReady)
	b.eventually("three processes", func() bool { return len(b.pids()) == 3 })
	unknown := StartOne(context.Background(), b.l.dir, "c9")
	require.ErrorContains(t, unknown, `there is no "c9" here; there are c1, c2, n1`)
	require.Equal(t, exit.Refused, exit.Code(unknown))
	require.ErrorContains(t, StartOne(context.Background(), b.l.dir, "c1"), "c1 runs already")
	b.stop()
	require.NoError(t, b.awaitEnd())
}

func TestAClusterThatDoesNotGetReadyIsStopped(t *testing.T) {
	b := newTestSupervisor(t, true, forever)
	b.start(func(context.Context) error { return exit.Unavailablef("not registered: n1") })
	err := b.awaitEnd()
	require.ErrorContains(t, err, "not registered: n1")
	require.Equal(t, exit.Unavailable, exit.Code(err))
	require.Empty(t, b.pids())
	require.Empty(t, b.out.String())
}

func TestStoppedChildrenAreStoppedToo(t *testing.T) {
	b := newTestSupervisor(t, true, forever)
	b.start(isReady)
	b.eventually("three processes", func() bool { return len(b.pids()) == 3 })
	require.NoError(t, syscall.Kill(b.pids()["c1"], syscall.SIGSTOP))
	b.stop()
	require.NoError(t, b.awaitEnd())
}

// TestHelperSupervisor is the supervisor that the next test kills.
func TestHelperSupervisor(t *testing.T) {
	dir := os.Getenv("HOLDFAST_TEST_SUPERVISE")
	if dir == "" {
		t.Skip("it is a part of TestChildrenDoNotOutliveAKilledSupervisor")
	}
	l, err := newLayout(dir)
	require.NoError(t, err)
	s, err := loadOrCreateSettings(l, 2, 0)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(l.path("log"), 0o700))
	o := Options{Controllers: 2, Supervise: true, Stdout: os.Stdout, Stderr: os.Stderr,
		argv: func(id string) []string { return []string{"/bin/sh", "-c", forever, id} }}
	require.NoError(t, newSupervisor(o, l, s).run(context.Background(), isReady))
}

func TestChildrenDoNotOutliveAKilledSupervisor(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHelperSupervisor$")
	cmd.Env = append(os.Environ(), "HOLDFAST_TEST_SUPERVISE="+dir)
	require.NoError(t, cmd.Start())
	b := &testSupervisor{t: t, l: layout{dir}, err: &buffer{}}
	b.eventually("two processes", func() bool { return len(b.pids()) == 2 })
	pids := b.pids()
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	for id, pid := range pids {
		b.eventually(id+" is gone", func() bool { return !running(pid) })
	}
}

// running reports whether a process runs; one that exited and was not reaped yet does not.
func running(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestClusterFileIsReplacedAtomically(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.json")
	require.NoError(t, replaceJSON(path, &Cluster{Version: 1}))
	done := make(chan error, 1)
	go func() {
		for i := range 200 {
			if err := replaceJSON(path, &Cluster{Version: 1, Controllers: make([]Controller, i)}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reads := 0; ; reads++ {
		_, err := ReadCluster(filepath.Dir(path))
		require.NoError(t, err)
		select {
		case err := <-done:
			require.NoError(t, err)
			left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".cluster*"))
			require.NoError(t, err)
			require.Empty(t, left)
			return
		default:
		}
	}
}
