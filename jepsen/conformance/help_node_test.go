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

// mountAs is a capability of a filesystem.
func mountAs(mode csi.VolumeCapability_AccessMode_Mode, fsType string, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: flags}}}
}

// blockAs is a capability of a raw device.
func blockAs(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
}

// use is one volume that is used on one node, call by call. All that it brought up
// is taken down with the row.
type use struct {
	*kit
	node    csi.NodeClient
	on      string
	id      string
	size    int64
	cap     *csi.VolumeCapability
	publish map[string]string
	staging string
	targets []string // that were asked for
}

// uses makes a volume with the capabilities, of which the first is used, and
// publishes it to n1. It is 16 MiB large, or 320 MiB with xfs.
func (k *kit) uses(caps ...*csi.VolumeCapability) *use { return k.usesOn("n1", caps...) }

func (k *kit) usesOn(node string, caps ...*csi.VolumeCapability) *use {
	k.t.Helper()
	size := int64(16 * harness.Mi)
	if caps[0].GetMount().GetFsType() == "xfs" {
		size = 320 * harness.Mi
	}
	req := harness.Spec{Name: k.w.Name("used"), Node: node, Size: size}.CreateRequest()
	req.VolumeCapabilities = caps
	client, err := k.w.Cluster.Node(node)
	require.NoError(k.t, err)
	u := &use{kit: k, node: client, on: node, cap: caps[0], staging: k.w.Path("staging")}
	k.done(func() error {
		res, err := k.ctl.CreateVolume(k.ctx, req)
		u.id, u.size = res.GetVolume().GetVolumeId(), res.GetVolume().GetCapacityBytes()
		return err
	})
	k.after(u.end)
	u.grant()
	require.NoError(k.t, os.MkdirAll(u.staging, 0o750))
	return u
}

// done repeats a call as a CO does until it is OK.
func (k *kit) done(call func() error) {
	k.t.Helper()
	require.NoError(k.t, persist(k.ctx, call))
}

// persist repeats what may be repeated.
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

// grant has the controllers publish the volume to the node.
func (u *use) grant() {
	u.t.Helper()
	u.done(func() error {
		res, err := u.ctl.ControllerPublishVolume(u.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: u.id, NodeId: u.on, VolumeCapability: u.cap})
		u.publish = res.GetPublishContext()
		return err
	})
}

// revoke ends the publication.
func (u *use) revoke(ctx context.Context) error {
	return persist(ctx, func() error {
		_, err := u.ctl.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: u.id, NodeId: u.on})
		return err
	})
}

// end takes all down, deletes the volume and removes the folders.
func (u *use) end(ctx context.Context) error {
	for _, target := range u.targets {
		if err := persist(ctx, func() error { return u.unbindWith(ctx, target) }); err != nil {
			return err
		}
		_ = os.Remove(target) // what a row put there itself
	}
	if err := persist(ctx, func() error { return u.unstageWith(ctx, u.staging) }); err != nil {
		return err
	}
	if err := u.revoke(ctx); err != nil {
		return err
	}
	_ = os.Remove(u.staging)
	return persist(ctx, func() error {
		_, err := u.ctl.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: u.id})
		return err
	})
}

func (u *use) stageRequest() *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{VolumeId: u.id, PublishContext: u.publish, StagingTargetPath: u.staging, VolumeCapability: u.cap}
}

func (u *use) stageWith(r *csi.NodeStageVolumeRequest) error {
	_, err := u.node.NodeStageVolume(u.ctx, r)
	return err
}

// staged stages the volume.
func (u *use) staged() *use {
	u.t.Helper()
	u.done(func() error { return u.stageWith(u.stageRequest()) })
	return u
}

func (u *use) unstageWith(ctx context.Context, path string) error {
	_, err := u.node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: u.id, StagingTargetPath: path})
	return err
}

func (u *use) unstaged() {
	u.t.Helper()
	u.done(func() error { return u.unstageWith(u.ctx, u.staging) })
}

