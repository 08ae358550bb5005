package node_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/csi/node"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// CSI-NODE-NodeExpandVolume-: the request alone.
func TestNodeExpandVolume(t *testing.T) {
	type req = csi.NodeExpandVolumeRequest
	const invalid = codes.InvalidArgument
	size := func(required, limit int64) func(*req) {
		return func(r *req) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit} }
	}
	for name, tc := range map[string]struct {
		change func(*req)
		want   codes.Code
	}{
		"-08: no range fills the device":           {func(*req) {}, codes.OK},
		"-08: a range":                             {size(2<<30, 4<<30), codes.OK},
		"-05: a volume is required":                {func(r *req) { r.VolumeId = "" }, invalid},
		"-06: a path is required":                  {func(r *req) { r.VolumePath = "" }, invalid},
		"-07: a long path":                         {func(r *req) { r.VolumePath = "/" + strings.Repeat("p", 4000) }, codes.OK},
		"-09: the staging path is absolute":        {func(r *req) { r.StagingTargetPath = "rel" }, invalid},
		"-09: and is told":                         {func(r *req) { r.StagingTargetPath = "/s" }, codes.OK},
		"-10: mounted":                             {func(r *req) { r.VolumeCapability = capability() }, codes.OK},
		"-10: raw":                                 {func(r *req) { r.VolumeCapability = rawCapability() }, codes.OK},
		"-11: secrets":                             {func(r *req) { r.Secrets = map[string]string{"a": "b"} }, codes.OK},
		"-13: a capability without a type":         {func(r *req) { r.VolumeCapability = &csi.VolumeCapability{} }, invalid},
		"-13: a mode of many nodes":                {func(r *req) { r.VolumeCapability = capability(); r.VolumeCapability.AccessMode.Mode = 5 }, invalid},
		"-14: an id of another form":               {func(r *req) { r.VolumeId = "fake-vol-id" }, codes.NotFound},
		"-14: an unknown one with a relative path": {func(r *req) { r.VolumeId, r.VolumePath = "fake-vol-id", "some/path" }, codes.NotFound},
		"-03: nothing is at a relative path":       {func(r *req) { r.VolumePath = "some/path" }, codes.NotFound},
		"-16: a range upside down":                 {size(2, 1), invalid},
		"GEN-Error-12: form before the volume":     {func(r *req) { r.VolumeId, r.VolumeCapability = "fake", &csi.VolumeCapability{} }, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{}
			r := &req{VolumeId: id, VolumePath: "/v"}
			tc.change(r)
			for range 2 {
				resp, err := newServer(t, h).NodeExpandVolume(t.Context(), r)
				requireCode(t, tc.want, err)
				require.Equal(t, tc.want == codes.OK, resp.GetCapacityBytes() == 4<<30) // -12
			}
			if tc.want != codes.OK {
				require.Empty(t, h.calls)
				return
			}
			require.Equal(t, executor.ExpandRequest{
				Volume: id, Path: r.GetVolumePath(), Capability: h.expands.Capability,
				Size: r.GetCapacityRange().GetRequiredBytes(), Limit: r.GetCapacityRange().GetLimitBytes(),
			}, h.expands)
			require.Equal(t, r.GetVolumeCapability() == nil, h.expands.Capability == fsm.Capability{})
		})
	}
}

func rawCapability() *csi.VolumeCapability {
	c := capability()
	c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	return c
}

// CSI-NODE-NodeExpandVolume-03, -13..16: what the host refuses keeps its reason.
func TestNodeExpandVolumeRefused(t *testing.T) {
	for reason, want := range map[fsm.Reason]codes.Code{
		fsm.NotFound: codes.NotFound, fsm.OutOfRange: codes.OutOfRange, fsm.Precondition: codes.FailedPrecondition,
		fsm.Invalid: codes.InvalidArgument, fsm.Busy: codes.Aborted,
	} {
		h := &fakeHost{err: fsm.Reject(reason, "no")}
		_, err := newServer(t, h).NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: "/v"})
		requireCode(t, want, err)
	}
}

// CSI-NODE-NodeExpandVolume-01, CSI-NODE-NodeGetCapabilities-02: what is turned off is
// neither advertised nor served.
func TestNodeCapabilitiesTurnedOff(t *testing.T) {
	s, err := node.New(&fakeHost{}, node.Config{ID: "n1", Disabled: []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS, csi.NodeServiceCapability_RPC_VOLUME_CONDITION,
	}})
	require.NoError(t, err)
	resp, err := s.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	require.NoError(t, err)
	for _, c := range resp.GetCapabilities() {
		require.NotEqual(t, csi.NodeServiceCapability_RPC_EXPAND_VOLUME, c.GetRpc().GetType())
	}
	_, err = s.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: "/v"})
	requireCode(t, codes.Unimplemented, err)
	_, err = s.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: "/v"})
	requireCode(t, codes.Unimplemented, err)
	_, err = node.New(&fakeHost{}, node.Config{ID: "n1", Disabled: []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}})
	require.Error(t, err, "volumes cannot be used without staging")
}
