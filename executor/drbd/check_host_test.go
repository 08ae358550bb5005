package drbd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// hostTools are the tools of a container, and what the kernel's commands do in the host's root.
type hostTools struct {
	calls    []run.Command
	selfTest error
}

func (h *hostTools) LookPath(tool string) (string, error) { return "/usr/sbin/" + tool, nil }

func (h *hostTools) Run(_ context.Context, c run.Command) ([]byte, error) {
	h.calls = append(h.calls, c)
	return nil, h.selfTest
}

// pod is a container with replicas: a host's root, and what of it is mounted at its own path. Paths that are shared are
// links here, as a bind mount of a test would need rights.
type pod struct {
	check *hostCheck
	tools *hostTools
	root  string // of the host
}

// write makes a file of the host.
func (p *pod) write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(p.root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chmod(path, mode))
}

// namespace makes this process's, or the first process's, link to a namespace.
func (p *pod) namespace(t *testing.T, process, kind, link string) {
	t.Helper()
	path := filepath.Join(p.check.config.procDir, process, "ns", kind)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if err := os.Remove(path); err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	require.NoError(t, os.Symlink(link, path))
}

func (p *pod) helper(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(p.check.config.sysDir, "module/drbd/parameters/usermode_helper")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
}

// newPod is one whose every check passes.
func newPod(t *testing.T) *pod {
	t.Helper()
	dir := t.TempDir()
	tools := &hostTools{}
	r := New(Config{
		Dir: filepath.Join(dir, "drbd.d"), MainFile: filepath.Join(dir, "drbd.conf"), State: filepath.Join(dir, "state"), Handler: "/opt/holdfast/bin/holdfast",
		procDir: filepath.Join(dir, "proc"), sysDir: filepath.Join(dir, "sys"), runner: tools,
	})
	p := &pod{check: r.check, tools: tools, root: filepath.Join(dir, "host")}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "proc/1"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "proc/drbd"), []byte("version: 8.4.11 (api:1/proto:86-101)\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "proc/crypto"), []byte("name         : sha256\nname         : crc32c\n"), 0o600))
	require.NoError(t, os.Symlink(p.root, filepath.Join(dir, "proc/1/root")))
	p.namespace(t, "self", "pid", initialPIDNamespace)
	for _, kind := range []string{"net", "uts"} {
		p.namespace(t, "self", kind, kind+":[1]")
		p.namespace(t, "1", kind, kind+":[1]")
	}
	p.write(t, "usr/sbin/drbdadm", "", 0o755)
	require.NoError(t, os.Symlink("/usr/sbin", filepath.Join(p.root, "sbin"))) // which leads there only from the host's root
	p.write(t, "opt/holdfast/bin/holdfast", "", 0o755)
	p.helper(t, "/sbin/drbdadm")
	require.NoError(t, os.Mkdir(r.config.Dir, 0o755))
	require.NoError(t, os.Mkdir(r.config.State, 0o755))
	require.NoError(t, os.WriteFile(r.config.MainFile, mainFileContent(r.config.Dir), 0o600))
	for _, path := range []string{r.config.MainFile, r.config.Dir, r.config.State} {
		p.share(t, path)
	}
	return p
}

// share has the host's root lead to a file of this test at the same path: a hard link, or for a folder the folder above.
func (p *pod) share(t *testing.T, path string) {
	t.Helper()
	onHost := filepath.Join(p.root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(onHost), 0o755))
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		require.NoError(t, os.Link(path, onHost))
		return
	}
	require.NoError(t, os.Rename(path, onHost))
	require.NoError(t, os.Symlink(onHost, path)) // this container's path leads to the host's folder
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("programs of the kernel belong to root, which this test is not")
	}
}

func TestS13_APodIsCheckedAgainstTheHostsRoot(t *testing.T) {
	requireRoot(t)
	p := newPod(t)
	for range 2 {
		p.tools.calls = nil
		require.NoError(t, p.check.run(t.Context()))
		require.Equal(t, filepath.Join(p.check.config.procDir, "1/root"), p.tools.calls[0].Root, "the handler runs where the kernel runs it")
		require.Equal(t, "/opt/holdfast/bin/holdfast", p.tools.calls[0].Tool)
		require.Equal(t, []string{"fence-peer", "--self-test"}, p.tools.calls[0].Args)
	}
}

