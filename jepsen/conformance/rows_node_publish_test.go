package conformance

import (
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

type publishReq = csi.NodePublishVolumeRequest

var nodePublishRows = map[string]rowTest{
	"CSI-NODE-NodePublishVolume-01": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		require.Equal(k.t, 1, k.mounts(u.bindTarget()))
	}),
	"CSI-NODE-NodePublishVolume-02": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.target()
		for range 10 {
			k.untilOK(func() error { return u.bindWith(u.bindRequest(target)) })
			require.Equal(k.t, 1, k.mounts(target))
		}
	}),
	"CSI-NODE-NodePublishVolume-03": publishRefused(codes.InvalidArgument, func(_ *stagingUse, r *publishReq) { r.VolumeId = "" }),
	"CSI-NODE-NodePublishVolume-04": publishRefused(codes.InvalidArgument, func(_ *stagingUse, r *publishReq) { r.TargetPath = "" }),
	"CSI-NODE-NodePublishVolume-05": publishRefused(codes.InvalidArgument, func(_ *stagingUse, r *publishReq) { r.TargetPath = "rel" }),
	"CSI-NODE-NodePublishVolume-06": rowOf(anyPathLength),
	"CSI-NODE-NodePublishVolume-07": publishRefused(codes.InvalidArgument, func(_ *stagingUse, r *publishReq) {
		r.VolumeCapability, r.StagingTargetPath = nil, ""
	}),
	"CSI-NODE-NodePublishVolume-08": publishRefused(codes.FailedPrecondition, func(_ *stagingUse, r *publishReq) { r.StagingTargetPath = "" }),
	"CSI-NODE-NodePublishVolume-24": rowOf(func(k *fixture) {
		require.Contains(k.t, k.nodeHas(k.env.Node(k.t)), csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
		publishRefused(codes.FailedPrecondition, func(_ *stagingUse, r *publishReq) { r.StagingTargetPath = "" })(k.t, k.env)
	}),
	"CSI-NODE-NodePublishVolume-09": publishRefused(codes.InvalidArgument, func(_ *stagingUse, r *publishReq) { r.StagingTargetPath = "rel" }),
	"CSI-NODE-NodePublishVolume-10": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4"))
		target := u.target()
		for range 2 {
			requireRefused(k.t, u.bindWith(u.bindRequest(target)), codes.FailedPrecondition)
		}
		require.NoFileExists(k.t, target)
		u.stage()
		k.untilOK(func() error { return u.bindWith(u.bindRequest(target)) })
	}),
	"CSI-NODE-NodePublishVolume-11": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		parent := k.env.Path("parent")
		orphan := filepath.Join(parent, "target")
		u.targets = append(u.targets, orphan)
		k.failed(u.bindWith(u.bindRequest(orphan)))
		require.NoDirExists(k.t, parent)
		require.NoError(k.t, u.unbindWith(k.ctx, orphan))
		target := u.target()
		require.NoDirExists(k.t, target)
		k.untilOK(func() error { return u.bindWith(u.bindRequest(target)) })
		require.DirExists(k.t, target)
	}),
	"CSI-NODE-NodePublishVolume-12": rowOf(func(k *fixture) {
		u := k.newUse(nodeBlockCapability(modeWriter)).stage()
		target := u.bindTarget()
		var st, device unix.Stat_t
		require.NoError(k.t, unix.Stat(target, &st))
		require.NoError(k.t, unix.Stat(u.loop().Device, &device))
		require.Equal(k.t, uint32(unix.S_IFBLK), st.Mode&unix.S_IFMT)
		require.Equal(k.t, device.Rdev, st.Rdev)
		require.Equal(k.t, 1, k.mounts(target))
		require.NoError(k.t, os.WriteFile(target, []byte("raw"), 0))
	}),
	"CSI-NODE-NodePublishVolume-13": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.bindTarget()
		m := k.mountOf(target)
		require.Equal(k.t, []string{"ext4", "/", u.loop().Device}, []string{m.FSType, m.Root, m.Source})
		k.write(target, "by the workload")
		require.Equal(k.t, "by the workload", k.read(u.staging))
	}),
	"CSI-NODE-NodePublishVolume-14": rowOf(publishReadOnly),
	"CSI-NODE-NodePublishVolume-15": publishRefused(codes.InvalidArgument, func(_ *stagingUse, r *publishReq) {
		r.VolumeContext = map[string]string{"colour": "blue"}
	}),
	"CSI-NODE-NodePublishVolume-16": rowOf(func(k *fixture) { publishWithSecrets(k, map[string]string{"user": "v", "password": "q"}) }),
	"CSI-NODE-NodePublishVolume-23": rowOf(func(k *fixture) { publishWithSecrets(k, nil) }),
	"CSI-NODE-NodePublishVolume-17": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		first := u.bindTarget()
		second := u.bindRequest(u.target())
		second.VolumeCapability = nodeBlockCapability(modeWriter)
		requireRefused(k.t, u.bindWith(second), codes.FailedPrecondition)
		require.NoFileExists(k.t, second.GetTargetPath())
		second.TargetPath = first
		requireRefused(k.t, u.bindWith(second), codes.AlreadyExists)
		require.Equal(k.t, 1, k.mounts(first))
	}),
	"CSI-NODE-NodePublishVolume-18": rowOf(func(k *fixture) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			publishRefused(codes.NotFound, func(_ *stagingUse, r *publishReq) { r.VolumeId = id })(k.t, k.env)
		}
	}),
	"CSI-NODE-NodePublishVolume-19": rowOf(func(k *fixture) {
		for _, first := range []bool{false, true} {
			u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
			r := u.bindRequest(u.target())
			r.Readonly = first
			k.untilOK(func() error { return u.bindWith(r) })
			r.Readonly = !first
			for range 2 {
				requireRefused(k.t, u.bindWith(r), codes.AlreadyExists)
			}
			require.Equal(k.t, first, readOnlyMount(k.mountOf(r.GetTargetPath())))
		}
	}),
	"CSI-NODE-NodePublishVolume-20": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeSingle, "ext4")).stage()
		r := u.bindRequest(u.target())
		for _, mode := range []csi.VolumeCapability_AccessMode_Mode{modeMulti, modeWriter, modeNodes} {
			r.VolumeCapability = nodeMountCapability(mode, "ext4")
			requireRefused(k.t, u.bindWith(r), codes.FailedPrecondition)
		}
		require.NoFileExists(k.t, r.GetTargetPath())
	}),
	"CSI-NODE-NodePublishVolume-21": rowOf(func(k *fixture) {
		require.Contains(k.t, k.nodeHas(k.env.Node(k.t)), csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
		for _, made := range []csi.VolumeCapability_AccessMode_Mode{modeWriter, modeMulti} {
			u := k.newUse(nodeMountCapability(made, "ext4"))
			require.NoError(k.t, u.unpublishVolume(k.ctx))
			u.cap = nodeMountCapability(modeWriter, "ext4")
			u.publishVolume()
			k.write(u.stage().bindTarget(), "as ever")
		}
	}),
	"CSI-NODE-NodePublishVolume-22": rowOf(publishWhereItCannotBe),
	"CSI-NODE-NodePublishVolume-25": rowOf(func(k *fixture) {
		publishRefused(codes.FailedPrecondition, func(_ *stagingUse, r *publishReq) { r.PublishContext = nil })(k.t, k.env)
		publishRefused(codes.InvalidArgument, func(_ *stagingUse, r *publishReq) { r.PublishContext = withDamagedImage(r.PublishContext) })(k.t, k.env)
	}),
}

