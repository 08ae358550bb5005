package conformance

import (
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

type (
	statsReq = csi.NodeGetVolumeStatsRequest
	statsRes = csi.NodeGetVolumeStatsResponse
)

const (
	hasStats     = csi.NodeServiceCapability_RPC_GET_VOLUME_STATS
	hasCondition = csi.NodeServiceCapability_RPC_VOLUME_CONDITION
)

var nodeStatsRows = map[string]rowTest{
	"CSI-NODE-NodeGetVolumeStats-01": with(statsAreServedIffAdvertised),
	"CSI-NODE-NodeGetVolumeStats-02": statsRefused(codes.InvalidArgument, func(_ *use, r *statsReq) { r.VolumeId = "" }),
	"CSI-NODE-NodeGetVolumeStats-03": statsRefused(codes.InvalidArgument, func(_ *use, r *statsReq) { r.VolumePath = "" }),
	"CSI-NODE-NodeGetVolumeStats-04": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		target := u.bound()
		for _, path := range []string{u.staging, target} {
			res := k.stats(u, path)
			require.Positive(k.t, usageOf(res, csi.VolumeUsage_BYTES).GetTotal())
			with, err := u.node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: u.id, VolumePath: path, StagingTargetPath: u.staging})
			require.NoError(k.t, err)
			requireSame(k, res, with)
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-05": statsRefused(codes.NotFound, func(_ *use, r *statsReq) { r.VolumePath = "some/path" }),
	"CSI-NODE-NodeGetVolumeStats-06": statsRefused(codes.InvalidArgument, func(_ *use, r *statsReq) { r.StagingTargetPath = "rel" }),
	"CSI-NODE-NodeGetVolumeStats-07": with(anyPathLength),
	"CSI-NODE-NodeGetVolumeStats-08": with(func(k *kit) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			statsRefused(codes.NotFound, func(_ *use, r *statsReq) { r.VolumeId = id })(k.t, k.w)
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-09": with(func(k *kit) {
		other := k.uses(mountAs(modeWriter, "ext4")).staged()
		for _, path := range []string{other.staging, k.w.Cluster.Mounts(), "/"} {
			statsRefused(codes.NotFound, func(_ *use, r *statsReq) { r.VolumePath = path })(k.t, k.w)
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-10": with(func(k *kit) {
		for _, fsType := range []string{"ext4", "xfs"} {
			u := k.uses(mountAs(modeWriter, fsType)).staged()
			target := u.bound()
			k.write(target, "some of it")
			unix.Sync()
			var fs unix.Statfs_t
			require.NoError(k.t, unix.Statfs(target, &fs))
			res := k.stats(u, target)
			require.Equal(k.t, int64(fs.Blocks)*fs.Bsize, usageOf(res, csi.VolumeUsage_BYTES).GetTotal())
			require.InDelta(k.t, int64(fs.Blocks-fs.Bfree)*fs.Bsize, usageOf(res, csi.VolumeUsage_BYTES).GetUsed(), 1<<20)
			require.InDelta(k.t, int64(fs.Bavail)*fs.Bsize, usageOf(res, csi.VolumeUsage_BYTES).GetAvailable(), 1<<20)
			require.Equal(k.t, int64(fs.Files), usageOf(res, csi.VolumeUsage_INODES).GetTotal())
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-11": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		target := u.bound()
		require.NoError(k.t, eventuallyFull(k.ctx, target))
		full := usageOf(k.stats(u, target), csi.VolumeUsage_BYTES)
		require.GreaterOrEqual(k.t, full.GetAvailable(), int64(0)) // blocks that are kept back are not below zero
		require.Less(k.t, full.GetAvailable(), int64(64<<10))
		require.Greater(k.t, full.GetUsed(), full.GetTotal()*9/10)
		require.LessOrEqual(k.t, full.GetUsed(), full.GetTotal())
	}),
	"CSI-NODE-NodeGetVolumeStats-12": with(func(k *kit) {
		for _, how := range []*csi.VolumeCapability{mountAs(modeWriter, "ext4"), blockAs(modeWriter)} {
			u := k.uses(how).staged()
			var units []csi.VolumeUsage_Unit
			for _, usage := range k.stats(u, u.bound()).GetUsage() {
				units = append(units, usage.GetUnit())
			}
			want := []csi.VolumeUsage_Unit{csi.VolumeUsage_BYTES}
			if how.GetBlock() == nil {
				want = append(want, csi.VolumeUsage_INODES)
			}
			require.ElementsMatch(k.t, want, units)
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-13": with(func(k *kit) {
		u := k.uses(blockAs(modeWriter)).staged()
		for _, path := range []string{u.bound(), u.staging} {
			bytes := usageOf(k.stats(u, path), csi.VolumeUsage_BYTES)
			require.Equal(k.t, u.size, bytes.GetTotal())
			require.Zero(k.t, bytes.GetUsed())
			require.Zero(k.t, bytes.GetAvailable())
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-14": with(conditionFollowsTheVolume),
	"CSI-NODE-NodeGetVolumeStats-15": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		target := u.bound()
		k.stats(u, target)
		require.NoError(k.t, unix.Unmount(target, 0)) // behind the host's back: below it is another filesystem
		_, err := u.node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: u.id, VolumePath: target})
		k.failed(err)
		require.NoError(k.t, os.Remove(target))
		_, err = u.node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: u.id, VolumePath: target})
		k.failed(err)
	}),
}

