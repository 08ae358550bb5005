package conformance

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

type expandReq = csi.NodeExpandVolumeRequest

// grown is what xfs volumes of these rows are grown to: xfs grows while it is
// mounted, also for a process without CAP_SYS_RESOURCE, as ext4 does not.
const grown = 448 * harness.Mi

var nodeExpandRows = map[string]rowTest{
	"CSI-NODE-NodeExpandVolume-01": rowOf(expandIsServedIffAdvertised),
	"CSI-NODE-NodeExpandVolume-02": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "xfs")).stage()
		u.enlarge(grown)
		for range 3 {
			require.EqualValues(k.t, grown, k.expandTo(u, u.staging, grown))
		}
		require.EqualValues(k.t, grown, k.expandTo(u, u.staging, u.size)) // more than this is there already
		u.fills(u.staging)
	}),
	"CSI-NODE-NodeExpandVolume-03": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
		for _, path := range []string{u.staging, u.target()} {
			k.notThere(u, path)
		}
		u.stage()
		k.notThere(u, u.target())
		k.expand(u, u.staging)
	}),
	"CSI-NODE-NodeExpandVolume-17": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "xfs"))
		k.notThere(u, u.staging)
		u.stage()
		k.expand(u, u.staging)
	}),
	"CSI-NODE-NodeExpandVolume-04": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "xfs")).stage()
		u.enlarge(384 * harness.Mi)
		k.expandTo(u, u.staging, 384*harness.Mi) // before it is published
		u.fills(u.staging)
		target := u.bindTarget()
		u.enlarge(grown)
		k.expandTo(u, target, grown) // and after
		u.fills(target)
	}),
	"CSI-NODE-NodeExpandVolume-05": expandRefused(codes.InvalidArgument, func(_ *stagingUse, r *expandReq) { r.VolumeId = "" }),
	"CSI-NODE-NodeExpandVolume-06": expandRefused(codes.InvalidArgument, func(_ *stagingUse, r *expandReq) { r.VolumePath = "" }),
	"CSI-NODE-NodeExpandVolume-07": rowOf(anyPathLength),
	"CSI-NODE-NodeExpandVolume-08": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "xfs")).stage()
		u.enlarge(grown)
		require.EqualValues(k.t, grown, k.expand(u, u.staging))
		u.fills(u.staging)
	}),
	"CSI-NODE-NodeExpandVolume-09": expandRefused(codes.InvalidArgument, func(_ *stagingUse, r *expandReq) { r.StagingTargetPath = "rel" }),
	"CSI-NODE-NodeExpandVolume-10": rowOf(func(k *fixture) {
		raw := k.newUse(nodeBlockCapability(modeWriter)).stage()
		target := raw.bindTarget()
		raw.enlarge(32 * harness.Mi)
		for _, capability := range []*csi.VolumeCapability{nodeBlockCapability(modeWriter), nil} {
			require.EqualValues(k.t, 32*harness.Mi, k.expandWith(raw, &expandReq{VolumeId: raw.id, VolumePath: target, VolumeCapability: capability}))
		}
		require.EqualValues(k.t, 32*harness.Mi, raw.deviceSize())
		files := k.newUse(nodeMountCapability(modeWriter, "xfs")).stage()
		files.enlarge(grown)
		k.expandWith(files, &expandReq{VolumeId: files.id, VolumePath: files.staging, VolumeCapability: files.cap})
		files.fills(files.staging)
	}),
	"CSI-NODE-NodeExpandVolume-11": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "xfs")).stage()
		u.enlarge(grown)
		for _, secrets := range []map[string]string{{"user": "u"}, nil} {
			require.EqualValues(k.t, grown, k.expandWith(u, &expandReq{VolumeId: u.id, VolumePath: u.staging, Secrets: secrets}))
		}
	}),
	"CSI-NODE-NodeExpandVolume-12": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "xfs")).stage()
		require.Equal(k.t, u.deviceSize(), k.expand(u, u.staging))
		u.enlarge(grown)
		require.Equal(k.t, u.deviceSize(), k.expand(u, u.staging))
		require.EqualValues(k.t, grown, u.deviceSize())
	}),
	"CSI-NODE-NodeExpandVolume-13": rowOf(func(k *fixture) {
		for _, beyond := range []*csi.VolumeCapability{nodeMountCapability(modeNodes, "ext4"), nodeBlockCapability(modeWriter), nodeMountCapability(modeWriter, "vfat"), {}} {
			expandRefused(codes.InvalidArgument, func(_ *stagingUse, r *expandReq) { r.VolumeCapability = beyond })(k.t, k.env)
		}
	}),
	"CSI-NODE-NodeExpandVolume-14": rowOf(func(k *fixture) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			for _, path := range []string{"some/path", "/nowhere"} {
				expandRefused(codes.NotFound, func(_ *stagingUse, r *expandReq) { r.VolumeId, r.VolumePath = id, path })(k.t, k.env)
			}
		}
	}),
	"CSI-NODE-NodeExpandVolume-15": rowOf(expandOfWhatCannotGrow),
	"CSI-NODE-NodeExpandVolume-16": rowOf(func(k *fixture) {
		expandRefused(codes.OutOfRange, func(u *stagingUse, r *expandReq) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: 2 * u.size} })(k.t, k.env)
		expandRefused(codes.OutOfRange, func(u *stagingUse, r *expandReq) { r.CapacityRange = &csi.CapacityRange{LimitBytes: u.size / 2} })(k.t, k.env)
	}),
	"CSI-NODE-NodeExpandVolume-19": rowOf(func(k *fixture) {
		for _, fsType := range []string{"ext4", "xfs"} {
			u := k.newUse(nodeMountCapability(modeWriter, fsType)).stage()
			k.write(u.staging, "before it grew")
			u.unstage()
			require.NoError(k.t, u.unpublishVolume(k.ctx))
			u.enlarge(grown)
			u.publishVolume()
			u.stage()
			require.EqualValues(k.t, grown, k.expandTo(u, u.staging, grown))
			u.fills(u.staging)
			require.Equal(k.t, "before it grew", k.read(u.staging))
		}
	}),
}

