package conformance

import (
	"encoding/json"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var extensionRows = map[string]rowTest{
	"CSI-EXT-Modify-01": rowServedIff(controllerHas(csi.ControllerServiceCapability_RPC_MODIFY_VOLUME), func(k *fixture, conn *grpc.ClientConn) error {
		_, err := csi.NewControllerClient(conn).ControllerModifyVolume(k.ctx, modification(unknownVolumeID, "iopsLimit", "5"))
		return ignoreCode(err, codes.NotFound)
	}),
	"CSI-EXT-Modify-02": rowOf(func(k *fixture) {
		v := k.volume()
		for range 3 {
			require.NoError(k.t, k.modify(v.ID, "iopsLimit", "500/400"))
		}
		requireLimits(k, v.ID, "500/400", "0/0")
	}),
	"CSI-EXT-Modify-03": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.modify("", "iopsLimit", "5") }),
	"CSI-EXT-Modify-04": rowOf(func(k *fixture) {
		v := k.volume()
		requireRefused(k.t, k.modify(v.ID), codes.InvalidArgument)
		_, err := k.controller.ControllerModifyVolume(k.ctx, &csi.ControllerModifyVolumeRequest{VolumeId: v.ID, MutableParameters: map[string]string{}})
		requireRefused(k.t, err, codes.InvalidArgument)
	}),
	"CSI-EXT-Modify-05": rowOf(func(k *fixture) {
		v := k.volume()
		require.NoError(k.t, k.modify(v.ID, "iopsLimit", "500/400", "bandwidthLimit", "3Mi/2Mi"))
		require.NoError(k.t, k.modify(v.ID, "iopsLimit", "600"))
		requireLimits(k, v.ID, "600/600", "3145728/2097152")
	}),
	"CSI-EXT-Modify-06": rowOf(func(k *fixture) {
		v := k.volume()
		require.NoError(k.t, k.modify(v.ID, "iopsLimit", "500/400"))
		for _, bad := range []string{"colour", "bandwidthLimit"} {
			requireRefused(k.t, k.modify(v.ID, "iopsLimit", "7", bad, "blue"), codes.InvalidArgument)
		}
		requireLimits(k, v.ID, "500/400", "0/0")
	}),
	"CSI-EXT-Modify-07": rowRefused(codes.NotFound, func(k *fixture) error { return k.modify(unknownVolumeID, "iopsLimit", "5") }),
	"CSI-EXT-Modify-08": rowOf(func(k *fixture) {
		req := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
		req.Parameters = map[string]string{"iopsLimit": "100", "bandwidthLimit": "1Mi"}
		req.MutableParameters = map[string]string{"iopsLimit": "200"}
		res, err := k.controller.CreateVolume(k.ctx, req)
		require.NoError(k.t, err)
		k.deleteVolumeLater(res.GetVolume().GetVolumeId())
		requireLimits(k, res.GetVolume().GetVolumeId(), "200/200", "1048576/1048576")
	}),
	"CSI-EXT-Modify-09": rowOf(func(k *fixture) {
		req := harness.Spec{Name: k.env.Name("vol")}.CreateRequest()
		req.MutableParameters = map[string]string{"iopsLimit": "200"}
		_, err := csi.NewControllerClient(k.disabledConn("c1")).CreateVolume(k.ctx, req)
		requireRefused(k.t, err, codes.InvalidArgument)

		req.AccessibilityRequirements = nil
		res, err := k.controller.CreateVolume(k.ctx, req)
		require.NoError(k.t, err)
		k.deleteVolumeLater(res.GetVolume().GetVolumeId())
		req.MutableParameters["iopsLimit"] = "300"
		_, err = k.controller.CreateVolume(k.ctx, req)
		requireRefused(k.t, err, codes.AlreadyExists)
	}),
	"CSI-EXT-Modify-10": rowRefused(codes.InvalidArgument, func(k *fixture) error {
		req := harness.Spec{Name: k.env.Name("vol")}.CreateRequest()
		req.MutableParameters = map[string]string{"colour": "blue"}
		_, err := k.controller.CreateVolume(k.ctx, req)
		return err
	}),
	"CSI-EXT-Modify-11": rowOf(func(k *fixture) {
		v := k.volume()
		require.NoError(k.t, k.modify(v.ID, "iopsLimit", "500/400"))
		req := &csi.ValidateVolumeCapabilitiesRequest{VolumeId: v.ID, VolumeCapabilities: []*csi.VolumeCapability{v.Capability()},
			MutableParameters: map[string]string{"iopsLimit": "500/400"}}
		res, err := k.controller.ValidateVolumeCapabilities(k.ctx, req)
		require.NoError(k.t, err)
		require.Equal(k.t, req.GetMutableParameters(), res.GetConfirmed().GetMutableParameters())
		req.MutableParameters = map[string]string{"colour": "blue"}
		res, err = k.controller.ValidateVolumeCapabilities(k.ctx, req)
		require.True(k.t, err != nil || res.GetConfirmed() == nil, "an unknown parameter is confirmed")
	}),

	"CSI-EXT-GetSnapshot-01": rowServedIff(controllerHas(csi.ControllerServiceCapability_RPC_GET_SNAPSHOT), func(k *fixture, conn *grpc.ClientConn) error {
		_, err := csi.NewControllerClient(conn).GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: unknownSnapshotID})
		return ignoreCode(err, codes.NotFound)
	}),
	"CSI-EXT-GetSnapshot-02": rowOf(func(k *fixture) {
		for _, member := range k.group(2).GetSnapshots() {
			res, err := k.controller.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: member.GetSnapshotId()})
			require.NoError(k.t, err)
			requireSame(k, member, res.GetSnapshot())
		}
	}),
	"CSI-EXT-GetSnapshot-03": rowRefused(codes.NotFound, func(k *fixture) error { return k.getSnapshot(unknownSnapshotID) }),
	"CSI-EXT-GetSnapshot-05": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.getSnapshot("") }),
}

