package conformance

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

const (
	modeWriter = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	modeReader = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	modeSingle = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	modeMulti  = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	modeNodes  = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
)

// nodeMountCapability is a capability of a filesystem.
func nodeMountCapability(mode csi.VolumeCapability_AccessMode_Mode, fsType string, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: flags}}}
}

// nodeBlockCapability is a capability of a raw device.
func nodeBlockCapability(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
}

// stagingUse is one volume that is used on one node, call by call. Everything that it mounted is unmounted with the row.
type stagingUse struct {
	*fixture
	node    csi.NodeClient
	on      string
	id      string
	size    int64
	cap     *csi.VolumeCapability
	publish map[string]string
	staging string
	targets []string // that were asked for
}

// newUse makes a volume with the capabilities, of which the first is used, and
// publishes it to n1. It is 16 MiB large, or 320 MiB with xfs.
func (k *fixture) newUse(caps ...*csi.VolumeCapability) *stagingUse { return k.newUseOn("n1", caps...) }

func (k *fixture) newUseOn(node string, caps ...*csi.VolumeCapability) *stagingUse {
	k.t.Helper()
	size := int64(16 * harness.Mi)
	if caps[0].GetMount().GetFsType() == "xfs" {
		size = 320 * harness.Mi
	}
	req := harness.Spec{Name: k.env.Name("used"), Node: node, Size: size}.CreateRequest()
	req.VolumeCapabilities = caps
	client, err := k.env.Cluster.Node(node)
	require.NoError(k.t, err)
	u := &stagingUse{fixture: k, node: client, on: node, cap: caps[0], staging: k.env.Path("staging")}
	k.untilOK(func() error {
		res, err := k.controller.CreateVolume(k.ctx, req)
		u.id, u.size = res.GetVolume().GetVolumeId(), res.GetVolume().GetCapacityBytes()
		return err
	})
	k.cleanUpWith(u.cleanUp)
	u.publishVolume()
	require.NoError(k.t, os.MkdirAll(u.staging, 0o750))
	return u
}

// untilOK repeats a call as a CO does until it is OK.
func (k *fixture) untilOK(call func() error) {
	k.t.Helper()
	require.NoError(k.t, persist(k.ctx, call))
}

// persist repeats a call while its error may be retried.
func persist(ctx context.Context, call func() error) error {
	for {
		err := call()
		if err == nil || !harness.Retriable(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// publishVolume has the controllers publish the volume to the node.
func (u *stagingUse) publishVolume() {
	u.t.Helper()
	u.untilOK(func() error {
		res, err := u.controller.ControllerPublishVolume(u.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: u.id, NodeId: u.on, VolumeCapability: u.cap})
		u.publish = res.GetPublishContext()
		return err
	})
}

// unpublishVolume ends the publication.
func (u *stagingUse) unpublishVolume(ctx context.Context) error {
	return persist(ctx, func() error {
		_, err := u.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: u.id, NodeId: u.on})
		return err
	})
}

// cleanUp unmounts everything, deletes the volume and removes the directories.
func (u *stagingUse) cleanUp(ctx context.Context) error {
	for _, target := range u.targets {
		if err := persist(ctx, func() error { return u.unbindWith(ctx, target) }); err != nil {
			return err
		}
		_ = os.Remove(target) // what a row put there itself
	}
	if err := persist(ctx, func() error { return u.unstageWith(ctx, u.staging) }); err != nil {
		return err
	}
	if err := u.unpublishVolume(ctx); err != nil {
		return err
	}
	_ = os.Remove(u.staging)
	return persist(ctx, func() error {
		_, err := u.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: u.id})
		return err
	})
}

func (u *stagingUse) stageRequest() *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{VolumeId: u.id, PublishContext: u.publish, StagingTargetPath: u.staging, VolumeCapability: u.cap}
}

func (u *stagingUse) stageWith(r *csi.NodeStageVolumeRequest) error {
	_, err := u.node.NodeStageVolume(u.ctx, r)
	return err
}

// staged stages the volume.
func (u *stagingUse) stage() *stagingUse {
	u.t.Helper()
	u.untilOK(func() error { return u.stageWith(u.stageRequest()) })
	return u
}

func (u *stagingUse) unstageWith(ctx context.Context, path string) error {
	_, err := u.node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: u.id, StagingTargetPath: path})
	return err
}

func (u *stagingUse) unstage() {
	u.t.Helper()
	u.untilOK(func() error { return u.unstageWith(u.ctx, u.staging) })
}

