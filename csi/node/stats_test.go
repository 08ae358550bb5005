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

// CSI-NODE-NodeGetVolumeStats-02, -03, -05..15.
func TestNodeGetVolumeStats(t *testing.T) {
	type req = csi.NodeGetVolumeStatsRequest
	for name, tc := range map[string]struct {
		change func(*req)
		want   codes.Code
	}{
		"well-formed":                              {func(*req) {}, codes.OK},
		"-02: a volume is required":                {func(r *req) { r.VolumeId = "" }, codes.InvalidArgument},
		"-03: a path is required":                  {func(r *req) { r.VolumePath = "" }, codes.InvalidArgument},
		"-05: a relative one is none of ours":      {func(r *req) { r.VolumePath = "some/path" }, codes.NotFound},
		"-06: the staging path is absolute":        {func(r *req) { r.StagingTargetPath = "rel" }, codes.InvalidArgument},
		"-07: long paths":                          {func(r *req) { r.VolumePath = "/" + strings.Repeat("p", 4000) }, codes.OK},
		"-08: an id of another form":               {func(r *req) { r.VolumeId = "fake-vol-id" }, codes.NotFound},
		"-08: an unknown one with a relative path": {func(r *req) { r.VolumeId, r.VolumePath = "fake-vol-id", "some/path" }, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			r := &req{VolumeId: id, VolumePath: "/v"}
			tc.change(r)
			for range 2 {
				_, err := newServer(t, &fakeHost{}).NodeGetVolumeStats(t.Context(), r)
				requireCode(t, tc.want, err)
			}
		})
	}
}

func TestNodeGetVolumeStatsUsage(t *testing.T) {
	ask := func(stats executor.VolumeStats) *csi.NodeGetVolumeStatsResponse {
		resp, err := newServer(t, &fakeHost{stats: stats}).NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: "/v"})
		require.NoError(t, err)
		require.NotEmpty(t, resp.GetVolumeCondition().GetMessage()) // -14
		return resp
	}
	full := ask(executor.VolumeStats{Bytes: executor.Usage{Total: 10, Used: 10, Available: -1}, Inodes: executor.Usage{Total: 5, Used: 3, Available: 2}})
	require.Equal(t, []csi.VolumeUsage_Unit{csi.VolumeUsage_BYTES, csi.VolumeUsage_INODES}, []csi.VolumeUsage_Unit{full.GetUsage()[0].GetUnit(), full.GetUsage()[1].GetUnit()}) // -12
	require.Equal(t, []int64{10, 10, 0}, []int64{full.GetUsage()[0].GetTotal(), full.GetUsage()[0].GetUsed(), full.GetUsage()[0].GetAvailable()})                               // -10, -11
	require.False(t, full.GetVolumeCondition().GetAbnormal())

	raw := ask(executor.VolumeStats{Bytes: executor.Usage{Total: 10}, Block: true, Condition: fsm.Condition{Abnormal: true, Message: strings.Repeat("é", 200)}})
	require.Len(t, raw.GetUsage(), 1) // -13
	require.Equal(t, int64(10), raw.GetUsage()[0].GetTotal())
	require.True(t, raw.GetVolumeCondition().GetAbnormal())
	require.LessOrEqual(t, len(raw.GetVolumeCondition().GetMessage()), 128) // CSI-CTRL-VolumeCondition-02
}

// CSI-NODE-NodeGetVolumeStats-01: either capability alone demands the call, and what
// is not advertised is not in the answer.
func TestNodeGetVolumeStatsWithCapabilitiesOff(t *testing.T) {
	const wantUsage, wantCondition = csi.NodeServiceCapability_RPC_GET_VOLUME_STATS, csi.NodeServiceCapability_RPC_VOLUME_CONDITION
	for off, wants := range map[csi.NodeServiceCapability_RPC_Type]struct{ usage, condition bool }{
		wantUsage:     {condition: true},
		wantCondition: {usage: true},
	} {
		s, err := node.New(&fakeHost{}, node.Config{ID: "n1", Disabled: []csi.NodeServiceCapability_RPC_Type{off}})
		require.NoError(t, err)
		resp, err := s.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: "/v"})
		require.NoError(t, err)
		require.Equal(t, wants.usage, len(resp.GetUsage()) > 0, off)
		require.Equal(t, wants.condition, resp.GetVolumeCondition() != nil, off)
	}
}
