package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/raftnode/enroll"
)

// joining is a cluster whose controllers issue certificates for join tokens.
type joining struct {
	*harness.Cluster
	t *testing.T
}

func startJoining(t *testing.T) *joining {
	ca := filepath.Join(t.TempDir(), "ca")
	c, err := harness.Prepare(harness.Options{Binary: testBinary(t), Flags: []string{"--controller-arg=--enroll-listen=127.0.0.1:0", "--controller-arg=--ca-dir=" + ca, "--controller-arg=--zone=z1"}})
	require.NoError(t, err)
	t.Cleanup(func() { collectAndClean(t, c) })
	require.NoError(t, os.Symlink(filepath.Join(c.Dir, "ca"), ca))
	require.NoError(t, c.Resume(t.Context()))
	return &joining{c, t}
}

func (j *joining) token(role, name string, more ...string) string {
	j.t.Helper()
	args := append([]string{"tokens", "create", "--dir", j.Dir, "--role", role, "--name", name}, more...)
	plan := j.Run(j.t.Context(), args...)
	require.Zero(j.t, plan.Code, plan.Stderr)
	require.Contains(j.t, plan.Stdout, "todo")
	res := j.Run(j.t.Context(), append(args, "--yes")...)
	require.Zero(j.t, res.Code, res.Stderr)
	return strings.TrimSpace(res.Stdout)
}

// args are those of a daemon on a host of its own, beside the token.
func (j *joining) args(role, host string) []string {
	dir := filepath.Join(j.Base, host)
	args := []string{role, "--tls-dir", filepath.Join(dir, "tls"), "--data-dir", filepath.Join(dir, "data"),
		"--metrics-listen", "127.0.0.1:0", "--csi-endpoint", "unix://" + filepath.Join(dir, "csi.sock")}
	if role == "node" {
		return append(args, "--pool-dir", filepath.Join(dir, "pool"), "--pool-image", "never", "--allow-root", j.Mounts())
	}
	return append(args, "--api-listen", "127.0.0.1:0", "--zone", "z2")
}

