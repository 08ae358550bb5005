package runbooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// load is an orchestrator and an operator at work: one life of a volume after another, and commands with a certificate.
type load struct {
	o     *operations
	co    *harness.CO
	lives atomic.Int64
	stop  context.CancelFunc
	done  sync.WaitGroup
	err   error
}

// startLoad works on a node until it is ended. What a CO repeats (ABORTED, UNAVAILABLE and DEADLINE_EXCEEDED, harness.Retriable) is
// repeated; any other answer of a call, and a command that does not exit with 0, is a failure.
func (o *operations) startLoad(node string) *load {
	l := &load{o: o, co: o.NewCO()}
	ctx, cancel := context.WithCancel(o.t.Context())
	l.stop = cancel
	l.done.Go(func() {
		for n := 0; ctx.Err() == nil && l.err == nil; n++ {
			l.err = l.live(o.t.Context(), harness.Spec{Name: fmt.Sprintf("load-%d", n), Node: node})
			l.lives.Add(1)
		}
	})
	o.t.Cleanup(func() { cancel(); l.done.Wait() })
	return l
}

func (l *load) live(ctx context.Context, spec harness.Spec) error {
	v, err := l.co.Create(ctx, spec)
	if err != nil {
		return err
	}
	if err := l.co.PublishStageBind(ctx, v, spec.Node); err != nil {
		return err
	}
	if res := l.o.Run(ctx, "volumes", "--dir", l.o.Dir); res.Code != 0 || !strings.Contains(res.Stdout, v.ID) {
		return fmt.Errorf("list volumes: exit code %d: %s", res.Code, res.Stderr)
	}
	if err := l.co.UnbindUnstageUnpublish(ctx, v); err != nil {
		return err
	}
	return l.co.Delete(ctx, v)
}

// await waits for a whole life that begins after this call.
func (l *load) await() {
	l.o.t.Helper()
	from := l.lives.Load()
	require.NoError(l.o.t, harness.Poll(l.o.t.Context(), harness.Patience, "a volume to live while keys change", func() (bool, error) {
		return l.lives.Load() >= from+2, nil
	}))
}

func (l *load) end() {
	l.o.t.Helper()
	l.stop()
	l.done.Wait()
	require.NoError(l.o.t, l.err)
	l.o.t.Logf("%d volumes lived meanwhile; %d calls were repeated", l.lives.Load(), l.co.Retries.Load())
}

// pids are the processes of the cluster that run.
func (o *operations) pids() map[string]int {
	o.t.Helper()
	l, err := o.Layout()
	require.NoError(o.t, err)
	found := map[string]int{}
	for _, c := range l.Controllers {
		found[c.ID] = c.PID
	}
	for _, n := range l.Nodes {
		found[n.ID] = n.PID
	}
	return found
}

// newCA (no process restarts, no call is dropped): the CA is replaced while volumes live and one stays in use, then leaves that
// end soon are renewed while they are in use.
func (o *operations) newCA(s *shell) {
	before := s.issuers(o.must("certs", "list"))
	require.Len(o.t, before, 1)
	processes := o.pids()
	old := o.oldAdmin()
	v := o.create("in-use-meanwhile", "n1")
	require.NoError(o.t, o.co.PublishStageBind(o.t.Context(), v, "n1"))
	work := o.startLoad("n2")
	s.run()
	work.await()
	s.run()
	s.retry(func(out string) bool { return len(s.issuers(out)) == 1 && !s.issuers(out)[keyOf(before)] })
	work.await()
	s.retry(func(string) bool { return true }) // refused while one is in use
	s.retry(func(out string) bool {
		return row("n1", "reachable ")(out) && row("n2", "reachable ")(out) && allVote(out)
	})
	o.refuses(old, "dev", "unknown authority")
	work.await()
	require.NotContains(o.t, s.issuers(o.must("certs", "list")), keyOf(before), "the connections that are open")
	o.renewShortLeaves(s, work)
	work.end()
	require.Equal(o.t, processes, o.pids(), "no process was started again")
	require.NoError(o.t, os.WriteFile(filepath.Join(v.Target, "file"), []byte("x"), 0o600))
	require.NoError(o.t, o.co.UnbindUnstageUnpublish(o.t.Context(), v))
	require.NoError(o.t, o.co.Delete(o.t.Context(), v))
}

// oldAdmin keeps a certificate of the CA that is replaced, with the bundle of then.
func (o *operations) oldAdmin() string {
	o.t.Helper()
	dir := filepath.Join(o.t.TempDir(), "old")
	require.NoError(o.t, os.CopyFS(dir, os.DirFS(filepath.Join(o.Dir, "pki", "admin-dev"))))
	files, err := os.ReadDir(dir)
	require.NoError(o.t, err)
	require.NoError(o.t, os.Chmod(dir, 0o700))
	for _, f := range files {
		require.NoError(o.t, os.Chmod(filepath.Join(dir, f.Name()), 0o600))
	}
	o.accepts(dir, "dev")
	return dir
}

// renewShortLeaves gives a controller and a host certificates that end in seconds and renews them once they are in use; their
// ends pass, and nothing ends with them.
func (o *operations) renewShortLeaves(s *shell, work *load) {
	const short = 10 * time.Second
	folders := []string{
		o.issue(filepath.Join(o.Dir, "pki", "controller-c2"), "controller", "c2", short.String()),
		o.issue(filepath.Join(o.Dir, "pki", "node-n1"), "node", "n1", short.String()),
	}
	ends := time.Now().Add(short)
	serials := func() string {
		var found []string
		for line := range strings.Lines(o.must("certs", "list")) {
			if strings.HasPrefix(line, "controller/c2 ") || strings.HasPrefix(line, "node/n1 ") {
				found = append(found, line)
			}
		}
		return strings.Join(found, "")
	}
	require.NoError(o.t, harness.Poll(o.t.Context(), short, "both to be connected by what ends soon", func() (bool, error) {
		return strings.Count(serials(), "expires") >= 2, fmt.Errorf("%s", serials())
	}))
	for _, folder := range folders {
		res := o.Run(o.t.Context(), "ca", "renew", "--ca-dir", filepath.Join(o.Dir, "ca"), "--folder", folder, "--within", "720h", "--yes")
		require.Zero(o.t, res.Code, res.Stderr)
	}
	require.True(o.t, time.Now().Before(ends), "they are renewed before they end")
	require.NoError(o.t, harness.Poll(o.t.Context(), 2*short, "the ends to pass", func() (bool, error) { return time.Now().After(ends.Add(time.Second)), nil }))
	work.await()
	require.NotContains(o.t, serials(), "expires")
	require.True(o.t, row("n1", "reachable ")(o.must("nodes")))
}

func keyOf(m map[string]bool) string {
	for k := range m {
		return k
	}
	return ""
}
