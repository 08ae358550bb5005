package lab_test

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestClusterOnAThinPool: a node creates its thin pool, and its volumes are staged, snapshotted, cloned and expanded
// there, over a power loss, until all are deleted.
func TestClusterOnAThinPool(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Config{Guests: 1})
	l.MustBoot(t)
	c, err := l.NewCluster(t.Context(), lab.ClusterConfig{Pool: "lvm:vg/pool", Setup: "pvcreate -qq -ff -y /dev/ubdc && vgcreate -qq vg /dev/ubdc"})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	conn, err := c.ControllerCSI(1)
	require.NoError(t, err)
	w := &thinPoolNode{T: t, c: c, g: l.Guest(1), controller: csi.NewControllerClient(conn)}

	volume := w.create("one", 64<<20+4096, nil)
	w.stage(volume, "echo old >")
	snapshot := retry(t, "cut", func(ctx context.Context) (*csi.CreateSnapshotResponse, error) {
		return w.controller.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: volume.GetVolumeId()})
	})
	w.stage(volume, "echo new >")
	clone := w.create("two", 96<<20, &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot.GetSnapshot().GetSnapshotId()}}})
	require.Equal(t, "old\n", w.stage(clone, "cat"))

	require.NoError(t, w.g.Crash())
	require.NoError(t, c.BootGuest(t.Context(), 1))
	require.NoError(t, c.AwaitReady(t.Context()))
	require.Empty(t, w.g.MustExec(t, "ls /dev/mapper 2>/dev/null | grep holdfast$ || true"), "a boot attaches nothing (S2)")
	require.Equal(t, "new\n", w.stage(volume, "cat"))
	w.expand(volume, 128<<20+4096)
	require.Equal(t, "old\n", w.stage(clone, "cat"))

	for _, v := range []*csi.Volume{volume, clone} {
		w.remove(v)
	}
	retry(t, "delete the snapshot", func(ctx context.Context) (*csi.DeleteSnapshotResponse, error) {
		return w.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot.GetSnapshot().GetSnapshotId()})
	})
	lab.Await(t, time.Minute, "the pool to be empty", func() (bool, string) {
		left := w.g.MustExec(t, "lvs --noheadings -o lv_name vg | tr -d ' '")
		return left == "pool\n", left
	})
}

// thinPoolNode is a node with a thin pool.
type thinPoolNode struct {
	*testing.T
	c          *lab.Cluster
	g          *lab.Guest
	controller csi.ControllerClient
}

func (w *thinPoolNode) create(name string, size int64, source *csi.VolumeContentSource) *csi.Volume {
	w.Helper()
	made := retry(w, "create "+name, func(ctx context.Context) (*csi.CreateVolumeResponse, error) {
		return w.controller.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: name, VolumeContentSource: source,
			CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapabilities: []*csi.VolumeCapability{capability}})
	})
	require.Equal(w, size, made.GetVolume().GetCapacityBytes())
	return made.GetVolume()
}

func (w *thinPoolNode) node() csi.NodeClient {
	conn, err := w.c.NodeCSI(1)
	require.NoError(w, err)
	return csi.NewNodeClient(conn)
}

func path(v *csi.Volume) string { return "/var/lib/kubelet/" + v.GetVolumeId() }

// stage publishes and stages the volume, and does something with a file in it.
func (w *thinPoolNode) stage(v *csi.Volume, do string) string {
	w.Helper()
	published := retry(w, "publish", func(ctx context.Context) (*csi.ControllerPublishVolumeResponse, error) {
		return w.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: v.GetVolumeId(), NodeId: "n1", VolumeCapability: capability, VolumeContext: v.GetVolumeContext()})
	})
	w.g.MustExec(w, "mkdir -p "+path(v))
	retry(w, "stage "+v.GetVolumeId(), func(ctx context.Context) (*csi.NodeStageVolumeResponse, error) {
		return w.node().NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: path(v),
			VolumeCapability: capability, PublishContext: published.GetPublishContext(), VolumeContext: v.GetVolumeContext()})
	})
	return w.g.MustExec(w, "findmnt -n "+path(v)+" >/dev/null && "+do+" "+path(v)+"/file && sync -f "+path(v))
}

// grow makes the volume larger while it is staged.
func (w *thinPoolNode) expand(v *csi.Volume, size int64) {
	w.Helper()
	grown := retry(w, "grow", func(ctx context.Context) (*csi.ControllerExpandVolumeResponse, error) {
		return w.controller.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: v.GetVolumeId(), CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapability: capability})
	})
	require.Equal(w, size, grown.GetCapacityBytes())
	retry(w, "grow on n1", func(ctx context.Context) (*csi.NodeExpandVolumeResponse, error) {
		return w.node().NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.GetVolumeId(), VolumePath: path(v), StagingTargetPath: path(v),
			CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapability: capability})
	})
	kib := w.g.MustExec(w, "df -k --output=size "+path(v)+" | tail -1 | tr -d ' '")
	require.Greater(w, len(kib), len("99999\n"), "more than 100 MB: %s", kib)
}

func (w *thinPoolNode) remove(v *csi.Volume) {
	w.Helper()
	retry(w, "unstage", func(ctx context.Context) (*csi.NodeUnstageVolumeResponse, error) {
		return w.node().NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: path(v)})
	})
	retry(w, "unpublish", func(ctx context.Context) (*csi.ControllerUnpublishVolumeResponse, error) {
		return w.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v.GetVolumeId(), NodeId: "n1"})
	})
	retry(w, "delete", func(ctx context.Context) (*csi.DeleteVolumeResponse, error) {
		return w.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()})
	})
}