// run starts a daemon; the function kills it.
func (j *joining) run(args ...string) (kill func()) {
	j.t.Helper()
	log, err := os.OpenFile(filepath.Join(j.Base, "joined.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(j.t, err)
	cmd := exec.Command(testBinary(j.t), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(j.t, os.MkdirAll(filepath.Dir(args[2]), 0o700))
	require.NoError(j.t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	}
	j.t.Cleanup(func() {
		kill()
		if j.t.Failed() {
			content, _ := os.ReadFile(filepath.Join(j.Base, "joined.log"))
			j.t.Logf("%s", content)
		}
	})
	return kill
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// list reads what a list says of a name, by the key of its entries.
func (j *joining) list(key, name string, command ...string) (found map[string]any) {
	j.t.Helper()
	res := j.Run(j.t.Context(), append(command, "--dir", j.Dir, "-o", "json")...)
	require.Zero(j.t, res.Code, res.Stderr)
	var of map[string]any
	require.NoError(j.t, json.Unmarshal([]byte(res.Stdout), &of))
	all, _ := of[key].([]any)
	for _, e := range all {
		if entry, _ := e.(map[string]any); entry["id"] == name {
			return entry
		}
	}
	return nil
}

func (j *joining) await(what string, holds func() bool) {
	j.t.Helper()
	require.NoError(j.t, harness.Poll(j.t.Context(), harness.Patience, what, func() (bool, error) { return holds(), nil }))
}

// TestAHostJoinsWithOneCommand: a controller and a node join with a token each, and nothing else that was made for them.
func TestAHostJoinsWithOneCommand(t *testing.T) {
	j := startJoining(t)
	text := j.token("controller", "c4")
	args := append(j.args("controller", "c4"), "--raft-listen", freeAddress(t), "--join-token", text)
	votes := func() bool {
		m := j.list("members", "c4", "members")
		return m["voter"] == true && m["reachable"] == true
	}
	kill := j.run(args...)
	j.await("the controller to vote", votes)
	kill()
	j.run(args...) // the same command goes on
	j.await("the controller to vote again", votes)
	require.Equal(t, "z2", j.list("members", "c4", "members")["zone"])

	node := j.token("node", "n9")
	j.run(append(j.args("node", "n9"), "--join-token", node)...)
	j.await("the node to register", func() bool { return j.list("nodes", "n9", "nodes")["state"] == "reachable" })

	token, err := enroll.ParseToken(node)
	require.NoError(t, err)
	require.Equal(t, "used", j.list("tokens", token.ID, "tokens")["condition"])
	j.requireRefusals(node)
	j.requireNoSecret(token)
}

func (j *joining) requireRefusals(used string) {
	late := j.token("node", "late", "--ttl", "1s")
	id := func(text string) string {
		token, err := enroll.ParseToken(text)
		require.NoError(j.t, err)
		return token.ID
	}
	j.await("the token to expire", func() bool { return j.list("tokens", id(late), "tokens")["condition"] == "expired" })
	revoked := j.token("node", "n8")
	res := j.Run(j.t.Context(), "tokens", "revoke", id(revoked), "--dir", j.Dir, "--yes")
	require.Zero(j.t, res.Code, res.Stderr)
	other := j.token("node", "n7")
	forged := func(change func(*enroll.Token)) string {
		token, err := enroll.ParseToken(other)
		require.NoError(j.t, err)
		change(token)
		text, err := token.Text()
		require.NoError(j.t, err)
		return text
	}
	toController := forged(func(token *enroll.Token) { token.Role = "controller" })
	toName := forged(func(token *enroll.Token) { token.Name = "n6" })
	wrongCA := forged(func(token *enroll.Token) { token.Pin[0] ^= 1 })
	wrongSecret := forged(func(token *enroll.Token) { token.Secret[0] ^= 1 })
	for name, tc := range map[string]struct {
		args []string
		exit int
		want string
	}{
		"used twice":          {append(j.args("node", "thief"), "--join-token", used), 1, "it was used at index"},
		"late":                {append(j.args("node", "late"), "--join-token", late), 1, "it expired at"},
		"revoked":             {append(j.args("node", "n8"), "--join-token", revoked), 1, "it was revoked at index"},
		"for another role":    {append(j.args("controller", "c5"), "--join-token", other), 2, "it is for a node"},
		"beside another name": {append(j.args("node", "n9"), "--join-token", other), 1, "and the token is for"},
		"forged for a name":   {append(j.args("node", "n6"), "--join-token", toName), 1, "it is for node/n7, not for "},
		"forged for a role":   {append(j.args("controller", "n7"), "--join-token", toController), 1, "it is for node/n7, not for "},
		"with another CA":     {append(j.args("node", "n7"), "--join-token", wrongCA), 3, "does not show the CA that the token names"},
		"without its secret":  {append(j.args("node", "n7"), "--join-token", wrongSecret), 1, "it is not known here"},
		"not all of it":       {append(j.args("node", "n7"), "--join-token", other[:40]), 2, "or not all of it"},
	} {
		j.t.Run(name, func(t *testing.T) {
			for range 2 {
				res := j.Run(t.Context(), tc.args...)
				lines := strings.Split(res.Stderr, "\n")
				require.Equal(t, tc.exit, res.Code, res.Stderr)
				require.Contains(t, lines[len(lines)-1], tc.want)
				require.NotContains(t, res.Stderr+res.Stdout, other[8:40], "a secret")
			}
		})
	}
}

// requireNoSecret looks for a token's secret, as bytes and as a part of its text, in everything that the cluster wrote.
func (j *joining) requireNoSecret(token *enroll.Token) {
	text, err := token.Text()
	require.NoError(j.t, err)
	seen := 0
	require.NoError(j.t, filepath.WalkDir(j.Base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		seen++
		if bytes.Contains(content, token.Secret) || bytes.Contains(content, []byte(text)) {
			return fmt.Errorf("%s has the secret of a token", path)
		}
		return err
	}))
	require.Greater(j.t, seen, 10)
}
