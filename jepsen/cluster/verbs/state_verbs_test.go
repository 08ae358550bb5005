package verbs

import (
	"crypto/tls"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestS17_S71_StateVerbsGoOnWhereTheyWereKilled: a command that changes the state is killed before and after each of its calls; the same command,
// repeated, comes to its end, and said once more it changes nothing.
func TestS17_S71_StateVerbsGoOnWhereTheyWereKilled(t *testing.T) {
	o := start(t, harness.Options{Nodes: 2})
	k := &stateVerbs{operator: o, gate: o.openGate()}
	members, nodes := o.ask("members", "-o", "json"), o.ask("nodes")
	id := func(name string) string {
		found := regexp.MustCompile(`"id": "` + name + `",\s*"member_id": "([0-9a-f-]+)"`).FindStringSubmatch(members)
		require.NotNil(t, found, members)
		return found[1]
	}
	host := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindAllString(line(nodes, "n2"), -1)
	n2 := []string{"--host-id", host[len(host)-1], "--yes"}
	has := func(listing, word, text string) func() bool {
		return func() bool { return regexp.MustCompile(text).MatchString(line(o.ask(listing, "list"), word)) }
	}
	k.killed(has("members", "c3", `non-voter|false`), "members", "demote", id("c3"), "--yes", "--wait")
	k.killed(has("members", "c3", `follower +true`), "members", "promote", id("c3"), "--yes", "--wait")
	k.killed(has("members", "c2", `leader`), "members", "transfer", id("c2"), "--yes", "--wait")
	k.killed(has("nodes", "n2", `drain|cordon`), append([]string{"nodes", "drain", "n2"}, n2...)...)
	k.killed(has("nodes", "n2", `reachable `), append([]string{"nodes", "undrain", "n2"}, n2...)...)
	k.killed(has("nodes", "n2", `maintenance`), "nodes", "reboot-safe", "n2", "--claim")
	k.killed(has("nodes", "n2", `reachable `), "nodes", "reboot-safe", "n2", "--release")
	k.revoke()
	k.killed(has("nodes", "n2", `drain|cordon`), append([]string{"nodes", "evict", "n2", "--wait"}, n2...)...)
	k.lostDisk("c3")
	k.killed(func() bool {
		s, err := o.Status(t.Context())
		return err == nil && s.Agree() == nil && len(s.Members) == 3
	}, "members", "replace", id("c3"), "--yes", "--wait")
	_, err := o.Signal("n2", syscall.SIGKILL)
	require.NoError(t, err)
	k.killed(has("nodes", "n2", `lost`), append([]string{"nodes", "lost", "n2", "--even-if-reachable"}, n2...)...)
	members = o.ask("members", "-o", "json")
	address := regexp.MustCompile(`"id": "c3",[^}]*"address": "([^"]+)"`).FindStringSubmatch(members)[1]
	k.killed(func() bool { return line(o.ask("members"), "c3") == "" }, "members", "remove", id("c3"), "--yes", "--wait")
	require.NoError(t, o.AwaitAgreement(t.Context()))
	k.add("c3", address)
}

type stateVerbs struct {
	*operator
	gate *Gate
	done string // what a command says that has nothing to do any more and is refused therefore; empty: none is
}

// openGate opens a gate before c1.
func (o *operator) openGate() *Gate {
	o.t.Helper()
	l, err := o.Layout()
	require.NoError(o.t, err)
	controller, admin := o.certificate("controller", "c1"), o.certificate("admin", "dev")
	serve, err := tls.LoadX509KeyPair(controller+".crt", controller+".key")
	require.NoError(o.t, err)
	call, err := tls.LoadX509KeyPair(admin+".crt", admin+".key")
	require.NoError(o.t, err)
	g, err := OpenGate(l.Controllers[0].API, serve, call)
	require.NoError(o.t, err)
	o.t.Cleanup(func() { require.NoError(o.t, g.Close()) })
	return g
}

// killed kills a command at its first step, the same one at its second, and so on until it comes to its end; then what it is for holds, and
// the command said again succeeds too.
func (k *stateVerbs) killed(holds func() bool, args ...string) {
	k.t.Helper()
	drilled(k.t, args)
	step := 1
	for ; k.killedAt(step, args...); step++ {
		require.Less(k.t, step, 200, "%v does not end", args)
	}
	require.Greater(k.t, step, 2, "%v was killed at fewer steps than a call has", args)
	require.NoError(k.t, harness.Poll(k.t.Context(), harness.Patience, "the end of "+args[0]+" "+args[1], func() (bool, error) { return holds(), nil }))
	require.False(k.t, k.killedAt(0, args...))
	require.True(k.t, holds())
	k.t.Logf("%v was killed at %d steps", args[:2], step-1)
}

// killedAt runs a command that is killed at a step, and tells whether it got there. One that did not must have succeeded.
func (k *stateVerbs) killedAt(step int, args ...string) bool {
	k.t.Helper()
	admin := k.certificate("admin", "dev")
	cmd := exec.CommandContext(k.t.Context(), k.binary, append(args, "--endpoints", k.gate.Address,
		"--cert", admin+".crt", "--key", admin+".key", "--ca", filepath.Join(filepath.Dir(admin), "ca.crt"))...)
	k.gate.Arm(step, func() bool { _ = cmd.Process.Kill(); return true })
	out, err := cmd.CombinedOutput()
	if k.gate.Halted() {
		return true
	}
	if k.done == "" || !strings.Contains(string(out), k.done) {
		require.NoError(k.t, err, "%v: %s", args, out)
	}
	return false
}

// revoke revokes an identity, and ends that.
func (k *stateVerbs) revoke() {
	k.t.Helper()
	plan := k.Run(k.t.Context(), "certs", "revoke", "admin", "eve", "--reason", "stolen", "--dir", k.Dir)
	until := regexp.MustCompile(`--issued-until \S+`).FindString(plan.Stderr)
	require.NotEmpty(k.t, until, plan.Stderr)
	listed := func() bool {
		return regexp.MustCompile(`revoked at index \d+: admin/eve`).MatchString(k.ask("certs", "list"))
	}
	k.killed(listed, "certs", "revoke", "admin", "eve", "--reason", "stolen", "--issued-until", until[len("--issued-until "):], "--yes")
	plan = k.Run(k.t.Context(), "certs", "unrevoke", "admin", "eve", "--dir", k.Dir)
	since := regexp.MustCompile(`--since \S+`).FindString(plan.Stderr)
	require.NotEmpty(k.t, since, plan.Stderr)
	k.killed(func() bool { return !listed() }, "certs", "unrevoke", "admin", "eve", "--since", since[len("--since "):], "--yes")
}

// add takes a controller in that was removed, once it waits with an empty folder at its address. It also asks by itself.
func (k *stateVerbs) add(id, address string) {
	k.t.Helper()
	l, err := k.Layout()
	require.NoError(k.t, err)
	if _, err := k.Signal(id, syscall.SIGKILL); !errors.Is(err, harness.ErrDead) {
		require.NoError(k.t, err)
	}
	require.NoError(k.t, k.AwaitDead(k.t.Context(), id))
	require.NoError(k.t, os.RemoveAll(l.DataDir(id)))
	k.startEmpty(id)
	var found []string
	require.NoError(k.t, harness.Poll(k.t.Context(), harness.Patience, id+" to wait at "+address, func() (bool, error) {
		plan := k.Run(k.t.Context(), "members", "add", address, "--dir", k.Dir, "-o", "json")
		found = regexp.MustCompile(`"member_id": "([0-9a-f-]{36})"`).FindStringSubmatch(plan.Stdout)
		return found != nil, nil
	}))
	k.killed(func() bool { return regexp.MustCompile(`follower +true`).MatchString(line(k.ask("members"), id)) },
		"members", "add", address, "--member-id", found[1], "--yes", "--wait")
}

// startEmpty starts a controller with an empty folder, which need not be ready then.
func (k *stateVerbs) startEmpty(id string) {
	k.t.Helper()
	res := k.Run(k.t.Context(), "dev", "start", "--dir", k.Dir, id)
	require.Contains(k.t, []int{0, 3}, res.Code, res.Stderr)
}

// lostDisk has a controller lose its disk, and starts it with an empty folder.
func (k *stateVerbs) lostDisk(id string) {
	k.t.Helper()
	l, err := k.Layout()
	require.NoError(k.t, err)
	_, err = k.Signal(id, syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, errors.Join(k.AwaitDead(k.t.Context(), id), os.RemoveAll(l.DataDir(id))))
	k.startEmpty(id)
}