// target is a fresh path; its parent exists.
func (u *use) target() string {
	path := u.w.Path("target")
	u.targets = append(u.targets, path)
	return path
}

func (u *use) bindRequest(target string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{VolumeId: u.id, PublishContext: u.publish, StagingTargetPath: u.staging,
		TargetPath: target, VolumeCapability: u.cap}
}

func (u *use) bindWith(r *csi.NodePublishVolumeRequest) error {
	_, err := u.node.NodePublishVolume(u.ctx, r)
	return err
}

// bound binds the volume to a fresh target.
func (u *use) bound() string {
	u.t.Helper()
	target := u.target()
	u.done(func() error { return u.bindWith(u.bindRequest(target)) })
	return target
}

func (u *use) unbindWith(ctx context.Context, target string) error {
	_, err := u.node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: u.id, TargetPath: target})
	return err
}

func (u *use) unbound(target string) {
	u.t.Helper()
	u.done(func() error { return u.unbindWith(u.ctx, target) })
}

// mounts is how many mounts lie on a path.
func (k *kit) mounts(path string) int {
	k.t.Helper()
	n, err := harness.MountsAt(path)
	require.NoError(k.t, err)
	return n
}

// mountOf is the only mount on a path.
func (k *kit) mountOf(path string) *mountinfo.Info {
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
func (u *use) loop() harness.Loop {
	u.t.Helper()
	loops, err := u.w.Cluster.LoopsOf(u.id)
	require.NoError(u.t, err)
	require.Len(u.t, loops, 1)
	return loops[0]
}

// image is the volume's image file on its node.
func (u *use) image() string {
	u.t.Helper()
	l, err := u.w.Cluster.Layout()
	require.NoError(u.t, err)
	for _, n := range l.Nodes {
		if n.ID == u.on {
			return filepath.Join(n.PoolDir, "volumes", u.id+".img")
		}
	}
	require.Fail(u.t, "no such node", u.on)
	return ""
}

// gone: nothing of the volume is mounted nor attached. The kernel may take a moment.
func (u *use) gone() {
	u.t.Helper()
	require.NoError(u.t, harness.Poll(u.ctx, patience, "no device of "+u.id, func() (bool, error) {
		loops, err := u.w.Cluster.LoopsOf(u.id)
		return err == nil && len(loops) == 0, err
	}))
	require.Zero(u.t, u.mounts(u.staging))
	for _, target := range u.targets {
		require.Zero(u.t, u.mounts(target))
	}
}

// write writes a file and has it on the device; read is what it holds.
func (k *kit) write(dir, text string) {
	k.t.Helper()
	f, err := os.Create(filepath.Join(dir, "file"))
	require.NoError(k.t, err)
	_, err = f.WriteString(text)
	require.NoError(k.t, err)
	require.NoError(k.t, f.Sync())
	require.NoError(k.t, f.Close())
}

func (k *kit) read(dir string) string {
	k.t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "file"))
	require.NoError(k.t, err)
	return string(raw)
}

// failed asserts that a call that cannot be done is not OK, whatever its code.
func (k *kit) failed(err error) {
	k.t.Helper()
	require.Error(k.t, err)
	refused(k.t, err, status.Code(err))
	require.NotEqual(k.t, codes.Unimplemented, status.Code(err))
}

// longPath is a folder, not made yet, whose path has exactly so many bytes; its
// parent exists and goes away with the row.
func (k *kit) longPath(bytes int) string {
	k.t.Helper()
	path := k.w.Path("long")
	top := path
	for len(path) < bytes-200 {
		path += "/" + strings.Repeat("l", 100)
	}
	path += "/" + strings.Repeat("e", bytes-len(path)-1)
	require.Len(k.t, path, bytes)
	require.NoError(k.t, os.MkdirAll(filepath.Dir(path), 0o750))
	k.after(func(context.Context) error { return removeFolders(top, path) })
	return path
}

// removeFolders removes the folders from path up to top. They are empty: what is
// not is a mistake that must show and not go away.
func removeFolders(top, path string) error {
	for ; len(path) >= len(top); path = filepath.Dir(path) {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
