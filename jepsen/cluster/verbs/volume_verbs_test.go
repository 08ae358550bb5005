package verbs

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestS71_VolumeVerbsGoOnWhereTheyWereKilled: what makes, changes, mounts and removes volumes, hosts' work, fences and tokens.
func TestS71_VolumeVerbsGoOnWhereTheyWereKilled(t *testing.T) {
	k := startEnrolling(t, harness.Options{Controllers: 1}, "127.0.0.1:0")
	k.volumes()
	k.mounts()
	k.operations()
	k.fences()
	k.tokens()
}

// startEnrolling starts a cluster whose controllers issue certificates for join tokens, at an address.
func startEnrolling(t *testing.T, opts harness.Options, listen string) *stateVerbs {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca")
	opts.Binary = testBinary(t)
	opts.Flags = append(opts.Flags, "--controller-arg=--ca-dir="+ca, "--controller-arg=--enroll-listen="+listen)
	c, err := harness.Prepare(opts)
	require.NoError(t, err)
	o := &operator{Cluster: c, t: t, binary: opts.Binary}
	t.Cleanup(o.clean)
	require.NoError(t, os.Symlink(filepath.Join(c.Dir, "ca"), ca))
	require.NoError(t, c.Resume(t.Context()))
	return &stateVerbs{operator: o, gate: o.openGate()}
}

// has tells whether the only row of a list matches.
func (k *stateVerbs) has(text string, list ...string) func() bool {
	return func() bool { return regexp.MustCompile(text).MatchString(k.ask(list...)) }
}

func (k *stateVerbs) volumes() {
	k.t.Helper()
	id := func() string {
		return regexp.MustCompile(`hf-[0-9a-f-]{36}`).FindString(k.ask("volumes", "list", "drill"))
	}
	k.killed(func() bool { return id() != "" }, "volumes", "create", "drill", "--size", "16MiB", "--node", "n1", "--yes")
	created := id()
	k.killed(k.has(`"size_bytes": "?33554432`, "volumes", "list", "drill", "-o", "json"), "volumes", "expand", "drill", "--size", "32MiB", "--yes")
	k.killed(k.has(`n1:rw|published`, "volumes", "list", "drill", "-o", "wide"), "volumes", "publish", "drill", "--node", "n1", "--yes")
	k.killed(func() bool { return !k.has(`n1:rw|published`, "volumes", "list", "drill", "-o", "wide")() }, "volumes", "unpublish", "drill", "--node", "n1", "--yes")
	require.Equal(k.t, created, id(), "it was made once")
	k.killed(func() bool { return !strings.Contains(k.ask("volumes"), created) }, "volumes", "delete", created, "--yes")
}

// mounts mounts a volume on a host without an orchestrator.
func (k *stateVerbs) mounts() {
	k.t.Helper()
	l, err := k.Layout()
	require.NoError(k.t, err)
	k.ask("volumes", "create", "mounted", "--size", "16MiB", "--yes")
	target := filepath.Join(k.Mounts(), "plain", "data")
	require.NoError(k.t, os.MkdirAll(target, 0o751))
	host := []string{"--csi-endpoint", l.Nodes[0].Endpoint, "--mounts-dir", filepath.Join(k.Mounts(), "plain", "mounts")}
	mounted := func() bool {
		n, err := harness.MountsAt(target)
		require.NoError(k.t, err)
		require.LessOrEqual(k.t, n, 1, "it is mounted once")
		return n == 1
	}
	published := k.has(`n1:rw|published`, "volumes", "list", "mounted", "-o", "wide")
	k.killed(mounted, append([]string{"mount", "mounted", target}, host...)...)
	k.done = "nothing of Holdfast is mounted" // as umount(8) refuses what is not mounted
	k.killed(func() bool { return !mounted() && !published() }, append([]string{"umount", target}, host...)...)
	k.done = ""
	k.must(append([]string{"mount", "mounted", target, "--dir", k.Dir}, host...)...)
	require.NoError(k.t, unix.Unmount(target, 0))
	k.killed(func() bool { return !published() }, append([]string{"mounts", "release", "--yes"}, host...)...)
}

// operations has the host of a new volume be away.
func (k *stateVerbs) operations() {
	k.t.Helper()
	_, err := k.Signal("n1", syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, k.AwaitDead(k.t.Context(), "n1"))
	client, err := k.Controller("c1")
	require.NoError(k.t, err)
	asked, cancel := context.WithTimeout(k.t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = client.CreateVolume(asked, harness.Spec{Name: "away"}.CreateRequest())
	require.Error(k.t, err, "its host is away")
	var id string
	require.NoError(k.t, harness.Poll(k.t.Context(), harness.Patience, "the operation", func() (bool, error) {
		id = regexp.MustCompile(`op-\d+`).FindString(k.ask("operations"))
		return id != "", nil
	}))
	k.killed(k.has(`cancelled`, "operations", "show", id), "operations", "cancel", id)
	k.killed(k.has(`pending|running|waiting`, "operations", "show", id), "operations", "retry", id)
	require.NoError(k.t, k.StartChild(k.t.Context(), "n1"))
	v, err := k.NewCO().Create(k.t.Context(), harness.Spec{Name: "away"})
	require.NoError(k.t, err)
	require.NoError(k.t, k.NewCO().Delete(k.t.Context(), v))
}

func (k *stateVerbs) fences() {
	k.t.Helper()
	fenced := k.has(`203\.0\.113\.7/32`, "nodes", "fences")
	nobody := []string{"203.0.113.7/32", "--host-id", "none", "--yes"}
	k.killed(fenced, append([]string{"nodes", "fence"}, nobody...)...)
	k.killed(func() bool { return !fenced() }, append([]string{"nodes", "unfence"}, nobody...)...)
}

// tokens creates a token again and again: of one name the last is good, and no other.
func (k *stateVerbs) tokens() {
	k.t.Helper()
	good := func() []string {
		return regexp.MustCompile(`(?m)^([0-9a-f]{16}) .*\bwaiting\b`).FindAllString(k.ask("tokens"), -1)
	}
	k.killed(func() bool { return len(good()) == 1 }, "tokens", "create", "--role", "node", "--name", "n9", "--yes")
	id := good()[0][:16]
	k.killed(func() bool { return len(good()) == 0 && strings.Contains(line(k.ask("tokens"), id), "revoked") }, "tokens", "revoke", id, "--yes")
}