// modification is a request with keys and values in turn.
func modification(volume string, pairs ...string) *csi.ControllerModifyVolumeRequest {
	req := &csi.ControllerModifyVolumeRequest{VolumeId: volume}
	for i := 0; i+1 < len(pairs); i += 2 {
		if req.MutableParameters == nil {
			req.MutableParameters = map[string]string{}
		}
		req.MutableParameters[pairs[i]] = pairs[i+1]
	}
	return req
}

func (k *fixture) modify(volume string, pairs ...string) error {
	_, err := k.controller.ControllerModifyVolume(k.ctx, modification(volume, pairs...))
	return err
}

func (k *fixture) getSnapshot(id string) error {
	_, err := k.controller.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: id})
	return err
}

// requireLimits compares what the command line says of a volume's limits, which no
// call of CSI tells: read and write, 0 where there is none.
func requireLimits(k *fixture, volume, iops, bandwidth string) {
	k.t.Helper()
	res := k.env.Cluster.Run(k.ctx, "volumes", "--dir", k.env.Cluster.Dir, "-o", "json")
	require.Zero(k.t, res.Code, res.Stderr)
	var listed struct {
		Volumes []struct {
			ID     string `json:"id"`
			Limits map[string]any
		}
	}
	require.NoError(k.t, json.Unmarshal([]byte(res.Stdout), &listed))
	for _, v := range listed.Volumes {
		if v.ID != volume {
			continue
		}
		require.Equal(k.t, iops, limit(v.Limits, "iops"))
		require.Equal(k.t, bandwidth, limit(v.Limits, "bytes_per_second"))
		return
	}
	require.Fail(k.t, "the command line does not list the volume", res.Stdout)
}

// limit is "<read>/<write>".
func limit(limits map[string]any, what string) string {
	read, write := limits["read_"+what], limits["write_"+what]
	return fmt.Sprintf("%.0f/%.0f", read, write)
}
