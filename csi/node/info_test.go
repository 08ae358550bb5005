package node_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/node"
	"github.com/holdfast-storage/holdfast/fsm"
)

// CSI-NODE-NodeGetCapabilities-01, -02, -05, CSI-NODE-NodeGetVolumeStats-01.
func TestNodeGetCapabilities(t *testing.T) {
	resp, err := newServer(t, &fakeHost{}).NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	require.NoError(t, err)
	var names []string
	for _, c := range resp.GetCapabilities() {
		names = append(names, c.GetRpc().GetType().String())
	}
	require.Equal(t, []string{"STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS", "VOLUME_CONDITION", "SINGLE_NODE_MULTI_WRITER", "EXPAND_VOLUME", "VOLUME_MOUNT_GROUP"}, names)
}

// CSI-NODE-NodeGetCapabilities-03, CSI-CTRL-VolumeCapability-06: VOLUME_MOUNT_GROUP is
// served where it was asked for and is not turned off. Elsewhere a group is refused,
// not taken and forgotten (S73).
func TestTheMountGroupIsServedOnlyWhenAskedFor(t *testing.T) {
	const group = csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
	for name, cfg := range map[string]node.Config{
		"by default":     {ID: "n1"},
		"when it is off": {ID: "n1", MountGroup: true, Disabled: []csi.NodeServiceCapability_RPC_Type{group}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{}
			s, err := node.New(h, cfg)
			require.NoError(t, err)
			resp, err := s.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
			require.NoError(t, err)
			for _, c := range resp.GetCapabilities() {
				require.NotEqual(t, group, c.GetRpc().GetType())
			}
			asked := capability()
			asked.GetMount().VolumeMountGroup = "1000"
			_, err = s.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
				VolumeId: id, StagingTargetPath: "/s", VolumeCapability: asked, PublishContext: epochContext("2.77"),
			})
			requireCode(t, codes.InvalidArgument, err)
			_, err = s.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
				VolumeId: id, StagingTargetPath: "/s", TargetPath: "/t", VolumeCapability: asked, PublishContext: epochContext("2.77"),
			})
			requireCode(t, codes.InvalidArgument, err)
			require.Empty(t, h.calls)
		})
	}
}

// CSI-NODE-NodeGetInfo-01..03, -05..07, CSI-CTRL-Topology-13, -21.
func TestNodeGetInfo(t *testing.T) {
	want := &csi.NodeGetInfoResponse{NodeId: "n1", MaxVolumesPerNode: 7, AccessibleTopology: &csi.Topology{Segments: map[string]string{
		"topology.holdfast.storage/node": "n1", "topology.holdfast.storage/zone": "z1",
	}}}
	for range 3 {
		got, err := newServer(t, &fakeHost{}).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
		require.NoError(t, err)
		require.True(t, proto.Equal(want, got))
	}
}

// CSI-NODE-NodeGetInfo-04, CSI-CTRL-Topology-11..15: what CSI does not allow does not start.
func TestNewRefusesABadTopology(t *testing.T) {
	for name, cfg := range map[string]node.Config{
		"no id":                          {},
		"an id of 257 bytes":             {ID: fsm.NodeID(strings.Repeat("n", 257))},
		"an id that is no segment":       {ID: "-n1"},
		"a label of another prefix":      {ID: "n1", Labels: []fsm.Label{{Key: "example.com/zone", Value: "z"}}},
		"a label without a prefix":       {ID: "n1", Labels: []fsm.Label{{Key: "zone", Value: "z"}}},
		"an upper-case label":            {ID: "n1", Labels: []fsm.Label{{Key: "topology.holdfast.storage/Zone", Value: "z"}}},
		"a label without a value":        {ID: "n1", Labels: []fsm.Label{{Key: fsm.ZoneKey}}},
		"a label that is given twice":    {ID: "n1", Labels: []fsm.Label{{Key: fsm.ZoneKey, Value: "a"}, {Key: fsm.ZoneKey, Value: "b"}}},
		"a value with a space at an end": {ID: "n1", Labels: []fsm.Label{{Key: fsm.ZoneKey, Value: "z "}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := node.New(&fakeHost{}, cfg)
			require.Error(t, err)
		})
	}
}