// publishRefused makes a row of a NodePublishVolume call that is right but for one
// thing: it is refused twice, leaves nothing, and without that thing it is OK.
func publishRefused(want codes.Code, change func(u *stagingUse, r *publishReq)) rowTest {
	return rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.target()
		r := u.bindRequest(target)
		change(u, r)
		for range 2 {
			requireRefused(k.t, u.bindWith(r), want)
		}
		require.NoFileExists(k.t, target)
		k.untilOK(func() error { return u.bindWith(u.bindRequest(target)) })
		require.Equal(k.t, 1, k.mounts(target))
	})
}

// publishReadOnly: nothing can be written, neither to a filesystem nor to a device.
func publishReadOnly(k *fixture) {
	files := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	r := files.bindRequest(files.target())
	r.Readonly = true
	k.untilOK(func() error { return files.bindWith(r) })
	require.ErrorIs(k.t, os.WriteFile(filepath.Join(r.GetTargetPath(), "file"), nil, 0o600), unix.EROFS)
	require.True(k.t, readOnlyMount(k.mountOf(r.GetTargetPath())))

	raw := k.newUse(nodeBlockCapability(modeWriter)).stage()
	r = raw.bindRequest(raw.target())
	r.Readonly = true
	k.untilOK(func() error { return raw.bindWith(r) })
	f, err := os.OpenFile(r.GetTargetPath(), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write(make([]byte, 512))
		require.NoError(k.t, f.Close())
	}
	require.Error(k.t, err)
}

// publishWithSecrets publishes with secrets, and again at the same path with others.
func publishWithSecrets(k *fixture, others map[string]string) {
	u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	r := u.bindRequest(u.target())
	for _, secrets := range []map[string]string{{"user": "u", "password": "p"}, others} {
		r.Secrets = secrets
		k.untilOK(func() error { return u.bindWith(r) })
		require.Equal(k.t, 1, k.mounts(r.GetTargetPath()))
	}
	plain := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	require.Equal(k.t, 1, k.mounts(plain.bindTarget()))
}

// publishWhereItCannotBe: an existing target of another kind is an error, and is not changed. When it is
// removed the volume can be used.
func publishWhereItCannotBe(k *fixture) {
	u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	file, link := u.file("occupied"), k.env.Path("link")
	require.NoError(k.t, os.Symlink(k.t.TempDir(), link))
	defer func() { _ = os.Remove(link) }()
	for _, occupied := range []string{file, link} {
		before, err := os.Lstat(occupied)
		require.NoError(k.t, err)
		k.failed(u.bindWith(u.bindRequest(occupied)))
		require.Zero(k.t, k.mounts(occupied))
		after, err := os.Lstat(occupied)
		require.NoError(k.t, err)
		require.Equal(k.t, []any{before.Size(), before.Mode(), before.ModTime()}, []any{after.Size(), after.Mode(), after.ModTime()})
		require.NoError(k.t, os.Remove(occupied))
		u.requireUnbound(occupied)
	}
	require.Equal(k.t, 1, k.mounts(u.bindTarget()))
}
