package cluster

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/mountns"
)

// requireOneLine asserts that a run failed with a code and said so in one line that
// contains the words.
func requireOneLine(t *testing.T, res harness.Result, exit int, words ...string) {
	t.Helper()
	t.Logf("exit %d: %s", res.Code, res.Stderr)
	require.Equal(t, exit, res.Code, "stdout: %s", res.Stdout)
	require.NotEmpty(t, res.Stderr)
	require.NotContains(t, res.Stderr, "\n", "more than one line")
	for _, word := range words {
		require.Contains(t, res.Stderr, word)
	}
}

// TestErrorsAreOneLineThatSaysWhatToDo takes the errors for which no cluster is needed.
func TestErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	path := testBinary(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "holdfast.yaml")
	require.NoError(t, os.WriteFile(config, []byte("no-such-key: 1\n"), 0o600))
	for name, tc := range map[string]struct {
		args  []string
		exit  int
		words []string
	}{
		"an unknown flag":              {[]string{"controller", "--no-such-flag"}, 2, []string{"no-such-flag"}},
		"an unknown command":           {[]string{"no-such-command"}, 2, []string{"no-such-command"}},
		"a bad value":                  {[]string{"dev", "--dir", dir, "--controllers=many"}, 2, []string{"controllers"}},
		"an unknown configuration key": {[]string{"controller", "--config", config}, 2, []string{"no-such-key"}},
		"a missing configuration":      {[]string{"node", "--config", filepath.Join(dir, "none.yaml")}, 2, []string{"none.yaml"}},
		"an unreadable certificate": {[]string{"status", "--endpoints", "127.0.0.1:1", "--cert", filepath.Join(dir, "no.crt"),
			"--key", filepath.Join(dir, "no.key"), "--ca", filepath.Join(dir, "no-ca.crt")}, 2, []string{"no"}},
		"no cluster in the folder": {[]string{"status", "--dir", filepath.Join(dir, "empty")}, 3, []string{"empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				requireOneLine(t, harness.Run(t.Context(), path, tc.args...), tc.exit, tc.words...)
			}
		})
	}
	t.Run("no root", func(t *testing.T) { withoutRoot(t, path) })
	t.Run("a missing tool", func(t *testing.T) { withoutTools(t, path) })
	t.Run("a key that others can read", func(t *testing.T) { withOpenKey(t, path) })
}

// withoutRoot runs dev as nobody, from a copy that nobody can reach.
func withoutRoot(t *testing.T, path string) {
	open, err := os.MkdirTemp("/tmp", "holdfast-nobody-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(open)) })
	require.NoError(t, os.Chmod(open, 0o777))
	copied := filepath.Join(open, "holdfast")
	require.NoError(t, exec.CommandContext(t.Context(), "install", "-m", "0755", path, copied).Run())
	cmd := exec.CommandContext(t.Context(), copied, "dev", "--dir", filepath.Join(open, "d"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = open
	requireOneLine(t, runCommand(cmd), 1, "root")
}

func runCommand(cmd *exec.Cmd) harness.Result {
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run() // the code says it
	return harness.Result{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: strings.TrimSpace(errOut.String())}
}

// nodeArgs are the arguments of a node with a certificate of its own, and its key.
func nodeArgs(t *testing.T, path string) (args []string, key string) {
	dir := t.TempDir()
	for _, ca := range [][]string{
		{"ca", "make", "--ca-dir", dir + "/ca", "--cluster", "alone"},
		{"ca", "issue", "--ca-dir", dir + "/ca", "--role", "node", "--name", "n1", "--out", dir + "/n1"},
	} {
		require.Zero(t, harness.Run(t.Context(), path, ca...).Code)
	}
	found, err := filepath.Glob(dir + "/n1/*.key")
	require.NoError(t, err)
	require.Len(t, found, 1)
	cert := strings.TrimSuffix(found[0], ".key") + ".crt"
	return []string{"node", "--endpoints", "127.0.0.1:1", "--data-dir", dir + "/data", "--pool-dir", dir + "/pool", "--cert", cert,
		"--key", found[0], "--ca", dir + "/n1/ca.crt", "--csi-endpoint", "unix://" + dir + "/csi.sock", "--metrics-listen", "127.0.0.1:0"}, found[0]
}

// withoutTools runs a node where mkfs cannot be found: in a mount namespace of
// its own, in which the file is covered.
func withoutTools(t *testing.T, path string) {
	mkfs, err := exec.LookPath("mkfs.ext4")
	require.NoError(t, err)
	hidden, err := filepath.EvalSymlinks(mkfs)
	require.NoError(t, err)
	args, _ := nodeArgs(t, path)
	script := `mount --bind /dev/null "$1" && shift && exec "$@"`
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "sh", hidden, path}, args...)...)
	mountns.New(cmd)
	requireOneLine(t, runCommand(cmd), 1, "mkfs.ext4", "e2fsprogs")
}

