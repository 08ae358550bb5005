//go:build bench

package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

var builder harness.Builder

func TestMain(m *testing.M) {
	code := m.Run()
	_ = builder.Close()
	os.Exit(code)
}

// startHoldfast starts three controllers and a node; it is cleaned up with the benchmark.
func startHoldfast(b *testing.B, flags ...string) *harness.Cluster {
	b.Helper()
	if why := harness.WhyUnavailable(); why != "" {
		b.Skip(why)
	}
	binary, err := builder.Path(b.Context())
	require.NoError(b, err)
	c, err := harness.Start(b.Context(), harness.Options{Binary: binary, Supervise: true, Flags: flags})
	require.NoError(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.Stop(ctx)
		if err := c.Clean(ctx); err != nil {
			b.Error(err)
		}
	})
	return c
}

// members are the Member services of a cluster's controllers, c1 first.
func members(b *testing.B, c *harness.Cluster) []raftpb.MemberClient {
	b.Helper()
	creds, _, err := credentialsOf(c.Dir, "c1")
	require.NoError(b, err)
	at, err := ports(c.Dir)
	require.NoError(b, err)
	var all []raftpb.MemberClient
	for _, id := range []string{"c1", "c2", "c3"} {
		m, stop, err := dialMember(b.Context(), creds, fmt.Sprintf("127.0.0.1:%d", at[id]["raft"]))
		require.NoError(b, err)
		b.Cleanup(stop)
		all = append(all, m)
	}
	return all
}

// bare is three processes of hashicorp/raft with a state machine that does nothing.
type bare struct {
	pids    []int
	members []raftpb.MemberClient
}

func startBare(b *testing.B, c *harness.Cluster, store string) bare {
	b.Helper()
	dir := b.TempDir()
	program := filepath.Join(dir, "rawraft")
	out, err := exec.Command("go", "build", "-o", program, "./rawraft").CombinedOutput()
	require.NoError(b, err, string(out))
	addresses := freeAddresses(b, 6)
	var peers []string
	for i := range 3 {
		peers = append(peers, fmt.Sprintf("s%d=%s", i+1, addresses[i]))
	}
	var s bare
	for i := range 3 {
		creds, files, err := credentialsOf(c.Dir, fmt.Sprintf("c%d", i+1))
		require.NoError(b, err)
		data := filepath.Join(dir, fmt.Sprintf("s%d", i+1))
		require.NoError(b, os.Mkdir(data, 0o700))
		cmd := exec.Command(program, "--dir", data, "--id", fmt.Sprintf("s%d", i+1), "--raft", addresses[i], "--rpc", addresses[3+i],
			"--peers", strings.Join(peers, ","), "--log-store", store, "--cert", files.Cert, "--key", files.Key, "--ca", files.CA)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		require.NoError(b, cmd.Start())
		b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		m, stop, err := dial(creds, addresses[3+i])
		require.NoError(b, err)
		b.Cleanup(stop)
		s.pids, s.members = append(s.pids, cmd.Process.Pid), append(s.members, m)
	}
	return s
}

func freeAddresses(b *testing.B, n int) []string {
	b.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(b, err)
		defer func() { _ = l.Close() }()
		out = append(out, l.Addr().String())
	}
	return out
}

// pidsOf are the processes of a cluster that serve the log.
func pidsOf(b *testing.B, c *harness.Cluster) []int {
	b.Helper()
	l, err := c.Layout()
	require.NoError(b, err)
	var pids []int
	for _, id := range l.IDs() {
		pids = append(pids, l.PID(id))
	}
	return pids
}
