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

func (k *fixture) expansion(req *expandRequest) (*csi.ControllerExpandVolumeResponse, error) {
	return k.controller.ControllerExpandVolume(k.ctx, req)
}

// grown grows a volume to a size.
func (k *fixture) grown(id string, to int64) *csi.ControllerExpandVolumeResponse {
	k.t.Helper()
	res, err := k.expansion(growth(id, to, 0))
	require.NoError(k.t, err)
	require.Equal(k.t, to, res.GetCapacityBytes())
	return res
}

// expandRejected makes a row: changed growths have a code, and leave the size.
func expandRejected(want codes.Code, changes ...func(r *expandRequest)) rowTest {
	return rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		before := k.get(id)
		for _, c := range changes {
			req := growth(id, 32*harness.Mi, 0)
			c(req)
			for range 2 {
				_, err := k.expansion(req)
				requireRefused(k.t, err, want)
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
	"CSI-CTRL-ControllerExpandVolume-02": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		for _, to := range []int64{32 * harness.Mi, 32 * harness.Mi, harness.Mi, 1} {
			res, err := k.expansion(growth(id, to, 0))
			require.NoError(k.t, err)
			require.EqualValues(k.t, 32*harness.Mi, res.GetCapacityBytes())
		}
		require.EqualValues(k.t, 32*harness.Mi, k.get(id).GetVolume().GetCapacityBytes())
	}),
	"CSI-CTRL-ControllerExpandVolume-03": expandRejected(codes.InvalidArgument, func(r *expandRequest) { r.VolumeId = "" }),
	"CSI-CTRL-ControllerExpandVolume-04": expandRejected(codes.InvalidArgument, func(r *expandRequest) { r.CapacityRange = nil }),
	"CSI-CTRL-ControllerExpandVolume-05": rowOf(func(k *fixture) {
		id, disk := k.createVolume().GetVolumeId(), k.createVolume(withVolumeCapabilities(blockCapability(writer))).GetVolumeId()
		for _, as := range []*csi.VolumeCapability{nil, mountCapability(writer, "ext4"), mountCapability(writer, "")} {
			req := growth(id, 32*harness.Mi, 0)
			req.VolumeCapability = as
			res, err := k.expansion(req)
			require.NoError(k.t, err)
			require.True(k.t, res.GetNodeExpansionRequired())
		}
		for _, as := range []*csi.VolumeCapability{nil, blockCapability(writer)} {
			req := growth(disk, 32*harness.Mi, 0)
			req.VolumeCapability = as
			res, err := k.expansion(req)
			require.NoError(k.t, err)
			require.False(k.t, res.GetNodeExpansionRequired())
		}
	}),
	"CSI-CTRL-ControllerExpandVolume-06": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		const required, limit = 20*harness.Mi + 1, 20*harness.Mi + 8192
		res, err := k.expansion(growth(id, required, limit))
		require.NoError(k.t, err)
		require.GreaterOrEqual(k.t, res.GetCapacityBytes(), int64(required))
		require.LessOrEqual(k.t, res.GetCapacityBytes(), int64(limit))
		require.Equal(k.t, res.GetCapacityBytes(), k.get(id).GetVolume().GetCapacityBytes())
	}),
	"CSI-CTRL-ControllerExpandVolume-07": rowOf(func(k *fixture) {
		v := k.createVolume()
		u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
		require.NoError(k.t, u.write("through the growth"))
		require.True(k.t, k.grown(v.GetVolumeId(), 64*harness.Mi).GetNodeExpansionRequired())
		require.Less(k.t, u.filesystemSize(), int64(16*harness.Mi))
		_, err := k.env.Node(k.t).NodeExpandVolume(k.ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.GetVolumeId(), VolumePath: u.targets[0],
			StagingTargetPath: u.staging, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 * harness.Mi}})
		if status.Code(err) == codes.FailedPrecondition { // no CAP_SYS_RESOURCE here: it grows when it is staged next
			require.NoError(k.t, u.cleanUp(k.ctx))
			u = k.newMountedUse(v, mountCapability(writer, "ext4"), false)
		} else {
			require.NoError(k.t, err)
		}
		require.Greater(k.t, u.filesystemSize(), int64(48*harness.Mi))
		require.Equal(k.t, "through the growth", u.read())
	}),
	"CSI-CTRL-ControllerExpandVolume-08": rowOf(func(k *fixture) {
		v := k.createVolume()
		id := v.GetVolumeId()
		k.grown(id, 20*harness.Mi) // created
		k.published(publication(id))
		k.grown(id, 24*harness.Mi) // node_ready
		u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
		k.grown(id, 28*harness.Mi) // published
		require.NoError(k.t, u.unbind(k.ctx))
		k.grown(id, 32*harness.Mi) // vol_ready
		require.NoError(k.t, u.cleanUp(k.ctx))
		k.grown(id, 36*harness.Mi)
	}),
	"CSI-CTRL-ControllerExpandVolume-09": expandRejected(codes.InvalidArgument,
		func(r *expandRequest) { r.VolumeCapability = blockCapability(writer) },
		func(r *expandRequest) { r.VolumeCapability = mountCapability(writer, "xfs") },
		func(r *expandRequest) { r.VolumeCapability = mountCapability(multiNodeMultiWriter, "ext4") }),
	"CSI-CTRL-ControllerExpandVolume-10": expandRejected(codes.NotFound, func(r *expandRequest) { r.VolumeId = unknownVolumeID },
		func(r *expandRequest) { r.VolumeId = "x" }),
	"CSI-CTRL-ControllerExpandVolume-12": expandRejected(codes.OutOfRange, within(1<<62, 0), within(17<<40, 0), within(0, 8*harness.Mi),
		within(1, 8*harness.Mi), within(20*harness.Mi+1, 20*harness.Mi+2)),
	"CSI-CTRL-ControllerExpandVolume-17": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
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
func (u *mountedUse) unbind(ctx context.Context) error {
	for _, target := range u.targets {
		if _, err := u.k.env.Node(u.k.t).NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: u.v.GetVolumeId(), TargetPath: target}); err != nil {
			return err
		}
	}
	u.targets = nil
	return nil
}

var disabledExpandRows = map[string]rowTest{
	"CSI-CTRL-ControllerExpandVolume-01": rowSwitchable(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, func(k *fixture, c csi.ControllerClient) error {
		_, err := c.ControllerExpandVolume(k.ctx, growth(k.createVolume().GetVolumeId(), 32*harness.Mi, 0))
		return err
	}),
}
