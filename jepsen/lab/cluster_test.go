package lab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestCluster runs Holdfast in three guests as on three hosts, with volumes on files.
func TestCluster(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Config{})
	l.MustBoot(t)
	begun := time.Now()
	c, err := l.NewCluster(t.Context(), lab.ClusterConfig{})
	require.NoError(t, err)
	t.Logf("certificates in place after %s", time.Since(begun))
	require.NoError(t, c.Start(t.Context()))
	t.Logf("ready after %s", time.Since(begun))
	for _, g := range l.Guests() {
		t.Log(g.Name(), g.MustExec(t, "free -m | sed -n 2p; ps -C holdfast -o args:20,rss,cputime --no-headers"))
	}
	testUserModeHelper(t, l.Guest(1))
	volume := createAndStage(t, c)
	t.Logf("published after %s", time.Since(begun))
	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.KillController(t.Context(), leader))
	require.NoError(t, c.KillNode(t.Context(), 1))
	require.NoError(t, c.StartController(t.Context(), leader))
	require.NoError(t, c.StartNode(t.Context(), 1))
	require.NoError(t, c.AwaitReady(t.Context()))
	t.Logf("ready again after %s", time.Since(begun))
	require.NoError(t, l.Guest(1).Crash())
	require.NoError(t, c.BootGuest(t.Context(), 1))
	require.NoError(t, c.AwaitReady(t.Context()))
	t.Logf("ready once more after %s", time.Since(begun))
	require.Equal(t, "kept\n", stage(t, c, volume, "cat"))
	t.Logf("mounted again after %s", time.Since(begun))
}

// testUserModeHelper: DRBD's handlers are started by the kernel, in the first
// namespaces and not in a process's; a crashing process makes it start one here (S13).
func testUserModeHelper(t *testing.T, g *lab.Guest) {
	t.Helper()
	g.MustExec(t, `echo '|/usr/sbin/holdfast ca make --ca-dir /run/by-the-kernel --cluster helper' >/proc/sys/kernel/core_pattern
bash -c 'kill -SEGV $$' || true`)
	lab.Await(t, time.Minute, "the kernel's helper to run holdfast", func() (bool, string) {
		out := g.MustExec(t, "ls /run/by-the-kernel 2>&1 || true")
		return strings.Contains(out, "ca.crt"), out
	})
	g.MustExec(t, "echo core >/proc/sys/kernel/core_pattern")
}

var capability = &csi.VolumeCapability{
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
}

// createAndStage makes a volume of node n1, publishes and stages it there and writes a file.
func createAndStage(t *testing.T, c *lab.Cluster) *csi.Volume {
	t.Helper()
	conn, err := c.ControllerCSI(2)
	require.NoError(t, err)
	key := nodeTopology(t, c)
	made := retry(t, "create", func(ctx context.Context) (*csi.CreateVolumeResponse, error) {
		return csi.NewControllerClient(conn).CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20}, VolumeCapabilities: []*csi.VolumeCapability{capability},
			AccessibilityRequirements: &csi.TopologyRequirement{Preferred: []*csi.Topology{{Segments: map[string]string{key: "n1"}}}},
		})
	})
	stage(t, c, made.GetVolume(), "echo kept >")
	return made.GetVolume()
}

// nodeTopology is the key of the topology that names a node.
func nodeTopology(t *testing.T, c *lab.Cluster) string {
	t.Helper()
	conn, err := c.NodeCSI(1)
	require.NoError(t, err)
	info := retry(t, "get info", func(ctx context.Context) (*csi.NodeGetInfoResponse, error) {
		return csi.NewNodeClient(conn).NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	})
	require.Equal(t, "n1", info.GetNodeId())
	for key, value := range info.GetAccessibleTopology().GetSegments() {
		if value == "n1" {
			return key
		}
	}
	return ""
}

// again makes a call as a container orchestrator does: until it has a definite answer. A
// node that was just started has no session yet, and a guest that stood still no leader.
func retry[T any](t testing.TB, what string, call func(context.Context) (T, error)) (answer T) {
	t.Helper()
	lab.Await(t, 3*time.Minute, what, func() (bool, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var err error
		answer, err = call(ctx)
		require.Contains(t, []codes.Code{codes.OK, codes.Unavailable, codes.Aborted, codes.DeadlineExceeded}, status.Code(err), "%s: %v", what, err)
		return err == nil, status.Convert(err).Message()
	})
	return answer
}

// stage publishes and stages a volume at n1, and does something with a file in it.
func stage(t *testing.T, c *lab.Cluster, v *csi.Volume, do string) string {
	t.Helper()
	controller, err := c.ControllerCSI(3)
	require.NoError(t, err)
	published := retry(t, "publish", func(ctx context.Context) (*csi.ControllerPublishVolumeResponse, error) {
		return csi.NewControllerClient(controller).ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: v.GetVolumeId(), NodeId: "n1", VolumeCapability: capability, VolumeContext: v.GetVolumeContext()})
	})
	node, err := c.NodeCSI(1)
	require.NoError(t, err)
	path := "/var/lib/kubelet/" + v.GetVolumeId()
	g := c.Lab.Guest(1)
	g.MustExec(t, "mkdir -p "+path)
	retry(t, "stage", func(ctx context.Context) (*csi.NodeStageVolumeResponse, error) {
		return csi.NewNodeClient(node).NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: path,
			VolumeCapability: capability, PublishContext: published.GetPublishContext(), VolumeContext: v.GetVolumeContext()})
	})
	return g.MustExec(t, fmt.Sprintf("findmnt -n %s >/dev/null && %s %s/file && sync -f %s", path, do, path, path))
}
