package conformance

import (
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

type (
	stageReq   = csi.NodeStageVolumeRequest
	unstageReq = csi.NodeUnstageVolumeRequest
)

var nodeStageRows = map[string]rowTest{
	"CSI-NODE-NodeStageVolume-01":   rowOf(stagingIsServed),
	"CSI-NODE-NodeUnstageVolume-01": rowOf(stagingIsServed),
	"CSI-NODE-NodeStageVolume-02": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
		for range 10 {
			u.stage()
			require.Equal(k.t, 1, k.mounts(u.staging))
		}
		u.loop()
	}),
	"CSI-NODE-NodeStageVolume-03": stageRefused(codes.InvalidArgument, func(_ *stagingUse, r *stageReq) { r.VolumeId = "" }),
	"CSI-NODE-NodeStageVolume-04": stageRefused(codes.InvalidArgument, func(_ *stagingUse, r *stageReq) { r.StagingTargetPath = "" }),
	"CSI-NODE-NodeStageVolume-05": stageRefused(codes.InvalidArgument, func(_ *stagingUse, r *stageReq) { r.StagingTargetPath = "rel/path" }),
	"CSI-NODE-NodeStageVolume-06": stageRefused(codes.InvalidArgument, func(u *stagingUse, r *stageReq) { r.StagingTargetPath = u.file("occupied") }),
	"CSI-NODE-NodeStageVolume-07": rowOf(anyPathLength),
	"CSI-NODE-NodeStageVolume-08": stageRefused(codes.InvalidArgument, func(_ *stagingUse, r *stageReq) { r.VolumeCapability = nil }),
	"CSI-NODE-NodeStageVolume-09": rowOf(func(k *fixture) {
		stageRefused(codes.FailedPrecondition, func(_ *stagingUse, r *stageReq) { r.PublishContext = nil })(k.t, k.env)
		stageRefused(codes.InvalidArgument, func(_ *stagingUse, r *stageReq) { r.PublishContext = withDamagedImage(r.PublishContext) })(k.t, k.env)
		stageRefused(codes.FailedPrecondition, func(u *stagingUse, _ *stageReq) {
			require.NoError(k.t, u.unpublishVolume(k.ctx))
			u.publishVolume() // the request still has the former publication's context
		})(k.t, k.env)
	}),
	"CSI-NODE-NodeStageVolume-10": stageRefused(codes.InvalidArgument, func(_ *stagingUse, r *stageReq) {
		r.VolumeContext = map[string]string{"colour": "blue"}
	}),
	"CSI-NODE-NodeStageVolume-11": rowOf(stageIsLocal),
	"CSI-NODE-NodeStageVolume-12": rowOf(func(k *fixture) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			stageRefused(codes.NotFound, func(_ *stagingUse, r *stageReq) { r.VolumeId = id })(k.t, k.env)
		}
	}),
	"CSI-NODE-NodeStageVolume-13": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		for _, other := range []*csi.VolumeCapability{nodeBlockCapability(modeWriter), nodeMountCapability(modeWriter, "xfs"),
			nodeMountCapability(modeReader, "ext4"), nodeMountCapability(modeWriter, "ext4", "noatime")} {
			r := u.stageRequest()
			r.VolumeCapability = other
			requireRefused(k.t, u.stageWith(r), codes.AlreadyExists)
		}
		require.Equal(k.t, "ext4", k.mountOf(u.staging).FSType)
	}),
	"CSI-NODE-NodeStageVolume-14": rowOf(func(k *fixture) {
		for _, beyond := range []*csi.VolumeCapability{nodeMountCapability(modeNodes, "ext4"), nodeBlockCapability(modeWriter), nodeMountCapability(modeWriter, "xfs")} {
			stageRefused(codes.FailedPrecondition, func(_ *stagingUse, r *stageReq) { r.VolumeCapability = beyond })(k.t, k.env)
		}
	}),
	"CSI-NODE-NodeStageVolume-16": rowOf(stageOfADamagedImage),
	"CSI-NODE-NodeStageVolume-17": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
		for _, secrets := range []map[string]string{{"user": "u", "password": "p"}, nil, {"user": "v"}} {
			r := u.stageRequest()
			r.Secrets = secrets
			k.untilOK(func() error { return u.stageWith(r) })
		}
		require.Equal(k.t, 1, k.mounts(u.staging))
	}),

	"CSI-NODE-NodeUnstageVolume-02": rowOf(func(k *fixture) {
		for _, how := range []*csi.VolumeCapability{nodeMountCapability(modeWriter, "ext4"), nodeBlockCapability(modeWriter)} {
			u := k.newUse(how)
			u.requireDetached()
			before, err := harness.Mounts(k.env.Cluster.Mounts())
			require.NoError(k.t, err)
			u.stage().loop()
			u.unstage()
			u.requireDetached()
			after, err := harness.Mounts(k.env.Cluster.Mounts())
			require.NoError(k.t, err)
			require.Equal(k.t, before, after)
			require.DirExists(k.t, u.staging) // the CO's, who made it
		}
	}),
	"CSI-NODE-NodeUnstageVolume-03": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
		require.NoError(k.t, u.unstageWith(k.ctx, u.staging)) // never staged
		u.stage()
		require.NoError(k.t, u.unstageWith(k.ctx, k.env.Path("elsewhere"))) // not at this path, which is missing
		require.Equal(k.t, 1, k.mounts(u.staging))
		u.unstage()
		u.unstage()
		require.NoError(k.t, os.Remove(u.staging))
		u.unstage()
	}),
	"CSI-NODE-NodeUnstageVolume-04": unstageRefused(func(r *unstageReq) { r.VolumeId = "" }),
	"CSI-NODE-NodeUnstageVolume-05": unstageRefused(func(r *unstageReq) { r.StagingTargetPath = "" }),
	"CSI-NODE-NodeUnstageVolume-06": unstageRefused(func(r *unstageReq) { r.StagingTargetPath = "rel" }),
	"CSI-NODE-NodeUnstageVolume-07": rowOf(anyPathLength),
	"CSI-NODE-NodeUnstageVolume-08": rowOf(func(k *fixture) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			_, err := k.env.Node(k.t).NodeUnstageVolume(k.ctx, &unstageReq{VolumeId: id, StagingTargetPath: k.env.Path("nothing")})
			require.NoError(k.t, err)
		}
	}),
	"CSI-NODE-NodeUnstageVolume-09": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.bindTarget()
		requireRefused(k.t, u.unstageWith(k.ctx, u.staging), codes.FailedPrecondition)
		k.write(target, "of a running workload")
		require.Equal(k.t, "of a running workload", k.read(u.staging))
	}),
	"CSI-NODE-NodeUnstageVolume-10": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		open, err := os.Create(filepath.Join(u.staging, "open"))
		require.NoError(k.t, err)
		defer open.Close()
		k.failed(u.unstageWith(k.ctx, u.staging))
		require.Equal(k.t, 1, k.mounts(u.staging))
		_, err = open.WriteString("still there")
		require.NoError(k.t, err)
		require.NoError(k.t, open.Close())
		u.unstage()
		u.requireDetached()
	}),
}