// stats measures a volume where it must be possible.
func (k *kit) stats(u *use, path string) *statsRes {
	k.t.Helper()
	var res *statsRes
	k.done(func() (err error) {
		res, err = u.node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: u.id, VolumePath: path})
		return err
	})
	return res
}

func usageOf(res *statsRes, unit csi.VolumeUsage_Unit) *csi.VolumeUsage {
	for _, usage := range res.GetUsage() {
		if usage.GetUnit() == unit {
			return usage
		}
	}
	return nil
}

// statsRefused makes a row of a NodeGetVolumeStats call that is right but for one thing.
func statsRefused(want codes.Code, change func(u *use, r *statsReq)) rowTest {
	return with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		r := &statsReq{VolumeId: u.id, VolumePath: u.staging}
		change(u, r)
		for range 2 {
			_, err := u.node.NodeGetVolumeStats(k.ctx, r)
			refused(k.t, err, want)
		}
		k.stats(u, u.staging)
	})
}

// statsAreServedIffAdvertised: either capability alone demands the call; without both
// it is UNIMPLEMENTED. Of no volume it is NOT_FOUND where it is served.
func statsAreServedIffAdvertised(k *kit) {
	require.Contains(k.t, k.nodeHas(k.w.Node(k.t)), hasStats)
	require.Contains(k.t, k.nodeHas(k.w.Node(k.t)), hasCondition)
	u := k.uses(mountAs(modeWriter, "ext4")).staged()
	require.NotEmpty(k.t, k.stats(u, u.staging).GetUsage())
	const noStats, noCondition = "--disable-capability=GET_VOLUME_STATS", "--disable-capability=VOLUME_CONDITION"
	for _, off := range [][]string{{noStats}, {noCondition}, {noStats, noCondition}} {
		node := csi.NewNodeClient(k.loneNode(off...))
		has := k.nodeHas(node)
		want := codes.Unimplemented
		if len(off) == 1 {
			want = codes.NotFound
			require.True(k.t, contains(has, hasStats) != contains(has, hasCondition), has)
		}
		require.Equal(k.t, off[0] == noCondition, contains(has, hasStats))
		_, err := node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: unknownVolumeID, VolumePath: "/nowhere"}, grpc.WaitForReady(true))
		refused(k.t, err, want)
	}
}

func contains(all []csi.NodeServiceCapability_RPC_Type, one csi.NodeServiceCapability_RPC_Type) bool {
	for _, c := range all {
		if c == one {
			return true
		}
	}
	return false
}

// conditionFollowsTheVolume: it is healthy, then its image is cut short, then it is whole again.
func conditionFollowsTheVolume(k *kit) {
	require.Contains(k.t, k.nodeHas(k.w.Node(k.t)), hasCondition)
	for _, how := range []*csi.VolumeCapability{mountAs(modeWriter, "ext4"), blockAs(modeWriter)} {
		u := k.uses(how).staged()
		path := u.bound()
		k.awaitCondition(u, path, false)
		require.NoError(k.t, os.Truncate(u.image(), u.size/2))
		k.awaitCondition(u, path, true)
		require.NoError(k.t, os.Truncate(u.image(), u.size))
		k.awaitCondition(u, path, false)
	}
}

func (k *kit) awaitCondition(u *use, path string, abnormal bool) {
	k.t.Helper()
	require.NoError(k.t, harness.Poll(k.ctx, 5*time.Second, "the condition", func() (bool, error) {
		c := k.stats(u, path).GetVolumeCondition()
		require.NotNil(k.t, c)
		require.NotEmpty(k.t, c.GetMessage())
		return c.GetAbnormal() == abnormal, nil
	}))
}

