package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestAHostIsRecognisedByItsPoolAndDataFolder: a host without its pool or without its data directory is not taken for the registered one.
func TestAHostIsRecognisedByItsPoolAndDataFolder(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: false})
	co := c.NewCO()
	v, err := co.Create(t.Context(), harness.Spec{Name: "kept"})
	require.NoError(t, err)
	require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
	data, err := writeTo(v)
	require.NoError(t, err)
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	l, err := c.Layout()
	require.NoError(t, err)
	node := l.Nodes[0]

	t.Run("S12_an unmounted pool creates nothing", func(t *testing.T) { testUnmountedPool(t, c, node, v) })
	volumes := map[string]*harness.Volume{v.Name: v} // what waited for the host is created when it is back
	volumes["without its pool"] = createWhenMeasured(t, co, "without its pool")
	t.Run("S17_a reinstalled host with an old name is refused", func(t *testing.T) { testReinstalledHost(t, c, node, volumes) })

	require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
	require.NoError(t, sameData(v, data))
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	volumes["reinstalled"] = createWhenMeasured(t, co, "reinstalled")
	requireExactVolumes(t, c, volumes)
	deleteAll(t, c, co, volumes)
}

// createWhenMeasured creates a volume once the leader has measured the host's pool as it is now:
// what it measured of the filesystem in its place holds until the next poll.
func createWhenMeasured(t *testing.T, co *harness.CO, name string) (v *harness.Volume) {
	t.Helper()
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the pool to have room", func() (done bool, err error) {
		v, err = co.Create(t.Context(), harness.Spec{Name: name})
		return err == nil, err
	}))
	return v
}

// testUnmountedPool mounts an empty filesystem over the pool, as on a host that booted without its disk.
func testUnmountedPool(t *testing.T, c *harness.Cluster, node harness.Node, v *harness.Volume) {
	require.NoError(t, c.Kill(t.Context(), node.ID))
	require.NoError(t, unix.Mount("none", node.PoolDir, "tmpfs", 0, "size=64m"))
	covered := true
	t.Cleanup(func() {
		if covered { // an assertion failed before; else it would be the pool's own filesystem
			_ = unix.Unmount(node.PoolDir, unix.MNT_DETACH)
		}
	})
	require.Zero(t, c.Run(t.Context(), "dev", "start", "--dir", c.Dir, node.ID).Code)
	requireNoProgress(t, c, v, "without its pool")
	made, err := filepath.Glob(filepath.Join(node.PoolDir, "*", "*"))
	require.NoError(t, err)
	require.Empty(t, made, "something was made below the mount point of an absent pool")
	stopChild(t, c, node.ID)
	require.NoError(t, unix.Unmount(node.PoolDir, 0))
	covered = false
	require.NoError(t, c.StartChild(t.Context(), node.ID))
}

// testReinstalledHost deletes a host's data directory, which makes it another host. Its pool keeps the images that it had.
func testReinstalledHost(t *testing.T, c *harness.Cluster, node harness.Node, volumes map[string]*harness.Volume) {
	require.NoError(t, c.Kill(t.Context(), node.ID))
	require.NoError(t, os.Rename(node.DataDir, node.DataDir+".old"))
	before := len(c.ChildLog(node.ID))
	require.Zero(t, c.Run(t.Context(), "dev", "start", "--dir", c.Dir, node.ID).Code)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the host to say that it is refused", func() (bool, error) {
		return strings.Contains(c.ChildLog(node.ID)[before:], "holdfast nodes lost"), nil
	}))
	requireNoProgress(t, c, volumes["kept"], "reinstalled")
	images, err := c.Images(node.ID)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{volumes["kept"].ID, volumes["without its pool"].ID}, images)
	stopChild(t, c, node.ID)
	require.NoError(t, os.RemoveAll(node.DataDir))
	require.NoError(t, os.Rename(node.DataDir+".old", node.DataDir))
	require.NoError(t, c.StartChild(t.Context(), node.ID))
}

// stopChild kills a child, unless it exits first.
func stopChild(t *testing.T, c *harness.Cluster, id string) {
	t.Helper()
	require.NoError(t, kill(c, id))
	require.NoError(t, c.AwaitDead(t.Context(), id))
}

// requireNoProgress asserts that no volume is created or deleted while the only host is not the registered one.
// The name is one that was not asked for before.
func requireNoProgress(t *testing.T, c *harness.Cluster, v *harness.Volume, name string) {
	t.Helper()
	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	client, err := c.Controller(leader)
	require.NoError(t, err)
	_, err = client.CreateVolume(timeoutContext(t, 4*time.Second), harness.Spec{Name: name}.CreateRequest())
	require.NotEqual(t, codes.OK, logCode(t, "create", err))
	require.NotEqual(t, codes.Internal, status.Code(err))
	require.NoError(t, repeatUntilDefinite(t, "the volume", func() error {
		_, err := client.ControllerGetVolume(timeoutContext(t, 4*time.Second), &csi.ControllerGetVolumeRequest{VolumeId: v.ID})
		return err
	}), "the volume was forgotten")
}
