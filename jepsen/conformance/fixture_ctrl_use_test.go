package conformance

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
)

// publication is ControllerPublishVolume of a volume on n1 for one writer.
func publication(id string) *csi.ControllerPublishVolumeRequest {
	return &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n1", VolumeCapability: mountCapability(writer, "ext4")}
}

func (k *fixture) publish(req *csi.ControllerPublishVolumeRequest) error {
	_, err := k.controller.ControllerPublishVolume(k.ctx, req)
	return err
}

// published publishes until the row is over.
func (k *fixture) published(req *csi.ControllerPublishVolumeRequest) map[string]string {
	k.t.Helper()
	var res *csi.ControllerPublishVolumeResponse
	k.untilOK(func() (err error) {
		res, err = k.controller.ControllerPublishVolume(k.ctx, req)
		return err
	})
	k.cleanUpWith(func(ctx context.Context) error {
		_, err := k.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: req.GetVolumeId()})
		return err
	})
	return res.GetPublishContext()
}

func (k *fixture) unpublish(id, node string) error {
	_, err := k.controller.ControllerUnpublishVolume(k.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	return err
}

// mountedUse is a volume published, staged and mounted on n1 in one mode until down or
// the end of the row.
type mountedUse struct {
	k              *fixture
	v              *csi.Volume
	capability     *csi.VolumeCapability
	readOnly       bool
	context        map[string]string
	staging        string
	targets        []string
	isDown, staged bool
}

func (k *fixture) newMountedUse(v *csi.Volume, as *csi.VolumeCapability, readOnly bool) *mountedUse {
	k.t.Helper()
	u := &mountedUse{k: k, v: v, capability: as, readOnly: readOnly, staging: k.env.Path("staging")}
	k.cleanUpWith(u.cleanUp)
	k.untilOK(func() error {
		res, err := k.controller.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: v.GetVolumeId(), NodeId: "n1", VolumeCapability: as, Readonly: readOnly})
		u.context = res.GetPublishContext()
		return err
	})
	require.NoError(k.t, os.MkdirAll(u.staging, 0o750))
	k.untilOK(func() error {
		_, err := k.env.Node(k.t).NodeStageVolume(k.ctx, &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(),
			PublishContext: u.context, StagingTargetPath: u.staging, VolumeCapability: as})
		return err
	})
	u.staged = true
	require.NoError(k.t, u.bind())
	return u
}

// bind mounts at one more target.
func (u *mountedUse) bind() error {
	target := u.k.env.Path("target")
	_, err := u.k.env.Node(u.k.t).NodePublishVolume(u.k.ctx, &csi.NodePublishVolumeRequest{VolumeId: u.v.GetVolumeId(), Readonly: u.readOnly,
		PublishContext: u.context, StagingTargetPath: u.staging, TargetPath: target, VolumeCapability: u.capability})
	if err == nil {
		u.targets = append(u.targets, target)
	}
	return err
}

func (u *mountedUse) file() string { return filepath.Join(u.targets[0], "row") }

// write writes one file and has the disk keep it.
func (u *mountedUse) write(text string) error {
	f, err := os.OpenFile(u.file(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}

func (u *mountedUse) read() string {
	u.k.t.Helper()
	text, err := os.ReadFile(u.file())
	require.NoError(u.k.t, err)
	return string(text)
}

// filesystemSize is the size of the filesystem.
func (u *mountedUse) filesystemSize() int64 {
	u.k.t.Helper()
	var s syscall.Statfs_t
	require.NoError(u.k.t, syscall.Statfs(u.targets[0], &s))
	return int64(s.Blocks) * s.Bsize
}

// cleanUp ends it, backwards.
func (u *mountedUse) cleanUp(ctx context.Context) error {
	if u.isDown {
		return nil
	}
	node, err := u.k.env.Cluster.Node("n1")
	if err != nil {
		return err
	}
	for _, target := range u.targets {
		err := retried(ctx, func(ctx context.Context) error { // ABORTED while another opened the device to look at it
			_, err := node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: u.v.GetVolumeId(), TargetPath: target})
			return err
		})
		if err != nil {
			return err
		}
	}
	if u.staged {
		err := retried(ctx, func(ctx context.Context) error {
			_, err := node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: u.v.GetVolumeId(), StagingTargetPath: u.staging})
			return err
		})
		if err != nil {
			return err
		}
	}
	_ = os.Remove(u.staging)
	ctl, err := u.k.env.Cluster.Controller("c1")
	if err == nil {
		_, err = ctl.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: u.v.GetVolumeId()})
	}
	u.isDown = err == nil
	return err
}

// volumeWithText is a volume on n1 that holds a text, in use by nobody.
func (k *fixture) volumeWithText(text string, changes ...change) *csi.Volume {
	k.t.Helper()
	v := k.createVolume(changes...)
	u := k.newMountedUse(v, mountCapability(writer, ""), false)
	require.NoError(k.t, u.write(text))
	require.NoError(k.t, u.cleanUp(k.ctx))
	return v
}
