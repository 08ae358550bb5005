package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// plainHost is a node's host without an orchestrator: it mounts by mount(8).
type plainHost struct {
	t      *testing.T
	c      *harness.Cluster
	config string
	target string
}

// linkHelpers makes mount(8) and umount(8) find the binary as a helper, for as long as the test runs. Those that are there
// already are somebody's.
func linkHelpers(t *testing.T) {
	binary := testBinary(t)
	for _, path := range []string{"/sbin/mount.holdfast", "/sbin/umount.holdfast"} {
		if err := os.Symlink(binary, path); err != nil {
			t.Skipf("skipped: %v: the helper of a Holdfast that is installed is not replaced", err)
		}
		t.Cleanup(func() { require.NoError(t, os.Remove(path)) })
	}
}

func newPlainHost(t *testing.T, c *harness.Cluster, node string) *plainHost {
	l, err := c.Layout()
	require.NoError(t, err)
	dir := filepath.Join(c.Mounts(), "plain-"+node)
	h := &plainHost{t: t, c: c, config: filepath.Join(dir, "mount.yaml"), target: filepath.Join(dir, "data")}
	require.NoError(t, os.MkdirAll(h.target, 0o751))
	for _, n := range l.Nodes {
		if n.ID == node {
			text := fmt.Sprintf("dir: %s\ncsi-endpoint: %s\nmounts-dir: %s\nwait: 20s\n", c.Dir, n.Endpoint, filepath.Join(dir, "mounts"))
			require.NoError(t, os.WriteFile(h.config, []byte(text), 0o600))
		}
	}
	return h
}

// run runs a program of this host.
func (h *plainHost) run(name string, args ...string) harness.Result {
	h.t.Helper()
	cmd := exec.CommandContext(timeoutContext(h.t, harness.Patience), name, args...)
	cmd.Env = append(os.Environ(), "HOLDFAST_CONFIG="+h.config)
	res := runCommand(cmd)
	h.t.Logf("%s %v: exit %d %s", filepath.Base(name), args, res.Code, res.Stderr)
	return res
}

// mount mounts with mount(8).
func (h *plainHost) mount(options, volume string) harness.Result {
	h.t.Helper()
	return h.run("mount", "-t", "holdfast", "-o", options, volume, h.target)
}

func (h *plainHost) requireMounted(volume string) {
	h.t.Helper()
	require.Zero(h.t, h.mount("noatime,_netdev,nofail", volume).Code)
}

// volumes runs `holdfast volumes` and requires an exit code.
func (h *plainHost) volumes(code int, args ...string) harness.Result {
	h.t.Helper()
	res := h.c.Run(h.t.Context(), append([]string{"volumes", "--dir", h.c.Dir, "-o", "json"}, args...)...)
	require.Equal(h.t, code, res.Code, "volumes %v: %s", args, res.Stderr)
	return res
}

