package conformance

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

type expandRequest = csi.ControllerExpandVolumeRequest

func growth(id string, required, limit int64) *expandRequest {
	return &expandRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}}
}

func (k *kit) expansion(req *expandRequest) (*csi.ControllerExpandVolumeResponse, error) {
	return k.ctl.ControllerExpandVolume(k.ctx, req)
}

// grown grows a volume to a size.
func (k *kit) grown(id string, to int64) *csi.ControllerExpandVolumeResponse {
	k.t.Helper()
	res, err := k.expansion(growth(id, to, 0))
	require.NoError(k.t, err)
	require.Equal(k.t, to, res.GetCapacityBytes())
	return res
}

// expandRejected makes a row: changed growths have a code, and leave the size.
func expandRejected(want codes.Code, changes ...func(r *expandRequest)) rowTest {
	return with(func(k *kit) {
		id := k.made().GetVolumeId()
		before := k.get(id)
		for _, c := range changes {
			req := growth(id, 32*harness.Mi, 0)
			c(req)
			for range 2 {
				_, err := k.expansion(req)
				refused(k.t, err, want)
			}
		}
		requireSame(k, before, k.get(id))
	})
}

func within(required, limit int64) func(r *expandRequest) {
	return func(r *expandRequest) {
		r.CapacityRange = &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}
	}
}

var expandRows = map[string]rowTest{
	"CSI-CTRL-ControllerExpandVolume-02": with(func(k *kit) {
		id := k.made().GetVolumeId()
		for _, to := range []int64{32 * harness.Mi, 32 * harness.Mi, harness.Mi, 1} {
			res, err := k.expansion(growth(id, to, 0))
			require.NoError(k.t, err)
			require.EqualValues(k.t, 32*harness.Mi, res.GetCapacityBytes())
		}
		require.EqualValues(k.t, 32*harness.Mi, k.get(id).GetVolume().GetCapacityBytes())
	}),
	"CSI-CTRL-ControllerExpandVolume-03": expandRejected(codes.InvalidArgument, func(r *expandRequest) { r.VolumeId = "" }),
	"CSI-CTRL-ControllerExpandVolume-04": expandRejected(codes.InvalidArgument, func(r *expandRequest) { r.CapacityRange = nil }),
	"CSI-CTRL-ControllerExpandVolume-05": with(func(k *kit) {
		id, disk := k.made().GetVolumeId(), k.made(capable(raw(writer))).GetVolumeId()
		for _, as := range []*csi.VolumeCapability{nil, mounted(writer, "ext4"), mounted(writer, "")} {
			req := growth(id, 32*harness.Mi, 0)
			req.VolumeCapability = as
			res, err := k.expansion(req)
			require.NoError(k.t, err)
			require.True(k.t, res.GetNodeExpansionRequired())
		}
		for _, as := range []*csi.VolumeCapability{nil, raw(writer)} {
			req := growth(disk, 32*harness.Mi, 0)
			req.VolumeCapability = as
			res, err := k.expansion(req)
			require.NoError(k.t, err)
			require.False(k.t, res.GetNodeExpansionRequired())
		}
	}),
	"CSI-CTRL-ControllerExpandVolume-06": with(func(k *kit) {
		id := k.made().GetVolumeId()
		const required, limit = 20*harness.Mi + 1, 20*harness.Mi + 8192
		res, err := k.expansion(growth(id, required, limit))
		require.NoError(k.t, err)
		require.GreaterOrEqual(k.t, res.GetCapacityBytes(), int64(required))
		require.LessOrEqual(k.t, res.GetCapacityBytes(), int64(limit))
		require.Equal(k.t, res.GetCapacityBytes(), k.get(id).GetVolume().GetCapacityBytes())
	}),
	"CSI-CTRL-ControllerExpandVolume-07": with(func(k *kit) {
		v := k.made()
		u := k.inUse(v, mounted(writer, "ext4"), false)
		require.NoError(k.t, u.write("through the growth"))
		require.True(k.t, k.grown(v.GetVolumeId(), 64*harness.Mi).GetNodeExpansionRequired())
		require.Less(k.t, u.bytes(), int64(16*harness.Mi))
		_, err := k.w.Node(k.t).NodeExpandVolume(k.ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.GetVolumeId(), VolumePath: u.targets[0],
			StagingTargetPath: u.staging, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 * harness.Mi}})
		if status.Code(err) == codes.FailedPrecondition { // no CAP_SYS_RESOURCE here: it grows when it is staged next
			require.NoError(k.t, u.down(k.ctx))
			u = k.inUse(v, mounted(writer, "ext4"), false)
		} else {
			require.NoError(k.t, err)
		}
		require.Greater(k.t, u.bytes(), int64(48*harness.Mi))
		require.Equal(k.t, "through the growth", u.read())
	}),
	"CSI-CTRL-ControllerExpandVolume-08": with(func(k *kit) {
		v := k.made()
		id := v.GetVolumeId()
		k.grown(id, 20*harness.Mi) // created
		k.published(publication(id))
		k.grown(id, 24*harness.Mi) // node_ready
		u := k.inUse(v, mounted(writer, "ext4"), false)
		k.grown(id, 28*harness.Mi) // published
		require.NoError(k.t, u.unbind(k.ctx))
		k.grown(id, 32*harness.Mi) // vol_ready
		require.NoError(k.t, u.down(k.ctx))
		k.grown(id, 36*harness.Mi)
	}),
	"CSI-CTRL-ControllerExpandVolume-09": expandRejected(codes.InvalidArgument,
		func(r *expandRequest) { r.VolumeCapability = raw(writer) },
		func(r *expandRequest) { r.VolumeCapability = mounted(writer, "xfs") },
		func(r *expandRequest) { r.VolumeCapability = mounted(manyWriters, "ext4") }),
	"CSI-CTRL-ControllerExpandVolume-10": expandRejected(codes.NotFound, func(r *expandRequest) { r.VolumeId = unknownVolumeID },
		func(r *expandRequest) { r.VolumeId = "x" }),
	"CSI-CTRL-ControllerExpandVolume-12": expandRejected(codes.OutOfRange, within(1<<62, 0), within(17<<40, 0), within(0, 8*harness.Mi),
		within(1, 8*harness.Mi), within(20*harness.Mi+1, 20*harness.Mi+2)),
	"CSI-CTRL-ControllerExpandVolume-17": with(func(k *kit) {
		id := k.made().GetVolumeId()
		for i, secrets := range []map[string]string{nil, {"user": "u"}} {
			req := growth(id, int64(i+5)*4*harness.Mi, 0)
			req.Secrets = secrets
			res, err := k.expansion(req)
			require.NoError(k.t, err)
			require.Equal(k.t, req.GetCapacityRange().GetRequiredBytes(), res.GetCapacityBytes())
		}
	}),
}

// unbind ends the mounts at targets.
func (u *usage) unbind(ctx context.Context) error {
	for _, target := range u.targets {
		if _, err := u.k.w.Node(u.k.t).NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: u.v.GetVolumeId(), TargetPath: target}); err != nil {
			return err
		}
	}
	u.targets = nil
	return nil
}

var lessExpandRows = map[string]rowTest{
	"CSI-CTRL-ControllerExpandVolume-01": switched(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, func(k *kit, c csi.ControllerClient) error {
		_, err := c.ControllerExpandVolume(k.ctx, growth(k.made().GetVolumeId(), 32*harness.Mi, 0))
		return err
	}),
}
