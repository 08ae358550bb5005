package conformance

import (
	"context"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// nodeReclaimRows are those of volumes that are staged.
var nodeReclaimRows = map[string]rowTest{
	"ADD-RS-NodeReclaimSpace-01": rowServedIffAt("n1", addonsHas(reclaimCapability(identity.Capability_ReclaimSpace_ONLINE)), func(k *fixture, conn *grpc.ClientConn) error {
		_, err := reclaimspace.NewReclaimSpaceNodeClient(conn).NodeReclaimSpace(k.ctx, &nodeReclaimRequest{VolumeId: unknownVolumeID, VolumePath: "/nowhere"})
		return ignoreCode(err, codes.NotFound)
	}),
	"ADD-RS-NodeReclaimSpace-02": rowOf(stagedIsFreed),
	"ADD-RS-NodeReclaimSpace-04": rowOf(stagedIsFreed),
	"ADD-RS-NodeReclaimSpace-13": rowOf(stagedIsFreed),
	"ADD-RS-NodeReclaimSpace-03": rowOf(func(k *fixture) {
		stagedIsFreed(k)
		rawIsMeasured(k)
	}),
	"ADD-RS-NodeReclaimSpace-11": rowOf(rawIsMeasured),
	"ADD-RS-NodeReclaimSpace-05": nodeReclaimRefused(codes.InvalidArgument, func(_ *stagingUse, r *nodeReclaimRequest) { r.VolumeId = "" }),
	"ADD-RS-NodeReclaimSpace-06": nodeReclaimRefused(codes.InvalidArgument, func(_ *stagingUse, r *nodeReclaimRequest) { r.VolumePath, r.StagingTargetPath = "", "" }),
	"ADD-RS-NodeReclaimSpace-08": nodeReclaimRefused(codes.InvalidArgument, func(_ *stagingUse, r *nodeReclaimRequest) { r.StagingTargetPath = "rel" }),
	"ADD-RS-NodeReclaimSpace-14": rowOf(func(k *fixture) {
		nodeReclaimRefused(codes.InvalidArgument, func(_ *stagingUse, r *nodeReclaimRequest) { r.VolumeId = "" })(k.t, k.env)
		nodeReclaimRefused(codes.InvalidArgument, func(_ *stagingUse, r *nodeReclaimRequest) { r.VolumePath, r.StagingTargetPath = "", "" })(k.t, k.env)
	}),
	"ADD-RS-NodeReclaimSpace-07": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		for _, bytes := range []int{128, 1024, 4095} {
			target := k.longPath(bytes)
			u.targets = append(u.targets, target)
			k.untilOK(func() error { return u.bindWith(u.bindRequest(target)) })
			k.nodeReclaimed(u.reclaimRequest(target))
			u.requireUnbound(target)
		}
	}),
	"ADD-RS-NodeReclaimSpace-09": rowOf(func(k *fixture) {
		for _, bytes := range []int{128, 4095} {
			u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
			require.NoError(k.t, os.Remove(u.staging))
			u.staging = k.longPath(bytes)
			require.NoError(k.t, os.MkdirAll(u.staging, 0o750))
			u.stage()
			k.nodeReclaimed(u.reclaimRequest("")) // as the client of Kubernetes does
			u.unstage()
			require.NoError(k.t, u.cleanUp(k.ctx))
		}
	}),
	"ADD-RS-NodeReclaimSpace-10": rowOf(func(k *fixture) {
		filesystem, target := k.stagedVolume()
		raw, device, _ := k.rawUse()
		for _, c := range []*csi.VolumeCapability{nil, filesystem.cap} {
			r := filesystem.reclaimRequest(target)
			r.VolumeCapability = c
			require.NotNil(k.t, k.nodeReclaimed(r).GetPostUsage())
		}
		for _, c := range []*csi.VolumeCapability{nil, raw.cap} {
			r := raw.reclaimRequest(device)
			r.VolumeCapability = c
			require.NotNil(k.t, k.nodeReclaimed(r).GetPostUsage())
		}
		r := filesystem.reclaimRequest(target)
		r.VolumeCapability = raw.cap
		_, err := k.nodeReclaim(k.ctx, r)
		requireRefused(k.t, err, codes.InvalidArgument)
	}),
	"ADD-RS-NodeReclaimSpace-12": rowOf(func(k *fixture) {
		const canary = "canary-0b8842-trim"
		u, target := k.stagedVolume()
		for _, secrets := range []map[string]string{nil, {"password": canary}} {
			r := u.reclaimRequest(target)
			r.Secrets = secrets
			k.nodeReclaimed(r)
		}
		for _, key := range []string{"password", "not allowed"} {
			_, err := k.nodeReclaim(k.ctx, &nodeReclaimRequest{VolumeId: unknownVolumeID, VolumePath: "/nowhere", Secrets: map[string]string{key: canary}})
			require.Error(k.t, err)
			require.NotContains(k.t, err.Error(), canary)
		}
		k.requireNotOnDisk(canary)
	}),
	"ADD-RS-NodeReclaimSpace-15": rowOf(func(k *fixture) {
		nodeReclaimRefused(codes.NotFound, func(_ *stagingUse, r *nodeReclaimRequest) { r.VolumeId = unknownVolumeID })(k.t, k.env)
		nodeReclaimRefused(codes.NotFound, func(_ *stagingUse, r *nodeReclaimRequest) { r.VolumeId = "of another form" })(k.t, k.env)
		nodeReclaimRefused(codes.NotFound, func(u *stagingUse, r *nodeReclaimRequest) { r.VolumePath = u.target() })(k.t, k.env)
		other := k.volume().ID // it exists, and is not here
		_, err := k.nodeReclaim(k.ctx, &nodeReclaimRequest{VolumeId: other, VolumePath: k.env.Path("nowhere")})
		requireRefused(k.t, err, codes.NotFound)
	}),
	"ADD-RS-NodeReclaimSpace-16": rowOf(nodeReclaimIsPending),
	"ADD-RS-NodeReclaimSpace-17": withWrongToken("n1", func(k *fixture, conn *grpc.ClientConn, secrets map[string]string) error {
		_, err := reclaimspace.NewReclaimSpaceNodeClient(conn).NodeReclaimSpace(k.ctx, &nodeReclaimRequest{VolumeId: unknownVolumeID, VolumePath: "/nowhere", Secrets: secrets})
		return err
	}),
	"ADD-RS-NodeReclaimSpace-19": rowOf(func(k *fixture) {
		u, target := k.stagedVolume()
		k.writeAndDelete(target)
		for wait := time.Millisecond; wait < 20*time.Millisecond; wait *= 2 {
			brief, cancel := context.WithTimeout(k.ctx, wait)
			_, _ = k.nodeReclaim(brief, u.reclaimRequest(target)) // interrupted somewhere
			cancel()
		}
		k.nodeReclaimed(u.reclaimRequest(target))
		for range 2 {
			again := k.nodeReclaimed(u.reclaimRequest(target))
			require.Equal(k.t, again.GetPreUsage().GetUsageBytes(), again.GetPostUsage().GetUsageBytes())
		}
		require.Equal(k.t, "beside", k.read(target))
	}),
}