// stageRefused makes a row of a NodeStageVolume call that is right but for one thing:
// it is refused twice, mounts nothing, and without that thing it is OK.
func stageRefused(want codes.Code, change func(u *stagingUse, r *stageReq)) rowTest {
	return rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
		r := u.stageRequest()
		change(u, r)
		for range 2 {
			requireRefused(k.t, u.stageWith(r), want)
		}
		u.requireDetached()
		u.stage()
		require.Equal(k.t, 1, k.mounts(u.staging))
	})
}

// unstageRefused makes a row of a NodeUnstageVolume call that is invalid in one field
// and leaves the volume staged.
func unstageRefused(change func(r *unstageReq)) rowTest {
	return rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		r := &unstageReq{VolumeId: u.id, StagingTargetPath: u.staging}
		change(r)
		for range 2 {
			_, err := u.node.NodeUnstageVolume(k.ctx, r)
			requireRefused(k.t, err, codes.InvalidArgument)
		}
		require.Equal(k.t, 1, k.mounts(u.staging))
	})
}

// withDamagedImage is the same with other values.
func withDamagedImage(given map[string]string) map[string]string {
	other := map[string]string{}
	for key := range given {
		other[key] = "tampered"
	}
	return other
}

// file is a fresh path of an ordinary file.
func (u *stagingUse) file(what string) string {
	u.t.Helper()
	path := u.env.Path(what)
	require.NoError(u.t, os.WriteFile(path, []byte("of somebody else"), 0o600))
	u.t.Cleanup(func() { _ = os.Remove(path) })
	return path
}

