package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// process is a daemon that a row starts on its own, in a directory of its own.
type process struct {
	k        *fixture
	dir      string // everything of it
	endpoint string
	cmd      *exec.Cmd
	mu       sync.Mutex
	log      bytes.Buffer
	ended    chan struct{}
}

// Write keeps what the process prints.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// standaloneController prepares a controller with a cluster of its own and certificates of the shared one. It is not
// started yet: rows change its configuration.
func (k *fixture) standaloneController(flags ...string) *process {
	k.t.Helper()
	p := k.newProcess()
	args := append([]string{"controller", "--name", "c1", "--data-dir", filepath.Join(p.dir, "data")}, flags...)
	if !slices.Contains(flags, "--join") {
		args = append(args, "--bootstrap")
	}
	for _, listener := range []string{"raft", "api", "metrics"} {
		args = append(args, "--"+listener+"-listen", freeAddress(k))
	}
	p.cmd.Args = append(p.cmd.Args, args...)
	for _, file := range []string{"cert", "key", "ca"} {
		p.cmd.Args = append(p.cmd.Args, "--"+file, filepath.Join(p.dir, "certs", file))
	}
	return p
}

// newProcess has a copy of the binary and of c1's certificate.
func (k *fixture) newProcess() *process {
	k.t.Helper()
	base, err := os.MkdirTemp("", "row-") // short: sockets have short paths
	require.NoError(k.t, err)
	k.cleanUpWith(func(context.Context) error { return os.RemoveAll(base) })
	l, err := k.env.Cluster.Layout()
	require.NoError(k.t, err)
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", l.PID("c1")))
	require.NoError(k.t, err)
	argv := strings.Split(string(raw), "\x00")
	require.NoError(k.t, os.Mkdir(filepath.Join(base, "certs"), 0o700))
	for _, file := range []string{"cert", "key", "ca"} {
		from := argv[slices.Index(argv, "--"+file)+1]
		copyFile(k, from, filepath.Join(base, "certs", file), 0o600)
	}
	copyFile(k, fmt.Sprintf("/proc/%d/exe", l.PID("c1")), filepath.Join(base, "holdfast"), 0o755)
	require.NoError(k.t, os.Mkdir(filepath.Join(base, "run"), 0o700))
	p := &process{k: k, dir: base, endpoint: "unix://" + filepath.Join(base, "run", "csi.sock")}
	p.reset()
	p.cmd.Args = []string{filepath.Join(base, "holdfast")}
	return p
}

// reset makes the process startable, again.
func (p *process) reset() {
	var args []string
	if p.cmd != nil {
		args = p.cmd.Args
	}
	p.cmd = exec.Command(filepath.Join(p.dir, "holdfast"))
	p.cmd.Args = args
	p.cmd.Dir = p.dir
	p.cmd.Env = []string{"CSI_ENDPOINT=" + p.endpoint, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	p.cmd.Stderr, p.cmd.Stdout = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func copyFile(k *fixture, from, to string, mode os.FileMode) {
	k.t.Helper()
	raw, err := os.ReadFile(from)
	require.NoError(k.t, err)
	require.NoError(k.t, os.WriteFile(to, raw, mode))
}

// freeAddress returns an address that is free until it is used: the host address belongs to this process alone, and
// each of its ports is returned once. On 127.0.0.1 the kernel may give the port to an outgoing connection meanwhile.
func freeAddress(k *fixture) string {
	pid := os.Getpid()
	host := fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, pid&255)
	return fmt.Sprintf("%s:%d", host, 20000+k.env.serial.Add(1))
}

// start starts it; it is killed with the row.
func (p *process) start() {
	p.k.t.Helper()
	require.NoError(p.k.t, p.cmd.Start())
	ended, cmd := make(chan struct{}), p.cmd
	p.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
	p.k.cleanUpWith(func(context.Context) error {
		_ = cmd.Process.Kill()
		<-ended
		return nil
	})
}

// kill kills it with SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// awaitExit waits until it ended by itself, and answers how.
func (p *process) awaitExit() int {
	p.k.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(timeout):
		require.Fail(p.k.t, "the process still runs", p.output())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) conn() *grpc.ClientConn {
	p.k.t.Helper()
	conn, err := harness.Dial(p.endpoint)
	require.NoError(p.k.t, err)
	p.k.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// awaitProbe waits until its Identity service does, and is ready when that is asked for.
func (p *process) awaitProbe(ready bool) *csi.ProbeResponse {
	p.k.t.Helper()
	conn := p.conn()
	var res *csi.ProbeResponse
	err := harness.Poll(p.k.ctx, timeout, "the process to answer", func() (bool, error) {
		select {
		case <-p.ended:
			return false, harness.Permanent(fmt.Errorf("it ended: %s", p.output()))
		default:
		}
		var err error
		res, err = csi.NewIdentityClient(conn).Probe(p.k.ctx, &csi.ProbeRequest{})
		return err == nil && (!ready || res.GetReady().GetValue()), err
	})
	require.NoError(p.k.t, err, "%s", p.output())
	return res
}
