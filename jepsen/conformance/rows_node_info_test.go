package conformance

import (
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var nodeInfoRows = map[string]rowTest{
	"CSI-NODE-NodeGetCapabilities-01": rowOf(func(k *fixture) { require.NotEmpty(k.t, k.nodeHas(k.env.Node(k.t))) }),
	"CSI-NODE-NodeGetCapabilities-02": rowOf(func(k *fixture) {
		require.Contains(k.t, k.nodeHas(k.env.Node(k.t)), hasStats)
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		require.Positive(k.t, usageOf(k.stats(u, u.staging), csi.VolumeUsage_BYTES).GetTotal())
	}),
	"CSI-NODE-NodeGetCapabilities-03": rowOf(mountGroupIffAdvertised),
	"CSI-NODE-NodeGetCapabilities-04": rowOf(func(k *fixture) {
		const onNode, onController = csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER, csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
		for _, node := range []string{"n1", "n2"} {
			for _, controller := range []string{"c1", "c2", "c3"} {
				client := csi.NewNodeClient(k.env.Conn(k.t, node))
				require.Equal(k.t, controllerHas(onController)(k, k.env.Conn(k.t, controller)), contains(k.nodeHas(client), onNode))
			}
		}
		for _, mode := range []csi.VolumeCapability_AccessMode_Mode{modeSingle, modeMulti} {
			k.newUse(nodeMountCapability(mode, "ext4")).stage().bindTarget()
		}
	}),
	"CSI-NODE-NodeGetCapabilities-05": rowOf(func(k *fixture) {
		seen := map[csi.NodeServiceCapability_RPC_Type]bool{}
		for _, c := range k.nodeHas(k.env.Node(k.t)) {
			require.NotEqual(k.t, csi.NodeServiceCapability_RPC_UNKNOWN, c)
			require.Contains(k.t, csi.NodeServiceCapability_RPC_Type_name, int32(c))
			require.False(k.t, seen[c], "%s is there twice", c)
			seen[c] = true
		}
	}),

	"CSI-NODE-NodeGetInfo-01": rowOf(func(k *fixture) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)(k, k.env.Conn(k.t, "c1")))
		k.info("n1")
	}),
	"CSI-NODE-NodeGetInfo-02": rowOf(func(k *fixture) { require.NotEmpty(k.t, k.info("n1").GetNodeId()) }),
	"CSI-NODE-NodeGetInfo-04": rowOf(nodeIDsAreShort),
	"CSI-NODE-NodeGetInfo-05": rowOf(func(k *fixture) {
		for _, node := range []string{"n1", "n2"} {
			require.GreaterOrEqual(k.t, k.info(node).GetMaxVolumesPerNode(), int64(0))
		}
		limited, err := csi.NewNodeClient(k.isolatedNode("--max-volumes=7")).NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{}, grpc.WaitForReady(true))
		require.NoError(k.t, err)
		require.EqualValues(k.t, 7, limited.GetMaxVolumesPerNode())
	}),
	"CSI-NODE-NodeGetInfo-06": rowOf(func(k *fixture) {
		for _, id := range []string{"c1", "n1"} {
			require.True(k.t, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.env.Conn(k.t, id)))
		}
		require.Equal(k.t, "n1", k.info("n1").GetAccessibleTopology().GetSegments()[harness.TopologyKey])
		require.Equal(k.t, "n2", k.info("n2").GetAccessibleTopology().GetSegments()[harness.TopologyKey])
	}),
	"CSI-NODE-NodeGetInfo-07": rowOf(func(k *fixture) {
		first := k.info("n1")
		for range 10 {
			requireSame(k, first, k.info("n1"))
		}
		k.newUse(nodeMountCapability(modeWriter, "ext4")).stage().bindTarget() // a node without a later NodeGetInfo works as well
	}),
	"CSI-NODE-NodeGetInfo-08": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
		require.NoError(k.t, u.unpublishVolume(k.ctx))
		u.on = k.info("n1").GetNodeId()
		u.publishVolume()
		u.stage()
		_, err := k.controller.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: u.id, NodeId: u.on + "x", VolumeCapability: u.cap})
		requireRefused(k.t, err, codes.NotFound)
	}),
}

func (k *fixture) info(node string) *csi.NodeGetInfoResponse {
	k.t.Helper()
	client, err := k.env.Cluster.Node(node)
	require.NoError(k.t, err)
	res, err := client.NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{})
	require.NoError(k.t, err)
	return res
}

// nodeIDsAreShort: an id that is too long gets no certificate, or the node that has
// one does not start. The limit here is below CSI's: the id is a topology value too.
func nodeIDsAreShort(k *fixture) {
	for _, node := range []string{"n1", "n2"} {
		require.LessOrEqual(k.t, len(k.info(node).GetNodeId()), 256)
	}
	issue := func(name string) (harness.Result, string) {
		out := filepath.Join(k.t.TempDir(), "pki")
		res := k.env.Cluster.Run(k.ctx, "ca", "issue", "--ca-dir", filepath.Join(k.env.Cluster.Dir, "ca"), "--role", "node", "--name", name, "--out", out)
		return res, filepath.Join(out, "node-"+name)
	}
	res, _ := issue(strings.Repeat("n", 257))
	require.Positive(k.t, res.Code)
	for _, bytes := range []int{64, 200} {
		id := strings.Repeat("n", bytes)
		res, pki := issue(id)
		require.Zero(k.t, res.Code, res.Stderr)
		res = k.env.Cluster.Run(k.ctx, k.isolatedNodeArgs("--node-id="+id, "--cert="+pki+".crt", "--key="+pki+".key")...)
		require.Positive(k.t, res.Code, res.Stderr)
		require.Contains(k.t, res.Stderr, "must have 1 to 63 bytes")
	}
}

// mountGroupIffAdvertised: a mount group is applied where VOLUME_MOUNT_GROUP is advertised, and refused
// elsewhere, but never ignored.
func mountGroupIffAdvertised(k *fixture) {
	u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
	r := u.stageRequest()
	r.VolumeCapability = nodeMountCapability(modeWriter, "ext4")
	r.VolumeCapability.GetMount().VolumeMountGroup = "4711"
	if !contains(k.nodeHas(u.node), csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP) {
		requireRefused(k.t, u.stageWith(r), codes.InvalidArgument)
		u.stage()
		bind := u.bindRequest(u.target())
		bind.VolumeCapability = r.GetVolumeCapability()
		requireRefused(k.t, u.bindWith(bind), codes.InvalidArgument)
		return
	}
	k.untilOK(func() error { return u.stageWith(r) })
	u.cap = r.GetVolumeCapability()
	var st unix.Stat_t
	require.NoError(k.t, unix.Stat(u.bindTarget(), &st))
	require.EqualValues(k.t, 4711, st.Gid)
	require.NotZero(k.t, st.Mode&unix.S_ISGID)
}
