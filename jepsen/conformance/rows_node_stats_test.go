package conformance

import (
	"os"

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
	"CSI-NODE-NodeGetVolumeStats-01": rowOf(statsAreServedIffAdvertised),
	"CSI-NODE-NodeGetVolumeStats-02": statsRefused(codes.InvalidArgument, func(_ *stagingUse, r *statsReq) { r.VolumeId = "" }),
	"CSI-NODE-NodeGetVolumeStats-03": statsRefused(codes.InvalidArgument, func(_ *stagingUse, r *statsReq) { r.VolumePath = "" }),
	"CSI-NODE-NodeGetVolumeStats-04": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.bindTarget()
		for _, path := range []string{u.staging, target} {
			res := k.stats(u, path)
			require.Positive(k.t, usageOf(res, csi.VolumeUsage_BYTES).GetTotal())
			with, err := u.node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: u.id, VolumePath: path, StagingTargetPath: u.staging})
			require.NoError(k.t, err)
			requireSame(k, res, with)
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-05": statsRefused(codes.NotFound, func(_ *stagingUse, r *statsReq) { r.VolumePath = "some/path" }),
	"CSI-NODE-NodeGetVolumeStats-06": statsRefused(codes.InvalidArgument, func(_ *stagingUse, r *statsReq) { r.StagingTargetPath = "rel" }),
	"CSI-NODE-NodeGetVolumeStats-07": rowOf(anyPathLength),
	"CSI-NODE-NodeGetVolumeStats-08": rowOf(func(k *fixture) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			statsRefused(codes.NotFound, func(_ *stagingUse, r *statsReq) { r.VolumeId = id })(k.t, k.env)
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-09": rowOf(func(k *fixture) {
		other := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		for _, path := range []string{other.staging, k.env.Cluster.Mounts(), "/"} {
			statsRefused(codes.NotFound, func(_ *stagingUse, r *statsReq) { r.VolumePath = path })(k.t, k.env)
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-10": rowOf(func(k *fixture) {
		for _, fsType := range []string{"ext4", "xfs"} {
			u := k.newUse(nodeMountCapability(modeWriter, fsType)).stage()
			target := u.bindTarget()
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
	"CSI-NODE-NodeGetVolumeStats-11": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.bindTarget()
		require.NoError(k.t, fillFilesystem(k.ctx, target))
		full := usageOf(k.stats(u, target), csi.VolumeUsage_BYTES)
		require.GreaterOrEqual(k.t, full.GetAvailable(), int64(0)) // blocks that are kept back are not below zero
		require.Less(k.t, full.GetAvailable(), int64(64<<10))
		require.Greater(k.t, full.GetUsed(), full.GetTotal()*9/10)
		require.LessOrEqual(k.t, full.GetUsed(), full.GetTotal())
	}),
	"CSI-NODE-NodeGetVolumeStats-12": rowOf(func(k *fixture) {
		for _, how := range []*csi.VolumeCapability{nodeMountCapability(modeWriter, "ext4"), nodeBlockCapability(modeWriter)} {
			u := k.newUse(how).stage()
			var units []csi.VolumeUsage_Unit
			for _, usage := range k.stats(u, u.bindTarget()).GetUsage() {
				units = append(units, usage.GetUnit())
			}
			want := []csi.VolumeUsage_Unit{csi.VolumeUsage_BYTES}
			if how.GetBlock() == nil {
				want = append(want, csi.VolumeUsage_INODES)
			}
			require.ElementsMatch(k.t, want, units)
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-13": rowOf(func(k *fixture) {
		u := k.newUse(nodeBlockCapability(modeWriter)).stage()
		for _, path := range []string{u.bindTarget(), u.staging} {
			bytes := usageOf(k.stats(u, path), csi.VolumeUsage_BYTES)
			require.Equal(k.t, u.size, bytes.GetTotal())
			require.Zero(k.t, bytes.GetUsed())
			require.Zero(k.t, bytes.GetAvailable())
		}
	}),
	"CSI-NODE-NodeGetVolumeStats-14": rowOf(conditionFollowsTheVolume),
	"CSI-NODE-NodeGetVolumeStats-15": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.bindTarget()
		k.stats(u, target)
		require.NoError(k.t, unix.Unmount(target, 0)) // behind the host's back: below it is another filesystem
		_, err := u.node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: u.id, VolumePath: target})
		k.failed(err)
		if err := os.Remove(target); !os.IsNotExist(err) { // the host may have removed it meanwhile
			require.NoError(k.t, err)
		}
		_, err = u.node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: u.id, VolumePath: target})
		k.failed(err)
	}),
}