// volumeID is the id in the answer to a change of a volume.
func volumeID(t *testing.T, res harness.Result) string {
	var answer struct {
		ID string `json:"volume_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(res.Stdout), &answer))
	return answer.ID
}

// A host without an orchestrator creates a volume, mounts it by mount(8), and gives it back by umount(8). Everything that
// is said twice is done once, and it goes on after a node, a leader, or the helper was missing.
func TestAPlainHostMountsByMount8(t *testing.T) {
	c := startCluster(t, harness.Options{Nodes: 2})
	linkHelpers(t)
	h, other := newPlainHost(t, c, "n1"), newPlainHost(t, c, "n2")
	create := []string{"create", "data", "--size", "32MiB", "--node", "n1"}
	require.Empty(t, volumeID(t, h.volumes(0, create...)), "a plan makes nothing")
	id := volumeID(t, h.volumes(0, append(create, "--yes")...))
	require.Equal(t, id, volumeID(t, h.volumes(0, append(create, "--yes")...)))
	h.volumes(1, "create", "data", "--size", "64MiB", "--node", "n1", "--yes")
	h.volumes(1, "create", "data", "--size", "32MiB", "--node", "n1", "--parameter", "replicas=2", "--yes")

	content := filepath.Join(h.target, "content")
	h.requireMounted("data")
	require.NoError(t, os.WriteFile(content, []byte("kept"), 0o600))
	h.requireMounted("data")
	require.Contains(t, other.mount("noatime", "data").Stderr, "published to node n1")
	require.Equal(t, 32, other.mount("noatime", "data").Code)
	h.volumes(1, "publish", id, "--node", "n2", "--yes")
	h.volumes(1, "delete", id, "--yes")

	h.refusals(id)
	h.giveBack(content)
	h.outages(content)
	h.end(id)
}

// refusals: nothing of them changes what is mounted.
func (h *plainHost) refusals(id string) {
	t := h.t
	v, err := h.c.NewCO().Create(t.Context(), harness.Spec{Name: "orchestrated", Node: "n1"})
	require.NoError(t, err)
	h.volumes(1, "delete", v.ID, "--yes")
	elsewhere := filepath.Join(filepath.Dir(h.target), "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	for _, refused := range []struct {
		volume, target, options string
		code                    int
	}{
		{v.ID, elsewhere, "rw", 32}, {"unknown", elsewhere, "rw", 32}, {"data", elsewhere, "rw", 32}, {"data", h.target, "remount,ro", 1},
		{"data", elsewhere, "secrets=" + h.config + ".none", 1}, {"data", filepath.Join(elsewhere, "none"), "rw", 32},
	} {
		require.Equal(t, refused.code, h.run("mount", "-t", "holdfast", "-o", refused.options, refused.volume, refused.target).Code, refused)
	}
	require.Equal(t, 32, h.run("/sbin/umount.holdfast", elsewhere).Code)
	require.Equal(t, 1, h.run("umount", "-l", h.target).Code, "lazily")
	in, err := os.Open(h.target)
	require.NoError(t, err)
	require.Equal(t, 32, h.run("umount", h.target).Code, "it is in use")
	require.NoError(t, in.Close())
	require.NoError(t, h.c.NewCO().Delete(t.Context(), v))
	h.volumes(2, "delete", "data-of-nobody", "--bad")
	h.volumes(1, "delete", "data-of-nobody")
}

// giveBack unmounts with the helper, and without it.
func (h *plainHost) giveBack(content string) {
	t := h.t
	require.Zero(t, h.run("umount", h.target).Code)
	require.Equal(t, 32, h.run("umount", h.target).Code)
	h.requireGivenBack()
	after, err := os.Stat(h.target)
	require.NoError(t, err, "the mount point is there again")
	require.EqualValues(t, 0o751, after.Mode().Perm())
	for _, again := range []func(){func() {
		require.Contains(t, h.run(testBinary(t), "mounts", "release").Stdout, "would be given back")
		require.Contains(t, h.run(testBinary(t), "mounts", "release", "--yes").Stdout, "was given back")
		require.Empty(t, h.run(testBinary(t), "mounts", "release", "--yes").Stdout)
		h.requireGivenBack()
	}, func() {}} {
		h.requireMounted("data")
		require.Zero(t, h.run("umount", "-i", h.target).Code, "without the helper")
		again()
	}
	h.requireMounted("data") // where it was unmounted without the helper
	require.FileExists(t, content)
}

// requireGivenBack: nothing of it is published or recorded here.
func (h *plainHost) requireGivenBack() {
	h.t.Helper()
	require.NotContains(h.t, h.volumes(0, "list", "data").Stdout, `"epoch"`)
	require.Empty(h.t, h.run(testBinary(h.t), "mounts").Stdout)
}

// outages: the node is killed while it is mounted and while it is not, and the leader at an unmount.
func (h *plainHost) outages(content string) {
	t := h.t
	require.NoError(t, h.c.Kill(t.Context(), "n1"))
	require.FileExists(t, content, "the mount needs no node")
	require.Equal(t, 32, h.mount("noatime,wait=100ms", "data").Code)
	require.NoError(t, h.c.StartChild(t.Context(), "n1"))
	leader, err := h.c.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.c.Kill(t.Context(), leader))
	require.Zero(t, h.run("umount", h.target).Code)
	h.requireGivenBack()
	require.NoError(t, h.c.StartChild(t.Context(), leader))

	require.NoError(t, h.c.Kill(t.Context(), "n1"))
	waiting := make(chan harness.Result, 1)
	go func() { waiting <- h.mount("noatime", "data") }()
	require.NoError(t, h.c.StartChild(t.Context(), "n1"))
	select {
	case res := <-waiting:
		require.Zero(t, res.Code)
	case <-time.After(harness.Patience):
		t.Fatal("the mount does not end")
	}
	text, err := os.ReadFile(content)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
	h.volumes(0, "expand", "data", "--size", "48MiB", "--yes")
	if grown := h.run(testBinary(t), "mounts", "grow", h.target); grown.Code != 0 {
		require.Contains(t, grown.Stderr, "CAP_SYS_RESOURCE") // which this machine may not give
	}
	require.Zero(t, h.run("umount", h.target).Code)
	h.requireMounted("data") // staged again, it has grown
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(h.target, &st))
	require.Greater(t, int64(st.Blocks)*st.Bsize, int64(36*harness.Mi))
	require.Zero(t, h.run("umount", h.target).Code)
}

// end deletes it, by its id.
func (h *plainHost) end(id string) {
	h.volumes(2, "delete", "data", "--yes")
	for range 2 {
		h.volumes(0, "delete", id, "--yes")
	}
	require.NoError(h.t, h.c.AwaitNoLeftovers(h.t.Context()))
	require.NoError(h.t, h.c.AwaitCleanAudit(h.t.Context()))
}