func TestS13_WhatAPodLacksIsSaid(t *testing.T) {
	requireRoot(t)
	for name, tc := range map[string]struct {
		spoil   func(t *testing.T, p *pod)
		problem string
	}{
		"hostPID": {func(t *testing.T, p *pod) { p.namespace(t, "self", "pid", "pid:[4026532000]") }, "set hostPID: true"},
		"what tells": {func(t *testing.T, p *pod) {
			require.NoError(t, os.RemoveAll(filepath.Join(p.check.config.procDir, "self")))
		}, "look at this process's namespaces"},
		"hostNetwork, by its name":    {func(t *testing.T, p *pod) { p.namespace(t, "self", "uts", "uts:[2]") }, "set hostNetwork: true"},
		"hostNetwork, by its network": {func(t *testing.T, p *pod) { p.namespace(t, "self", "net", "net:[2]") }, "set hostNetwork: true"},
		"a helper: disabled":          {func(t *testing.T, p *pod) { p.helper(t, "disabled") }, "disabled on this host"},
		"a helper: another":           {func(t *testing.T, p *pod) { p.helper(t, "/bin/true") }, `"/bin/true", not drbdadm`},
		"a helper: relative":          {func(t *testing.T, p *pod) { p.helper(t, "drbdadm") }, "not drbdadm"},
		"drbdadm of the host": {func(t *testing.T, p *pod) { require.NoError(t, os.Remove(filepath.Join(p.root, "usr/sbin/drbdadm"))) },
			"/sbin/drbdadm is not on the host's own root: install drbd-utils on the host itself"},
		"drbdadm that only root writes": {func(t *testing.T, p *pod) {
			require.NoError(t, os.Chmod(filepath.Join(p.root, "usr/sbin/drbdadm"), 0o777))
		},
			"can be changed by others than root"},
		"the handler": {func(t *testing.T, p *pod) { require.NoError(t, os.RemoveAll(filepath.Join(p.root, "opt"))) },
			"/opt/holdfast/bin/holdfast is not on the host's own root: copy this program there, in a pod with `holdfast install-handler`"},
		"a handler that runs": {func(t *testing.T, p *pod) {
			require.NoError(t, os.Chmod(filepath.Join(p.root, "opt/holdfast/bin/holdfast"), 0o644))
		}, "is no program"},
		"a handler of root's": {func(t *testing.T, p *pod) {
			require.NoError(t, os.Chown(filepath.Join(p.root, "opt/holdfast/bin/holdfast"), 7, 7))
		}, "can be changed by others"},
		"drbd.conf": {func(t *testing.T, p *pod) { require.NoError(t, os.Remove(p.check.config.MainFile)) }, "drbd.conf is missing: mount the host's"},
		"the host's drbd.conf": {func(t *testing.T, p *pod) {
			require.NoError(t, os.Remove(p.check.config.MainFile))
			require.NoError(t, os.WriteFile(p.check.config.MainFile, mainFileContent(p.check.config.Dir), 0o600))
		}, "drbd.conf is not the host's own"},
		"a drbd.conf that includes": {func(t *testing.T, p *pod) { require.NoError(t, os.WriteFile(p.check.config.MainFile, nil, 0o600)) }, "does not include"},
		"the host's drbd.d":         {func(t *testing.T, p *pod) { ownFolder(t, p.check.config.Dir) }, "drbd.d is not the host's own"},
		"the host's state":          {func(t *testing.T, p *pod) { ownFolder(t, p.check.config.State) }, "state is not the host's own"},
		"the state's mount":         {func(t *testing.T, p *pod) { require.NoError(t, os.Remove(p.check.config.State)) }, "state is not the host's own"},
		"the socket":                {func(t *testing.T, p *pod) { p.tools.selfTest = errors.New("no such file") }, "does not reach this node: no such file; the folder of --fence-socket must be the host's own"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			tc.spoil(t, p)
			for range 2 {
				require.ErrorContains(t, p.check.run(t.Context()), tc.problem)
			}
		})
	}
}

// ownFolder replaces what is mounted by a folder of the container.
func ownFolder(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o755))
}

// On a host of its own the node makes the main file, and the tools' state need not be there yet.
func TestOnAHostTheMainFileIsMade(t *testing.T) {
	requireRoot(t)
	p := newPod(t)
	require.NoError(t, os.Remove(filepath.Join(p.check.config.procDir, "1/root")))
	require.NoError(t, os.Symlink("/", filepath.Join(p.check.config.procDir, "1/root")))
	handler := filepath.Join(t.TempDir(), "holdfast")
	require.NoError(t, os.WriteFile(handler, nil, 0o755))
	require.NoError(t, os.Chmod(handler, 0o755))
	p.check.config.Handler = handler
	require.NoError(t, os.Remove(p.check.config.MainFile))
	require.NoError(t, os.Remove(p.check.config.State))
	drbdadm := filepath.Join(t.TempDir(), "drbdadm")
	require.NoError(t, os.WriteFile(drbdadm, nil, 0o755))
	require.NoError(t, os.Chmod(drbdadm, 0o755))
	p.helper(t, drbdadm)
	for range 2 {
		require.NoError(t, p.check.run(t.Context()))
		require.FileExists(t, p.check.config.MainFile)
		require.Equal(t, "/", p.tools.calls[0].Root, "it needs no root of its own")
	}
}