var nodeInfoRows = map[string]rowTest{
	"CSI-NODE-NodeGetCapabilities-01": with(func(k *kit) { require.NotEmpty(k.t, k.nodeHas(k.w.Node(k.t))) }),
	"CSI-NODE-NodeGetCapabilities-02": with(func(k *kit) {
		require.Contains(k.t, k.nodeHas(k.w.Node(k.t)), hasStats)
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		require.Positive(k.t, usageOf(k.stats(u, u.staging), csi.VolumeUsage_BYTES).GetTotal())
	}),
	"CSI-NODE-NodeGetCapabilities-03": with(mountGroupIffAdvertised),
	"CSI-NODE-NodeGetCapabilities-04": with(func(k *kit) {
		const onNode, onController = csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER, csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
		for _, node := range []string{"n1", "n2"} {
			for _, controller := range []string{"c1", "c2", "c3"} {
				client := csi.NewNodeClient(k.w.Conn(k.t, node))
				require.Equal(k.t, controllerHas(onController)(k, k.w.Conn(k.t, controller)), contains(k.nodeHas(client), onNode))
			}
		}
		for _, mode := range []csi.VolumeCapability_AccessMode_Mode{modeSingle, modeMulti} {
			k.uses(mountAs(mode, "ext4")).staged().bound()
		}
	}),
	"CSI-NODE-NodeGetCapabilities-05": with(func(k *kit) {
		seen := map[csi.NodeServiceCapability_RPC_Type]bool{}
		for _, c := range k.nodeHas(k.w.Node(k.t)) {
			require.NotEqual(k.t, csi.NodeServiceCapability_RPC_UNKNOWN, c)
			require.Contains(k.t, csi.NodeServiceCapability_RPC_Type_name, int32(c))
			require.False(k.t, seen[c], "%s is there twice", c)
			seen[c] = true
		}
	}),

	"CSI-NODE-NodeGetInfo-01": with(func(k *kit) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)(k, k.w.Conn(k.t, "c1")))
		k.info("n1")
	}),
	"CSI-NODE-NodeGetInfo-02": with(func(k *kit) { require.NotEmpty(k.t, k.info("n1").GetNodeId()) }),
	"CSI-NODE-NodeGetInfo-04": with(func(k *kit) {
		require.LessOrEqual(k.t, len(k.info("n1").GetNodeId()), 256)
		res := k.w.Cluster.Run(k.ctx, k.loneArgs("--node-id="+longName(257))...)
		require.NotZero(k.t, res.Code)
		require.NotEqual(k.t, -1, res.Code, "it ran until it was killed")
	}),
	"CSI-NODE-NodeGetInfo-05": with(func(k *kit) {
		for _, node := range []string{"n1", "n2"} {
			require.GreaterOrEqual(k.t, k.info(node).GetMaxVolumesPerNode(), int64(0))
		}
		limited, err := csi.NewNodeClient(k.loneNode("--max-volumes=7")).NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{}, grpc.WaitForReady(true))
		require.NoError(k.t, err)
		require.EqualValues(k.t, 7, limited.GetMaxVolumesPerNode())
	}),
	"CSI-NODE-NodeGetInfo-06": with(func(k *kit) {
		for _, id := range []string{"c1", "n1"} {
			require.True(k.t, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.w.Conn(k.t, id)))
		}
		require.Equal(k.t, "n1", k.info("n1").GetAccessibleTopology().GetSegments()[harness.TopologyKey])
		require.Equal(k.t, "n2", k.info("n2").GetAccessibleTopology().GetSegments()[harness.TopologyKey])
	}),
	"CSI-NODE-NodeGetInfo-07": with(func(k *kit) {
		first := k.info("n1")
		for range 10 {
			requireSame(k, first, k.info("n1"))
		}
		k.uses(mountAs(modeWriter, "ext4")).staged().bound() // a node that nobody asked since works as well
	}),
	"CSI-NODE-NodeGetInfo-08": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4"))
		require.NoError(k.t, u.revoke(k.ctx))
		u.on = k.info("n1").GetNodeId()
		u.grant()
		u.staged()
		_, err := k.ctl.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: u.id, NodeId: u.on + "x", VolumeCapability: u.cap})
		refused(k.t, err, codes.NotFound)
	}),
}

func (k *kit) info(node string) *csi.NodeGetInfoResponse {
	k.t.Helper()
	client, err := k.w.Cluster.Node(node)
	require.NoError(k.t, err)
	res, err := client.NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{})
	require.NoError(k.t, err)
	return res
}

func longName(bytes int) string {
	name := make([]byte, bytes)
	for i := range name {
		name[i] = 'n'
	}
	return string(name)
}

// mountGroupIffAdvertised: a group is applied where VOLUME_MOUNT_GROUP is advertised,
// and else refused: never taken and forgotten.
func mountGroupIffAdvertised(k *kit) {
	u := k.uses(mountAs(modeWriter, "ext4"))
	r := u.stageRequest()
	r.VolumeCapability = mountAs(modeWriter, "ext4")
	r.VolumeCapability.GetMount().VolumeMountGroup = "4711"
	if !contains(k.nodeHas(u.node), csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP) {
		refused(k.t, u.stageWith(r), codes.InvalidArgument)
		u.staged()
		bind := u.bindRequest(u.target())
		bind.VolumeCapability = r.GetVolumeCapability()
		refused(k.t, u.bindWith(bind), codes.InvalidArgument)
		return
	}
	k.done(func() error { return u.stageWith(r) })
	u.cap = r.GetVolumeCapability()
	var st unix.Stat_t
	require.NoError(k.t, unix.Stat(u.bound(), &st))
	require.EqualValues(k.t, 4711, st.Gid)
	require.NotZero(k.t, st.Mode&unix.S_ISGID)
}