// withOpenKey runs a node whose key others can read.
func withOpenKey(t *testing.T, path string) {
	args, key := nodeArgs(t, path)
	require.NoError(t, os.Chmod(key, 0o644))
	requireOneLine(t, harness.Run(t.Context(), path, args...), 2, key, "chmod")
}

// TestCommandLineAgainstACluster: exit codes, and the errors that need a
// cluster.
func TestCommandLineAgainstACluster(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: false})
	l, err := c.Layout()
	require.NoError(t, err)
	v, err := c.NewCO().Create(t.Context(), harness.Spec{Name: "seen"})
	require.NoError(t, err)

	t.Run("readers answer in every format", func(t *testing.T) { testReadCommands(t, c, v) })
	t.Run("a second supervisor", func(t *testing.T) {
		requireOneLine(t, c.Run(t.Context(), "dev", "--dir", c.Dir), 1, "stop it first")
	})
	t.Run("an unknown child", func(t *testing.T) {
		requireOneLine(t, c.Run(t.Context(), "dev", "start", "--dir", c.Dir, "c9"), 1, "c9")
	})
	t.Run("a used port", func(t *testing.T) { usedPort(t, c, l.Controllers[2]) })
	t.Run("without a quorum", func(t *testing.T) { withoutQuorum(t, c) })
	deleteAll(t, c, c.NewCO(), map[string]*harness.Volume{"seen": v})
	t.Run("other numbers than at the first start", func(t *testing.T) {
		require.NoError(t, c.Stop(t.Context()))
		requireOneLine(t, c.Run(t.Context(), "dev", "--dir", c.Dir, "--controllers=5"), 2, "--controllers 3")
		requireOneLine(t, c.Run(t.Context(), "dev", "start", "--dir", c.Dir, "c1"), 3, "c1")
	})
}

func testReadCommands(t *testing.T, c *harness.Cluster, v *harness.Volume) {
	for _, args := range [][]string{{"status"}, {"volumes"}, {"nodes"}, {"operations"}, {"history", "--volume", v.ID}, {"audit"}} {
		for _, format := range []string{"table", "json", "yaml"} {
			res := c.Run(t.Context(), append(args, "--dir", c.Dir, "-o", format)...)
			require.Zero(t, res.Code, "%v -o %s: %s", args, format, res.Stderr)
			require.NotEmpty(t, res.Stdout, "%v -o %s", args, format)
		}
	}
	require.Contains(t, c.Run(t.Context(), "volumes", "--dir", c.Dir).Stdout, v.ID)
	require.Contains(t, c.Run(t.Context(), "history", "--volume", v.ID, "--dir", c.Dir).Stdout, v.ID)
}

// usedPort takes a dead controller's port before it is started again.
func usedPort(t *testing.T, c *harness.Cluster, ctl harness.Controller) {
	require.NoError(t, c.Kill(t.Context(), ctl.ID))
	var thief net.Listener
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the port to be free", func() (bool, error) {
		var err error
		thief, err = net.Listen("tcp", ctl.API)
		return err == nil, err
	}))
	refusedStart(t, c, ctl.ID, ctl.API)
	require.NoError(t, thief.Close())
	require.NoError(t, c.StartChild(t.Context(), ctl.ID))
}

// refusedStart starts a child that cannot run: it ends, and its last line says why.
func refusedStart(t *testing.T, c *harness.Cluster, id, why string) {
	t.Helper()
	before := len(c.ChildLog(id))
	require.Zero(t, c.Run(t.Context(), "dev", "start", "--dir", c.Dir, id).Code)
	require.NoError(t, c.AwaitDead(t.Context(), id))
	lines := strings.Split(strings.TrimSpace(c.ChildLog(id)[before:]), "\n")
	t.Logf("%s: %s", id, lines[len(lines)-1])
	require.Contains(t, lines[len(lines)-1], why)
}

// withoutQuorum asserts that what cannot be known is said with exit code 3.
func withoutQuorum(t *testing.T, c *harness.Cluster) {
	_, dead := loseQuorum(t, c)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the leader to be unknown", func() (bool, error) {
		s, err := c.Status(t.Context())
		return s.Leader == "", err
	}))
	res := c.Run(t.Context(), "status", "--dir", c.Dir, "-o", "json")
	require.Equal(t, 3, res.Code, "status: %s", res.Stderr)
	require.Contains(t, res.Stdout, `"members"`)
	res = c.Run(t.Context(), "audit", "--dir", c.Dir, "-o", "json")
	require.Equal(t, 3, res.Code, "audit: %s", res.Stdout)
	for _, id := range dead {
		require.NoError(t, c.StartChild(t.Context(), id))
	}
	require.NoError(t, c.AwaitAgreement(t.Context()))
}
