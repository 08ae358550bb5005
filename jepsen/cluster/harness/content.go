package harness

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// Snapshot takes a snapshot with a name, and returns its id.
func (co *CO) Snapshot(ctx context.Context, name string, of *Volume) (id string, err error) {
	err = co.atController(ctx, "snapshot "+name, func(ctx context.Context, c csi.ControllerClient) error {
		res, err := c.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: of.ID})
		id = res.GetSnapshot().GetSnapshotId()
		return err
	})
	return id, err
}

// DeleteSnapshot has a snapshot removed.
func (co *CO) DeleteSnapshot(ctx context.Context, id string) error {
	return co.atController(ctx, "delete snapshot "+id, func(ctx context.Context, c csi.ControllerClient) error {
		_, err := c.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
		return err
	})
}

// Restore creates a volume from a snapshot.
func (co *CO) Restore(ctx context.Context, spec Spec, snapshot string) (*Volume, error) {
	req := spec.CreateRequest()
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot},
	}}
	v := &Volume{Name: spec.Name, Block: spec.Block, FSType: req.VolumeCapabilities[0].GetMount().GetFsType()}
	err := co.atController(ctx, "restore volume "+spec.Name, func(ctx context.Context, c csi.ControllerClient) error {
		res, err := c.CreateVolume(ctx, req)
		v.ID, v.Size, v.Context = res.GetVolume().GetVolumeId(), res.GetVolume().GetCapacityBytes(), res.GetVolume().GetVolumeContext()
		return err
	})
	return v, err
}

// Expand has a volume's device grown to size bytes.
func (co *CO) Expand(ctx context.Context, v *Volume, size int64) error {
	return co.atController(ctx, "expand volume "+v.ID, func(ctx context.Context, c csi.ControllerClient) error {
		res, err := c.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: v.ID, CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
		if err == nil {
			v.Size = res.GetCapacityBytes()
		}
		return err
	})
}

// Modify sets a volume's mutable parameters.
func (co *CO) Modify(ctx context.Context, v *Volume, parameters map[string]string) error {
	return co.atController(ctx, "modify volume "+v.ID, func(ctx context.Context, c csi.ControllerClient) error {
		_, err := c.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{VolumeId: v.ID, MutableParameters: parameters})
		return err
	})
}

// Group takes a group snapshot of several volumes.
func (co *CO) Group(ctx context.Context, name string, of ...*Volume) (g *csi.VolumeGroupSnapshot, err error) {
	req := &csi.CreateVolumeGroupSnapshotRequest{Name: name}
	for _, v := range of {
		req.SourceVolumeIds = append(req.SourceVolumeIds, v.ID)
	}
	err = co.atGroups(ctx, "group snapshot "+name, func(ctx context.Context, c csi.GroupControllerClient) error {
		res, err := c.CreateVolumeGroupSnapshot(ctx, req)
		g = res.GetGroupSnapshot()
		return err
	})
	return g, err
}

// DeleteGroup has a group snapshot removed with its members.
func (co *CO) DeleteGroup(ctx context.Context, g *csi.VolumeGroupSnapshot) error {
	req := &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId()}
	for _, s := range g.GetSnapshots() {
		req.SnapshotIds = append(req.SnapshotIds, s.GetSnapshotId())
	}
	return co.atGroups(ctx, "delete group snapshot "+req.GroupSnapshotId, func(ctx context.Context, c csi.GroupControllerClient) error {
		_, err := c.DeleteVolumeGroupSnapshot(ctx, req)
		return err
	})
}

func (co *CO) atGroups(ctx context.Context, what string, call func(context.Context, csi.GroupControllerClient) error) error {
	return co.At(ctx, what, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return call(ctx, csi.NewGroupControllerClient(conn))
	})
}