// expandIsServedIffAdvertised: of no volume it is NOT_FOUND where it is served.
func expandIsServedIffAdvertised(k *fixture) {
	for conn, served := range map[*grpc.ClientConn]bool{k.env.Conn(k.t, "n1"): true, k.disabledConn("n1"): false} {
		require.Equal(k.t, served, nodeExpands(k, conn))
		want := codes.Unimplemented
		if served {
			want = codes.NotFound
		}
		_, err := csi.NewNodeClient(conn).NodeExpandVolume(k.ctx, &expandReq{VolumeId: unknownVolumeID, VolumePath: "/nowhere"})
		requireRefused(k.t, err, want)
	}
}

func nodeExpands(k *fixture, conn *grpc.ClientConn) bool {
	return contains(k.nodeHas(csi.NewNodeClient(conn)), csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
}

// enlarge grows the volume through the controllers.
func (u *stagingUse) enlarge(size int64) {
	u.t.Helper()
	u.untilOK(func() error {
		_, err := u.controller.ControllerExpandVolume(u.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: u.id, CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
		return err
	})
}

// expand grows the filesystem to the device's size and returns the answered size.
func (k *fixture) expand(u *stagingUse, path string) int64 {
	k.t.Helper()
	return k.expandWith(u, &expandReq{VolumeId: u.id, VolumePath: path})
}

func (k *fixture) expandTo(u *stagingUse, path string, size int64) int64 {
	k.t.Helper()
	return k.expandWith(u, &expandReq{VolumeId: u.id, VolumePath: path, StagingTargetPath: u.staging, CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
}

func (k *fixture) expandWith(u *stagingUse, r *expandReq) int64 {
	k.t.Helper()
	var size int64
	k.untilOK(func() error {
		res, err := u.node.NodeExpandVolume(k.ctx, r)
		size = res.GetCapacityBytes()
		return err
	})
	return size
}

// notThere: a volume that is not at a path is not expanded there.
func (k *fixture) notThere(u *stagingUse, path string) {
	k.t.Helper()
	for range 2 {
		_, err := u.node.NodeExpandVolume(k.ctx, &expandReq{VolumeId: u.id, VolumePath: path})
		requireRefused(k.t, err, codes.NotFound)
	}
}

// expandRefused makes a row of a NodeExpandVolume call that is right but for one thing.
func expandRefused(want codes.Code, change func(u *stagingUse, r *expandReq)) rowTest {
	return rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		r := &expandReq{VolumeId: u.id, VolumePath: u.staging}
		change(u, r)
		for range 2 {
			_, err := u.node.NodeExpandVolume(k.ctx, r)
			requireRefused(k.t, err, want)
		}
		require.Equal(k.t, u.size, k.expand(u, u.staging))
	})
}

// deviceSize returns the size of the volume's device in the kernel, in bytes.
func (u *stagingUse) deviceSize() int64 {
	u.t.Helper()
	raw, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(u.loop().Device), "size"))
	require.NoError(u.t, err)
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	require.NoError(u.t, err)
	return sectors * 512
}

// fills: the filesystem at a path has the device's size, less its own overhead.
func (u *stagingUse) fills(path string) {
	u.t.Helper()
	var fs unix.Statfs_t
	require.NoError(u.t, unix.Statfs(path, &fs))
	size, least := u.deviceSize(), u.deviceSize()*85/100
	if u.cap.GetMount().GetFsType() == "xfs" {
		least = size - 70*harness.Mi // its log has 64 MiB
	}
	require.Greater(u.t, int64(fs.Blocks)*fs.Bsize, least)
	require.LessOrEqual(u.t, int64(fs.Blocks)*fs.Bsize, size)
}

// expandOfWhatCannotGrow: a filesystem that is mounted read-only does not grow.
func expandOfWhatCannotGrow(k *fixture) {
	u := k.newUse(nodeMountCapability(modeWriter, "xfs")).stage()
	u.unstage()
	r := u.stageRequest()
	r.VolumeCapability = nodeMountCapability(modeWriter, "xfs", "ro")
	k.untilOK(func() error { return u.stageWith(r) })
	u.enlarge(grown)
	for range 2 {
		var err error
		require.NoError(k.t, persist(k.ctx, func() error {
			_, err = u.node.NodeExpandVolume(k.ctx, &expandReq{VolumeId: u.id, VolumePath: u.staging})
			if harness.Retriable(err) {
				return err
			}
			return nil
		}))
		requireRefused(k.t, err, codes.FailedPrecondition)
	}
}
