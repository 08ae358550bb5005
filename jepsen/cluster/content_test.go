package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/nemesis"
)

// contentSteps are what a node does for snapshots, clones, growth, limits and groups.
var contentSteps = []string{"save-snapshot", "freeze", "cut", "thaw", "create-from", "identity", "grow", "grow-filesystem",
	"throttle", "remove-snapshot", "forget-snapshot"}

// TestContentSurvivesKilledNodesAndLeaders: a node is killed once before and after every step of snapshot, clone,
// expand, modify and group snapshot, while leaders are killed too. Copies have what was written before their
// snapshot.
func TestContentSurvivesKilledNodesAndLeaders(t *testing.T) {
	const nodes = 3
	c := startCluster(t, harness.Options{Supervise: true, Nodes: nodes, Flags: []string{"--enable-fault-points", "--node-arg=--io-cgroup=" + limitGroup(t)}})
	l, err := c.Layout()
	require.NoError(t, err)
	var points []string
	for _, s := range contentSteps {
		points = append(points, s+".before", s+".after")
	}
	harm := nemesis.Start(t.Context(), nemesis.Fault{Name: "leader killed", Every: 3 * time.Second, Inject: killLeader(c)})
	var g errgroup.Group
	for i, n := range l.Nodes {
		share := everyNth(points, nodes, i)
		if *long { // every node meets every point
			share = points
		}
		a := &faultArmer{dir: n.DataDir, remaining: share}
		g.Go(func() error { return runLifecycles(t, c, n.ID, a, contentLifecycle) })
	}
	require.NoError(t, g.Wait())
	done, err := harm.Stop()
	require.NoError(t, err)
	require.Positive(t, done["leader killed"])
	require.NoError(t, c.AwaitNoLeftovers(t.Context()))
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
	require.NoError(t, c.AwaitAgreement(t.Context()))
}

// limitGroup returns a control group for limits, where this host has them.
func limitGroup(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("holdfast-test-%d", os.Getpid())
	for _, at := range []string{"/sys/fs/cgroup/blkio", "/sys/fs/cgroup"} {
		dir := filepath.Join(at, name)
		if os.Mkdir(dir, 0o755) == nil {
			t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
			return name
		}
	}
	t.Skip("needs control groups that limit block I/O")
	return ""
}

// contentLifecycle runs a volume with a snapshot, a clone, an expansion, limits and a group snapshot.
func contentLifecycle(t *testing.T, c *harness.Cluster, co *harness.CO, spec harness.Spec, a *faultArmer) error {
	var (
		v, w     *harness.Volume
		data     []byte
		snapshot string
		group    *csi.VolumeGroupSnapshot
	)
	ctx := t.Context()
	for _, part := range []func() error{
		func() (err error) { v, err = co.Create(ctx, spec); return err },
		func() error { return co.PublishStageBind(ctx, v, spec.Node) },
		func() (err error) { data, err = writeTo(v); return err },
		func() (err error) { snapshot, err = co.Snapshot(ctx, spec.Name, v); return err },
		func() (err error) {
			w, err = co.Restore(ctx, harness.Spec{Name: spec.Name + "-w", Size: spec.Size, Node: spec.Node}, snapshot)
			return err
		},
		func() error { return co.PublishStageBind(ctx, w, spec.Node) },
		func() error { return sameData(w, data) },
		func() error { return co.UnbindUnstageUnpublish(ctx, v) },
		func() error { return co.Expand(ctx, v, spec.Size+16*harness.Mi) },
		func() error { return co.PublishStageBind(ctx, v, spec.Node) },
		func() error { return sameData(v, data) },
		func() error { return checkFilesystemSize(v, spec.Size) },
		func() error { return co.Modify(ctx, v, map[string]string{"iopsLimit": "5000"}) },
		func() (err error) { group, err = co.Group(ctx, spec.Name+"-g", v, w); return err },
		func() error { return co.DeleteGroup(ctx, group) },
		func() error { return co.DeleteSnapshot(ctx, snapshot) },
		func() error { return sameData(v, data) },
		func() error { return co.UnbindUnstageUnpublish(ctx, w) },
		func() error { return co.UnbindUnstageUnpublish(ctx, v) },
		func() error { return co.Delete(ctx, w) },
		func() error { return co.Delete(ctx, v) },
	} {
		if err := a.advance(); err != nil {
			return err
		}
		if err := part(); err != nil {
			return err
		}
	}
	return a.advance()
}

// checkFilesystemSize answers an error unless the filesystem grew beyond size bytes.
func checkFilesystemSize(v *harness.Volume, size int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(v.Target, &st); err != nil {
		return err
	}
	if have := int64(st.Blocks) * st.Bsize; have <= size*7/8 {
		return fmt.Errorf("the filesystem of %s has %d bytes, its device had %d before it grew", v.ID, have, size)
	}
	return nil
}
