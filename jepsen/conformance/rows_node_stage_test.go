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
	"CSI-NODE-NodeStageVolume-01":   with(stagingIsServed),
	"CSI-NODE-NodeUnstageVolume-01": with(stagingIsServed),
	"CSI-NODE-NodeStageVolume-02": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4"))
		for range 10 {
			u.staged()
			require.Equal(k.t, 1, k.mounts(u.staging))
		}
		u.loop()
	}),
	"CSI-NODE-NodeStageVolume-03": stageRefused(codes.InvalidArgument, func(_ *use, r *stageReq) { r.VolumeId = "" }),
	"CSI-NODE-NodeStageVolume-04": stageRefused(codes.InvalidArgument, func(_ *use, r *stageReq) { r.StagingTargetPath = "" }),
	"CSI-NODE-NodeStageVolume-05": stageRefused(codes.InvalidArgument, func(_ *use, r *stageReq) { r.StagingTargetPath = "rel/path" }),
	"CSI-NODE-NodeStageVolume-06": stageRefused(codes.InvalidArgument, func(u *use, r *stageReq) { r.StagingTargetPath = u.file("occupied") }),
	"CSI-NODE-NodeStageVolume-07": with(anyPathLength),
	"CSI-NODE-NodeStageVolume-08": stageRefused(codes.InvalidArgument, func(_ *use, r *stageReq) { r.VolumeCapability = nil }),
	"CSI-NODE-NodeStageVolume-09": with(func(k *kit) {
		stageRefused(codes.FailedPrecondition, func(_ *use, r *stageReq) { r.PublishContext = nil })(k.t, k.w)
		stageRefused(codes.InvalidArgument, func(_ *use, r *stageReq) { r.PublishContext = tampered(r.PublishContext) })(k.t, k.w)
		stageRefused(codes.FailedPrecondition, func(u *use, _ *stageReq) {
			require.NoError(k.t, u.revoke(k.ctx))
			u.grant() // the request still has the former publication's context
		})(k.t, k.w)
	}),
	"CSI-NODE-NodeStageVolume-10": stageRefused(codes.InvalidArgument, func(_ *use, r *stageReq) {
		r.VolumeContext = map[string]string{"colour": "blue"}
	}),
	"CSI-NODE-NodeStageVolume-11": with(stageIsLocal),
	"CSI-NODE-NodeStageVolume-12": with(func(k *kit) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			stageRefused(codes.NotFound, func(_ *use, r *stageReq) { r.VolumeId = id })(k.t, k.w)
		}
	}),
	"CSI-NODE-NodeStageVolume-13": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		for _, other := range []*csi.VolumeCapability{blockAs(modeWriter), mountAs(modeWriter, "xfs"),
			mountAs(modeReader, "ext4"), mountAs(modeWriter, "ext4", "noatime")} {
			r := u.stageRequest()
			r.VolumeCapability = other
			refused(k.t, u.stageWith(r), codes.AlreadyExists)
		}
		require.Equal(k.t, "ext4", k.mountOf(u.staging).FSType)
	}),
	"CSI-NODE-NodeStageVolume-14": with(func(k *kit) {
		for _, beyond := range []*csi.VolumeCapability{mountAs(modeNodes, "ext4"), blockAs(modeWriter), mountAs(modeWriter, "xfs")} {
			stageRefused(codes.FailedPrecondition, func(_ *use, r *stageReq) { r.VolumeCapability = beyond })(k.t, k.w)
		}
	}),
	"CSI-NODE-NodeStageVolume-16": with(stageOfADamagedImage),
	"CSI-NODE-NodeStageVolume-17": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4"))
		for _, secrets := range []map[string]string{{"user": "u", "password": "p"}, nil, {"user": "v"}} {
			r := u.stageRequest()
			r.Secrets = secrets
			k.done(func() error { return u.stageWith(r) })
		}
		require.Equal(k.t, 1, k.mounts(u.staging))
	}),

	"CSI-NODE-NodeUnstageVolume-02": with(func(k *kit) {
		for _, how := range []*csi.VolumeCapability{mountAs(modeWriter, "ext4"), blockAs(modeWriter)} {
			u := k.uses(how)
			u.gone()
			before, err := harness.Mounts(k.w.Cluster.Mounts())
			require.NoError(k.t, err)
			u.staged().loop()
			u.unstaged()
			u.gone()
			after, err := harness.Mounts(k.w.Cluster.Mounts())
			require.NoError(k.t, err)
			require.Equal(k.t, before, after)
			require.DirExists(k.t, u.staging) // the CO's, who made it
		}
	}),
	"CSI-NODE-NodeUnstageVolume-03": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4"))
		require.NoError(k.t, u.unstageWith(k.ctx, u.staging)) // never staged
		u.staged()
		require.NoError(k.t, u.unstageWith(k.ctx, k.w.Path("elsewhere"))) // not at this path, which is missing
		require.Equal(k.t, 1, k.mounts(u.staging))
		u.unstaged()
		u.unstaged()
		require.NoError(k.t, os.Remove(u.staging))
		u.unstaged()
	}),
	"CSI-NODE-NodeUnstageVolume-04": unstageRefused(func(r *unstageReq) { r.VolumeId = "" }),
	"CSI-NODE-NodeUnstageVolume-05": unstageRefused(func(r *unstageReq) { r.StagingTargetPath = "" }),
	"CSI-NODE-NodeUnstageVolume-06": unstageRefused(func(r *unstageReq) { r.StagingTargetPath = "rel" }),
	"CSI-NODE-NodeUnstageVolume-07": with(anyPathLength),
	"CSI-NODE-NodeUnstageVolume-08": with(func(k *kit) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			_, err := k.w.Node(k.t).NodeUnstageVolume(k.ctx, &unstageReq{VolumeId: id, StagingTargetPath: k.w.Path("nothing")})
			require.NoError(k.t, err)
		}
	}),
	"CSI-NODE-NodeUnstageVolume-09": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		target := u.bound()
		refused(k.t, u.unstageWith(k.ctx, u.staging), codes.FailedPrecondition)
		k.write(target, "of a running workload")
		require.Equal(k.t, "of a running workload", k.read(u.staging))
	}),
	"CSI-NODE-NodeUnstageVolume-10": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		open, err := os.Create(filepath.Join(u.staging, "open"))
		require.NoError(k.t, err)
		defer open.Close()
		k.failed(u.unstageWith(k.ctx, u.staging))
		require.Equal(k.t, 1, k.mounts(u.staging))
		_, err = open.WriteString("still there")
		require.NoError(k.t, err)
		require.NoError(k.t, open.Close())
		u.unstaged()
		u.gone()
	}),
}