// target is a fresh path; its parent exists.
func (u *stagingUse) target() string {
	path := u.env.Path("target")
	u.targets = append(u.targets, path)
	return path
}

func (u *stagingUse) bindRequest(target string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{VolumeId: u.id, PublishContext: u.publish, StagingTargetPath: u.staging,
		TargetPath: target, VolumeCapability: u.cap}
}

func (u *stagingUse) bindWith(r *csi.NodePublishVolumeRequest) error {
	_, err := u.node.NodePublishVolume(u.ctx, r)
	return err
}

// bindTarget binds the volume to a fresh target.
func (u *stagingUse) bindTarget() string {
	u.t.Helper()
	target := u.target()
	u.untilOK(func() error { return u.bindWith(u.bindRequest(target)) })
	return target
}

func (u *stagingUse) unbindWith(ctx context.Context, target string) error {
	_, err := u.node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: u.id, TargetPath: target})
	return err
}

func (u *stagingUse) requireUnbound(target string) {
	u.t.Helper()
	u.untilOK(func() error { return u.unbindWith(u.ctx, target) })
}

// mounts is how many mounts lie on a path.
func (k *fixture) mounts(path string) int {
	k.t.Helper()
	n, err := harness.MountsAt(path)
	require.NoError(k.t, err)
	return n
}

// mountOf is the only mount on a path.
func (k *fixture) mountOf(path string) *mountinfo.Info {
	k.t.Helper()
	all, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) { return i.Mountpoint != path, false })
	require.NoError(k.t, err)
	require.Len(k.t, all, 1, path)
	return all[0]
}

func readOnlyMount(m *mountinfo.Info) bool {
	return slices.Contains(strings.Split(m.Options, ","), "ro")
}

// loop is the volume's only loop device.
func (u *stagingUse) loop() harness.Loop {
	u.t.Helper()
	loops, err := u.env.Cluster.LoopsOf(u.id)
	require.NoError(u.t, err)
	require.Len(u.t, loops, 1)
	return loops[0]
}

// image is the volume's image file on its node.
func (u *stagingUse) image() string {
	u.t.Helper()
	l, err := u.env.Cluster.Layout()
	require.NoError(u.t, err)
	for _, n := range l.Nodes {
		if n.ID == u.on {
			return filepath.Join(n.PoolDir, "volumes", u.id+".img")
		}
	}
	require.Fail(u.t, "no such node", u.on)
	return ""
}

// requireDetached requires that nothing of the volume is mounted or attached. The kernel may take a moment.
func (u *stagingUse) requireDetached() {
	u.t.Helper()
	require.NoError(u.t, harness.Poll(u.ctx, timeout, "no device of "+u.id, func() (bool, error) {
		loops, err := u.env.Cluster.LoopsOf(u.id)
		return err == nil && len(loops) == 0, err
	}))
	require.Zero(u.t, u.mounts(u.staging))
	for _, target := range u.targets {
		require.Zero(u.t, u.mounts(target))
	}
}

// write writes a file and has it on the device; read is what it holds.
func (k *fixture) write(dir, text string) {
	k.t.Helper()
	f, err := os.Create(filepath.Join(dir, "file"))
	require.NoError(k.t, err)
	_, err = f.WriteString(text)
	require.NoError(k.t, err)
	require.NoError(k.t, f.Sync())
	require.NoError(k.t, f.Close())
}

func (k *fixture) read(dir string) string {
	k.t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "file"))
	require.NoError(k.t, err)
	return string(raw)
}

// failed asserts that an impossible call is not OK, whatever its code.
func (k *fixture) failed(err error) {
	k.t.Helper()
	require.Error(k.t, err)
	requireRefused(k.t, err, status.Code(err))
	require.NotEqual(k.t, codes.Unimplemented, status.Code(err))
}

// longPath is a directory, not made yet, whose path has exactly so many bytes; its
// parent exists and goes away with the row.
func (k *fixture) longPath(bytes int) string {
	k.t.Helper()
	path := k.env.Path("long")
	top := path
	for len(path) < bytes-200 {
		path += "/" + strings.Repeat("l", 100)
	}
	path += "/" + strings.Repeat("e", bytes-len(path)-1)
	require.Len(k.t, path, bytes)
	require.NoError(k.t, os.MkdirAll(filepath.Dir(path), 0o750))
	k.cleanUpWith(func(context.Context) error { return removeFolders(top, path) })
	return path
}

// removeFolders removes the directories from path up to top. They must be empty: a file that is left is an error that
// must be reported.
func removeFolders(top, path string) error {
	for ; len(path) >= len(top); path = filepath.Dir(path) {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
