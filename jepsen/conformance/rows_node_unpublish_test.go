package conformance

import (
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

type unpublishReq = csi.NodeUnpublishVolumeRequest

var nodeUnpublishRows = map[string]rowTest{
	"CSI-NODE-NodeUnpublishVolume-01": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		require.NoError(k.t, u.unbindWith(k.ctx, u.bindTarget()))
	}),
	"CSI-NODE-NodeUnpublishVolume-02": rowOf(func(k *fixture) {
		for _, how := range []*csi.VolumeCapability{nodeMountCapability(modeWriter, "ext4"), nodeBlockCapability(modeWriter)} {
			u := k.newUse(how).stage()
			target := u.bindTarget()
			require.Equal(k.t, 1, k.mounts(target))
			u.requireUnbound(target)
			require.Zero(k.t, k.mounts(target))
			u.loop() // it is staged still
		}
	}),
	"CSI-NODE-NodeUnpublishVolume-03": rowOf(func(k *fixture) {
		for _, how := range []*csi.VolumeCapability{nodeMountCapability(modeWriter, "ext4"), nodeBlockCapability(modeWriter)} {
			u := k.newUse(how).stage()
			target := u.bindTarget()
			u.requireUnbound(target)
			require.NoFileExists(k.t, target)
			require.NoDirExists(k.t, target)
			target = u.bindTarget() // as after a crash between the two steps
			require.NoError(k.t, unix.Unmount(target, 0))
			u.requireUnbound(target)
			require.NoFileExists(k.t, target)
			require.NoDirExists(k.t, target)
		}
	}),
	"CSI-NODE-NodeUnpublishVolume-04": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
		require.NoError(k.t, u.unbindWith(k.ctx, u.target()))
		u.stage()
		require.NoError(k.t, u.unbindWith(k.ctx, u.target()))
		target := u.bindTarget()
		for range 3 {
			u.requireUnbound(target)
		}
		require.NoDirExists(k.t, target)
	}),
	"CSI-NODE-NodeUnpublishVolume-05": unpublishRefused(func(r *unpublishReq) { r.VolumeId = "" }),
	"CSI-NODE-NodeUnpublishVolume-06": unpublishRefused(func(r *unpublishReq) { r.TargetPath = "" }),
	"CSI-NODE-NodeUnpublishVolume-07": unpublishRefused(func(r *unpublishReq) { r.TargetPath = "rel" }),
	"CSI-NODE-NodeUnpublishVolume-08": rowOf(anyPathLength),
	"CSI-NODE-NodeUnpublishVolume-09": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeMulti, "ext4")).stage()
		first, other := u.bindTarget(), u.bindTarget()
		u.requireUnbound(first)
		require.NoDirExists(k.t, first)
		require.Equal(k.t, 1, k.mounts(other))
		k.write(other, "not touched")
		require.Equal(k.t, "not touched", k.read(u.staging))
	}),
	"CSI-NODE-NodeUnpublishVolume-10": rowOf(func(k *fixture) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			_, err := k.env.Node(k.t).NodeUnpublishVolume(k.ctx, &unpublishReq{VolumeId: id, TargetPath: k.env.Path("nothing")})
			require.NoError(k.t, err)
		}
	}),
	"CSI-NODE-NodeUnpublishVolume-11": rowOf(unpublishKeepsData),
	"CSI-NODE-NodeUnpublishVolume-13": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.bindTarget()
		open, err := os.Create(filepath.Join(target, "open"))
		require.NoError(k.t, err)
		defer open.Close()
		k.failed(u.unbindWith(k.ctx, target))
		require.Equal(k.t, 1, k.mounts(target))
		require.NoError(k.t, open.Close())
		u.requireUnbound(target)
		require.NoDirExists(k.t, target)
	}),
}

// unpublishRefused makes a row of a NodeUnpublishVolume call that is invalid in one
// field and leaves the volume bound.
func unpublishRefused(change func(r *unpublishReq)) rowTest {
	return rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.bindTarget()
		r := &unpublishReq{VolumeId: u.id, TargetPath: target}
		change(r)
		for range 2 {
			_, err := u.node.NodeUnpublishVolume(k.ctx, r)
			requireRefused(k.t, err, codes.InvalidArgument)
		}
		require.Equal(k.t, 1, k.mounts(target))
	})
}

// unpublishKeepsData: neither the volume's data nor foreign files are deleted.
func unpublishKeepsData(k *fixture) {
	u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	target := u.bindTarget()
	k.write(target, "in the volume")
	u.requireUnbound(target)
	require.NoDirExists(k.t, target)
	require.Equal(k.t, "in the volume", k.read(u.staging))

	foreign := k.env.Path("foreign")
	require.NoError(k.t, os.Mkdir(foreign, 0o750))
	defer func() { _ = os.Remove(foreign) }()
	k.write(foreign, "of somebody else")
	defer func() { _ = os.Remove(filepath.Join(foreign, "file")) }()
	_ = u.unbindWith(k.ctx, foreign) // never bound there: OK or not, nothing is deleted
	require.Equal(k.t, "of somebody else", k.read(foreign))

	target = u.bindTarget() // behind the host's back its directory is filled
	require.NoError(k.t, unix.Unmount(target, 0))
	require.NoError(k.t, harness.Poll(k.ctx, timeout, "a file below the target", func() (bool, error) {
		if err := os.MkdirAll(target, 0o750); err != nil { // the host may have removed it
			return false, err
		}
		err := os.WriteFile(filepath.Join(target, "file"), []byte("of somebody else"), 0o600)
		return err == nil, err
	}))
	_ = u.unbindWith(k.ctx, target)
	require.Equal(k.t, "of somebody else", k.read(target))
	require.NoError(k.t, os.Remove(filepath.Join(target, "file")))
	u.requireUnbound(target)
	require.Equal(k.t, "in the volume", k.read(u.staging))
}