// stagedIsFreed: what was deleted is back in the pool, by each path of the volume.
func stagedIsFreed(k *fixture) {
	u, target := k.stagedVolume()
	for _, path := range []string{target, u.staging, ""} {
		k.writeAndDelete(target)
		before := k.occupied(u.id)
		res := k.nodeReclaimed(u.reclaimRequest(path))
		k.requireFreed(u.id, before, res.GetPreUsage(), res.GetPostUsage())
		require.Equal(k.t, "beside", k.read(target))
	}
}

// rawIsMeasured: of a raw volume, nothing is discarded.
func rawIsMeasured(k *fixture) {
	u, target, sum := k.rawUse()
	before := k.occupied(u.id)
	res := k.nodeReclaimed(u.reclaimRequest(target))
	require.Equal(k.t, before, res.GetPreUsage().GetUsageBytes())
	require.Equal(k.t, before, res.GetPostUsage().GetUsageBytes())
	require.Equal(k.t, before, k.occupied(u.id))
	require.Equal(k.t, sum, k.sumOf(u.id))
}

// nodeReclaimRefused makes a row of a changed request of a staged volume that is refused, twice.
func nodeReclaimRefused(want codes.Code, change func(u *stagingUse, r *nodeReclaimRequest)) rowTest {
	return rowOf(func(k *fixture) {
		u, target := k.stagedVolume()
		r := u.reclaimRequest(target)
		change(u, r)
		for range 2 {
			_, err := k.nodeReclaim(k.ctx, r)
			requireRefused(k.t, err, want)
		}
		k.nodeReclaimed(u.reclaimRequest(target))
	})
}

// nodeReclaimIsPending: while the volume's filesystem is being grown, which the frozen filesystem keeps from ending, a
// reclaim is ABORTED; afterwards it is done.
func nodeReclaimIsPending(k *fixture) {
	u := k.newUse(nodeMountCapability(modeWriter, "xfs")).stage()
	u.enlarge(grown)
	root, err := os.Open(u.staging)
	require.NoError(k.t, err)
	defer root.Close()
	require.NoError(k.t, unix.IoctlSetInt(int(root.Fd()), fiFreeze, 0))
	thawed := false
	thaw := func() {
		if !thawed {
			thawed = unix.IoctlSetInt(int(root.Fd()), fiThaw, 0) == nil
		}
	}
	defer thaw()
	expand := func(ctx context.Context) error {
		_, err := u.node.NodeExpandVolume(ctx, &expandReq{VolumeId: u.id, VolumePath: u.staging})
		return err
	}
	k.requireAborted(expand)
	for range 2 {
		k.requireAborted(func(ctx context.Context) error {
			_, err := k.nodeReclaim(ctx, u.reclaimRequest(u.staging))
			return err
		})
	}
	thaw()
	require.True(k.t, thawed)
	require.NoError(k.t, retried(k.ctx, expand))
	k.nodeReclaimed(u.reclaimRequest(u.staging))
}