// stats measures a volume where it must be possible.
func (k *fixture) stats(u *stagingUse, path string) *statsRes {
	k.t.Helper()
	var res *statsRes
	k.untilOK(func() (err error) {
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
func statsRefused(want codes.Code, change func(u *stagingUse, r *statsReq)) rowTest {
	return rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		r := &statsReq{VolumeId: u.id, VolumePath: u.staging}
		change(u, r)
		for range 2 {
			_, err := u.node.NodeGetVolumeStats(k.ctx, r)
			requireRefused(k.t, err, want)
		}
		k.stats(u, u.staging)
	})
}

// statsAreServedIffAdvertised: either capability alone demands the call; without both
// it is UNIMPLEMENTED. Of no volume it is NOT_FOUND where it is served.
func statsAreServedIffAdvertised(k *fixture) {
	require.Contains(k.t, k.nodeHas(k.env.Node(k.t)), hasStats)
	require.Contains(k.t, k.nodeHas(k.env.Node(k.t)), hasCondition)
	u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	require.NotEmpty(k.t, k.stats(u, u.staging).GetUsage())
	const noStats, noCondition = "--disable-capability=GET_VOLUME_STATS", "--disable-capability=VOLUME_CONDITION"
	for _, off := range [][]string{{noStats}, {noCondition}, {noStats, noCondition}} {
		node := csi.NewNodeClient(k.isolatedNode(off...))
		has := k.nodeHas(node)
		want := codes.Unimplemented
		if len(off) == 1 {
			want = codes.NotFound
			require.True(k.t, contains(has, hasStats) != contains(has, hasCondition), has)
		}
		require.Equal(k.t, off[0] == noCondition, contains(has, hasStats))
		_, err := node.NodeGetVolumeStats(k.ctx, &statsReq{VolumeId: unknownVolumeID, VolumePath: "/nowhere"}, grpc.WaitForReady(true))
		requireRefused(k.t, err, want)
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

// conditionFollowsTheVolume: it is healthy, then its image is truncated, then it is restored.
func conditionFollowsTheVolume(k *fixture) {
	require.Contains(k.t, k.nodeHas(k.env.Node(k.t)), hasCondition)
	for _, how := range []*csi.VolumeCapability{nodeMountCapability(modeWriter, "ext4"), nodeBlockCapability(modeWriter)} {
		u := k.newUse(how).stage()
		path := u.bindTarget()
		k.awaitCondition(u, path, false)
		require.NoError(k.t, os.Truncate(u.image(), u.size/2))
		k.awaitCondition(u, path, true)
		require.NoError(k.t, os.Truncate(u.image(), u.size))
		k.awaitCondition(u, path, false)
	}
}

func (k *fixture) awaitCondition(u *stagingUse, path string, abnormal bool) {
	k.t.Helper()
	require.NoError(k.t, harness.Poll(k.ctx, timeout, "the condition", func() (bool, error) {
		c := k.stats(u, path).GetVolumeCondition()
		require.NotNil(k.t, c)
		require.NotEmpty(k.t, c.GetMessage())
		return c.GetAbnormal() == abnormal, nil
	}))
}