// stagingIsServed: both calls work where STAGE_UNSTAGE_VOLUME is advertised, which is
// everywhere: a node with it disabled does not start.
func stagingIsServed(k *fixture) {
	require.Contains(k.t, k.nodeHas(k.env.Node(k.t)), csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	require.Equal(k.t, 1, k.mounts(u.staging))
	u.unstage()
	u.requireDetached()
	res := k.env.Cluster.Run(k.ctx, k.isolatedNodeArgs("--disable-capability=STAGE_UNSTAGE_VOLUME")...)
	require.Equal(k.t, 2, res.Code, res.Stderr)
	require.Contains(k.t, res.Stderr, "STAGE_UNSTAGE_VOLUME")
}

// anyPathLength uses a volume at paths of all lengths up to that of the system.
func anyPathLength(k *fixture) {
	u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
	usual := u.staging
	for _, bytes := range []int{128, 129, 1024, 4095} {
		u.staging = k.longPath(bytes)
		target := k.longPath(bytes)
		u.targets = append(u.targets, target)
		require.NoError(k.t, os.Mkdir(u.staging, 0o750))
		u.stage()
		require.Equal(k.t, 1, k.mounts(u.staging), bytes)
		k.untilOK(func() error { return u.bindWith(u.bindRequest(target)) })
		require.Equal(k.t, 1, k.mounts(target), bytes)
		k.stats(u, target)
		k.expand(u, target)
		u.requireUnbound(target)
		require.NoFileExists(k.t, target)
		u.unstage()
		u.requireDetached()
	}
	u.staging = usual
}

// stageIsLocal: what is mounted is a device of the node's own pool, and no other node can stage it.
func stageIsLocal(k *fixture) {
	u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
	other, err := k.env.Cluster.Node("n2")
	require.NoError(k.t, err)
	_, err = other.NodeStageVolume(k.ctx, u.stageRequest())
	requireRefused(k.t, err, codes.FailedPrecondition)
	require.Zero(k.t, k.mounts(u.staging))
	u.stage()
	require.Equal(k.t, u.image(), u.loop().Backing)
	require.Equal(k.t, u.loop().Device, k.mountOf(u.staging).Source)
}

// stageOfADamagedImage: a filesystem that cannot be mounted is an error, and never
// made anew; when it is restored its data is there.
func stageOfADamagedImage(k *fixture) {
	u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	k.write(u.staging, "precious")
	u.unstage()
	u.requireDetached()
	f, err := os.OpenFile(u.image(), os.O_RDWR, 0)
	require.NoError(k.t, err)
	defer f.Close()
	whole, harm := make([]byte, 64<<10), make([]byte, 64<<10)
	_, err = f.ReadAt(whole, 0)
	require.NoError(k.t, err)
	_, err = f.WriteAt(harm, 0)
	require.NoError(k.t, err)
	for range 2 {
		k.failed(u.stageWith(u.stageRequest()))
		require.Zero(k.t, k.mounts(u.staging))
	}
	_, err = f.WriteAt(whole, 0)
	require.NoError(k.t, err)
	require.NoError(k.t, f.Sync())
	u.unstage() // gives up what the failed calls attached, and with it what was cached
	u.stage()
	require.Equal(k.t, "precious", k.read(u.staging))
}
