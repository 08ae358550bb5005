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
	"CSI-EXT-Modify-01": servedIff(controllerHas(csi.ControllerServiceCapability_RPC_MODIFY_VOLUME), func(k *kit, conn *grpc.ClientConn) error {
		_, err := csi.NewControllerClient(conn).ControllerModifyVolume(k.ctx, modification(unknownVolumeID, "iopsLimit", "5"))
		return but(err, codes.NotFound)
	}),
	"CSI-EXT-Modify-02": with(func(k *kit) {
		v := k.volume()
		for range 3 {
			require.NoError(k.t, k.modify(v.ID, "iopsLimit", "500/400"))
		}
		requireLimits(k, v.ID, "500/400", "0/0")
	}),
	"CSI-EXT-Modify-03": refuses(codes.InvalidArgument, func(k *kit) error { return k.modify("", "iopsLimit", "5") }),
	"CSI-EXT-Modify-04": with(func(k *kit) {
		v := k.volume()
		refused(k.t, k.modify(v.ID), codes.InvalidArgument)
		_, err := k.ctl.ControllerModifyVolume(k.ctx, &csi.ControllerModifyVolumeRequest{VolumeId: v.ID, MutableParameters: map[string]string{}})
		refused(k.t, err, codes.InvalidArgument)
	}),
	"CSI-EXT-Modify-05": with(func(k *kit) {
		v := k.volume()
		require.NoError(k.t, k.modify(v.ID, "iopsLimit", "500/400", "bandwidthLimit", "3Mi/2Mi"))
		require.NoError(k.t, k.modify(v.ID, "iopsLimit", "600"))
		requireLimits(k, v.ID, "600/600", "3145728/2097152")
	}),
	"CSI-EXT-Modify-06": with(func(k *kit) {
		v := k.volume()
		require.NoError(k.t, k.modify(v.ID, "iopsLimit", "500/400"))
		for _, bad := range []string{"colour", "bandwidthLimit"} {
			refused(k.t, k.modify(v.ID, "iopsLimit", "7", bad, "blue"), codes.InvalidArgument)
		}
		requireLimits(k, v.ID, "500/400", "0/0")
	}),
	"CSI-EXT-Modify-07": refuses(codes.NotFound, func(k *kit) error { return k.modify(unknownVolumeID, "iopsLimit", "5") }),
	"CSI-EXT-Modify-08": with(func(k *kit) {
		req := harness.Spec{Name: k.w.Name("vol"), Node: "n1"}.CreateRequest()
		req.Parameters = map[string]string{"iopsLimit": "100", "bandwidthLimit": "1Mi"}
		req.MutableParameters = map[string]string{"iopsLimit": "200"}
		res, err := k.ctl.CreateVolume(k.ctx, req)
		require.NoError(k.t, err)
		k.dropVolume(res.GetVolume().GetVolumeId())
		requireLimits(k, res.GetVolume().GetVolumeId(), "200/200", "1048576/1048576")
	}),
	"CSI-EXT-Modify-09": with(func(k *kit) {
		req := harness.Spec{Name: k.w.Name("vol")}.CreateRequest()
		req.MutableParameters = map[string]string{"iopsLimit": "200"}
		_, err := csi.NewControllerClient(k.lessConn("c1")).CreateVolume(k.ctx, req)
		refused(k.t, err, codes.InvalidArgument)

		req.AccessibilityRequirements = nil
		res, err := k.ctl.CreateVolume(k.ctx, req)
		require.NoError(k.t, err)
		k.dropVolume(res.GetVolume().GetVolumeId())
		req.MutableParameters["iopsLimit"] = "300"
		_, err = k.ctl.CreateVolume(k.ctx, req)
		refused(k.t, err, codes.AlreadyExists)
	}),
	"CSI-EXT-Modify-10": refuses(codes.InvalidArgument, func(k *kit) error {
		req := harness.Spec{Name: k.w.Name("vol")}.CreateRequest()
		req.MutableParameters = map[string]string{"colour": "blue"}
		_, err := k.ctl.CreateVolume(k.ctx, req)
		return err
	}),
	"CSI-EXT-Modify-11": with(func(k *kit) {
		v := k.volume()
		require.NoError(k.t, k.modify(v.ID, "iopsLimit", "500/400"))
		req := &csi.ValidateVolumeCapabilitiesRequest{VolumeId: v.ID, VolumeCapabilities: []*csi.VolumeCapability{v.Capability()},
			MutableParameters: map[string]string{"iopsLimit": "500/400"}}
		res, err := k.ctl.ValidateVolumeCapabilities(k.ctx, req)
		require.NoError(k.t, err)
		require.Equal(k.t, req.GetMutableParameters(), res.GetConfirmed().GetMutableParameters())
		req.MutableParameters = map[string]string{"colour": "blue"}
		res, err = k.ctl.ValidateVolumeCapabilities(k.ctx, req)
		require.True(k.t, err != nil || res.GetConfirmed() == nil, "an unknown parameter is confirmed")
	}),

	"CSI-EXT-GetSnapshot-01": servedIff(controllerHas(csi.ControllerServiceCapability_RPC_GET_SNAPSHOT), func(k *kit, conn *grpc.ClientConn) error {
		_, err := csi.NewControllerClient(conn).GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: unknownSnapshotID})
		return but(err, codes.NotFound)
	}),
	"CSI-EXT-GetSnapshot-02": with(func(k *kit) {
		for _, member := range k.group(2).GetSnapshots() {
			res, err := k.ctl.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: member.GetSnapshotId()})
			require.NoError(k.t, err)
			requireSame(k, member, res.GetSnapshot())
		}
	}),
	"CSI-EXT-GetSnapshot-03": refuses(codes.NotFound, func(k *kit) error { return k.getSnapshot(unknownSnapshotID) }),
	"CSI-EXT-GetSnapshot-05": refuses(codes.InvalidArgument, func(k *kit) error { return k.getSnapshot("") }),
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

func (k *kit) modify(volume string, pairs ...string) error {
	_, err := k.ctl.ControllerModifyVolume(k.ctx, modification(volume, pairs...))
	return err
}

func (k *kit) getSnapshot(id string) error {
	_, err := k.ctl.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: id})
	return err
}

// requireLimits compares what the command line says of a volume's limits, which no
// call of CSI tells: read and write, 0 where there is none.
func requireLimits(k *kit, volume, iops, bandwidth string) {
	k.t.Helper()
	res := k.w.Cluster.Run(k.ctx, "volumes", "--dir", k.w.Cluster.Dir, "-o", "json")
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
