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
	return &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n1", VolumeCapability: mounted(writer, "ext4")}
}

func (k *kit) publish(req *csi.ControllerPublishVolumeRequest) error {
	_, err := k.ctl.ControllerPublishVolume(k.ctx, req)
	return err
}

// published publishes until the row is over.
func (k *kit) published(req *csi.ControllerPublishVolumeRequest) map[string]string {
	k.t.Helper()
	var res *csi.ControllerPublishVolumeResponse
	k.done(func() (err error) {
		res, err = k.ctl.ControllerPublishVolume(k.ctx, req)
		return err
	})
	k.after(func(ctx context.Context) error {
		_, err := k.ctl.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: req.GetVolumeId()})
		return err
	})
	return res.GetPublishContext()
}

func (k *kit) unpublish(id, node string) error {
	_, err := k.ctl.ControllerUnpublishVolume(k.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	return err
}

// usage is a volume published, staged and mounted on n1 in one mode until down or
// the end of the row.
type usage struct {
	k              *kit
	v              *csi.Volume
	as             *csi.VolumeCapability
	readOnly       bool
	context        map[string]string
	staging        string
	targets        []string
	isDown, staged bool
}

func (k *kit) inUse(v *csi.Volume, as *csi.VolumeCapability, readOnly bool) *usage {
	k.t.Helper()
	u := &usage{k: k, v: v, as: as, readOnly: readOnly, staging: k.w.Path("staging")}
	k.after(u.down)
	k.done(func() error {
		res, err := k.ctl.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: v.GetVolumeId(), NodeId: "n1", VolumeCapability: as, Readonly: readOnly})
		u.context = res.GetPublishContext()
		return err
	})
	require.NoError(k.t, os.MkdirAll(u.staging, 0o750))
	k.done(func() error {
		_, err := k.w.Node(k.t).NodeStageVolume(k.ctx, &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(),
			PublishContext: u.context, StagingTargetPath: u.staging, VolumeCapability: as})
		return err
	})
	u.staged = true
	require.NoError(k.t, u.bind())
	return u
}

// bind mounts at one more target.
func (u *usage) bind() error {
	target := u.k.w.Path("target")
	_, err := u.k.w.Node(u.k.t).NodePublishVolume(u.k.ctx, &csi.NodePublishVolumeRequest{VolumeId: u.v.GetVolumeId(), Readonly: u.readOnly,
		PublishContext: u.context, StagingTargetPath: u.staging, TargetPath: target, VolumeCapability: u.as})
	if err == nil {
		u.targets = append(u.targets, target)
	}
	return err
}

func (u *usage) file() string { return filepath.Join(u.targets[0], "row") }

// write writes one file and has the disk keep it.
func (u *usage) write(text string) error {
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

func (u *usage) read() string {
	u.k.t.Helper()
	text, err := os.ReadFile(u.file())
	require.NoError(u.k.t, err)
	return string(text)
}

// bytes is the size of the filesystem.
func (u *usage) bytes() int64 {
	u.k.t.Helper()
	var s syscall.Statfs_t
	require.NoError(u.k.t, syscall.Statfs(u.targets[0], &s))
	return int64(s.Blocks) * s.Bsize
}

// down ends it, backwards.
func (u *usage) down(ctx context.Context) error {
	if u.isDown {
		return nil
	}
	node, err := u.k.w.Cluster.Node("n1")
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
	ctl, err := u.k.w.Cluster.Controller("c1")
	if err == nil {
		_, err = ctl.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: u.v.GetVolumeId()})
	}
	u.isDown = err == nil
	return err
}

// written is a volume on n1 that holds a text, in use by nobody.
func (k *kit) written(text string, changes ...change) *csi.Volume {
	k.t.Helper()
	v := k.made(changes...)
	u := k.inUse(v, mounted(writer, ""), false)
	require.NoError(k.t, u.write(text))
	require.NoError(k.t, u.down(k.ctx))
	return v
}