// stageRefused makes a row of a NodeStageVolume call that is right but for one thing:
// it is refused twice, mounts nothing, and without that thing it is OK.
func stageRefused(want codes.Code, change func(u *use, r *stageReq)) rowTest {
	return with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4"))
		r := u.stageRequest()
		change(u, r)
		for range 2 {
			refused(k.t, u.stageWith(r), want)
		}
		u.gone()
		u.staged()
		require.Equal(k.t, 1, k.mounts(u.staging))
	})
}

// unstageRefused makes a row of a NodeUnstageVolume call that is invalid in one field
// and leaves the volume staged.
func unstageRefused(change func(r *unstageReq)) rowTest {
	return with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		r := &unstageReq{VolumeId: u.id, StagingTargetPath: u.staging}
		change(r)
		for range 2 {
			_, err := u.node.NodeUnstageVolume(k.ctx, r)
			refused(k.t, err, codes.InvalidArgument)
		}
		require.Equal(k.t, 1, k.mounts(u.staging))
	})
}

// tampered is the same with other values.
func tampered(given map[string]string) map[string]string {
	other := map[string]string{}
	for key := range given {
		other[key] = "tampered"
	}
	return other
}

// file is a fresh path of an ordinary file.
func (u *use) file(what string) string {
	u.t.Helper()
	path := u.w.Path(what)
	require.NoError(u.t, os.WriteFile(path, []byte("of somebody else"), 0o600))
	u.t.Cleanup(func() { _ = os.Remove(path) })
	return path
}

// stagingIsServed: both calls work where STAGE_UNSTAGE_VOLUME is advertised, which is
// everywhere: a node that is told to do without does not start.
func stagingIsServed(k *kit) {
	require.Contains(k.t, k.nodeHas(k.w.Node(k.t)), csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	u := k.uses(mountAs(modeWriter, "ext4")).staged()
	require.Equal(k.t, 1, k.mounts(u.staging))
	u.unstaged()
	u.gone()
	res := k.w.Cluster.Run(k.ctx, k.loneArgs("--disable-capability=STAGE_UNSTAGE_VOLUME")...)
	require.Equal(k.t, 2, res.Code, res.Stderr)
	require.Contains(k.t, res.Stderr, "STAGE_UNSTAGE_VOLUME")
}

// anyPathLength uses a volume at paths of all lengths up to that of the system.
func anyPathLength(k *kit) {
	u := k.uses(mountAs(modeWriter, "ext4"))
	usual := u.staging
	for _, bytes := range []int{128, 129, 1024, 4095} {
		u.staging = k.longPath(bytes)
		target := k.longPath(bytes)
		u.targets = append(u.targets, target)
		require.NoError(k.t, os.Mkdir(u.staging, 0o750))
		u.staged()
		require.Equal(k.t, 1, k.mounts(u.staging), bytes)
		k.done(func() error { return u.bindWith(u.bindRequest(target)) })
		require.Equal(k.t, 1, k.mounts(target), bytes)
		k.stats(u, target)
		k.expand(u, target)
		u.unbound(target)
		require.NoFileExists(k.t, target)
		u.unstaged()
		u.gone()
	}
	u.staging = usual
}

// stageIsLocal: what is mounted is a device of the node's own pool, and no other node can stage it.
func stageIsLocal(k *kit) {
	u := k.uses(mountAs(modeWriter, "ext4"))
	other, err := k.w.Cluster.Node("n2")
	require.NoError(k.t, err)
	_, err = other.NodeStageVolume(k.ctx, u.stageRequest())
	refused(k.t, err, codes.FailedPrecondition)
	require.Zero(k.t, k.mounts(u.staging))
	u.staged()
	require.Equal(k.t, u.image(), u.loop().Backing)
	require.Equal(k.t, u.loop().Device, k.mountOf(u.staging).Source)
}

// stageOfADamagedImage: a filesystem that cannot be mounted is an error, and never
// made anew; when it is whole again its data is there.
func stageOfADamagedImage(k *kit) {
	u := k.uses(mountAs(modeWriter, "ext4")).staged()
	k.write(u.staging, "precious")
	u.unstaged()
	u.gone()
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
	u.unstaged() // gives up what the failed calls attached, and with it what was cached
	u.staged()
	require.Equal(k.t, "precious", k.read(u.staging))
}
