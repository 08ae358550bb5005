package controller_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/fsm"
)

func hostAt(id fsm.NodeID, site string) func(*fakeCluster) *fakeHost {
	return func(c *fakeCluster) *fakeHost {
		h := newHost(c, id)
		h.site = site
		return h
	}
}

// S34: CSI's own calls are bound by the parameter too.
func TestS34_ACallForAnotherSiteDoesNothing(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v", withParameters("site", "default"))
	before := w.cluster.proposed
	for range 2 {
		_, err := w.CreateVolume(t.Context(), createRequest("other", withParameters("site", "B")))
		requireCode(t, codes.InvalidArgument, err)
		_, err = w.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id, Parameters: mapOf("site", "B")})
		requireCode(t, codes.InvalidArgument, err)
		_, err = w.CreateVolumeGroupSnapshot(t.Context(), &csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{id}, Parameters: mapOf("site", "B")})
		requireCode(t, codes.InvalidArgument, err)
		_, err = w.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: mapOf("site", "B")})
		requireCode(t, codes.InvalidArgument, err)
	}
	require.Equal(t, before, w.cluster.proposed)
	require.Equal(t, id, w.create(t, "v"), "it is no part of what makes two requests equal")
}

// S29, S33, S36: what an endpoint of another site answers.
func TestS36_ThroughAnotherSite(t *testing.T) {
	w := newEnv(t, hostAt("n1", "A"), hostAt("n2", "B"))
	w.cluster.actAs(t, "A")
	id := w.create(t, "data")
	_, err := w.ControllerPublishVolume(t.Context(), publishRequest(id, "n1"))
	require.NoError(t, err)
	published := func() []string {
		got, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
		require.NoError(t, err)
		list, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
		require.NoError(t, err)
		for _, e := range list.GetEntries() {
			if e.GetVolume().GetVolumeId() == id {
				require.Equal(t, got.GetStatus().GetPublishedNodeIds(), e.GetStatus().GetPublishedNodeIds())
			}
		}
		return got.GetStatus().GetPublishedNodeIds()
	}
	require.Equal(t, []string{"n1"}, published())
	w.cluster.actAs(t, "B")
	require.Empty(t, published())
	for range 2 {
		_, err = w.ControllerPublishVolume(t.Context(), publishRequest(id, "n1"))
		requireCode(t, codes.NotFound, err)
		_, err = w.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id})
		require.NoError(t, err)
		_, err = w.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		requireCode(t, codes.FailedPrecondition, err)
		_, err = w.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 30}})
		requireCode(t, codes.FailedPrecondition, err)
		_, err = w.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
		requireCode(t, codes.FailedPrecondition, err)
	}
	require.NotEqual(t, id, w.create(t, "data"), "S33: names are per site")
	w.cluster.actAs(t, "A")
	require.Equal(t, []string{"n1"}, published(), "a stale attachment of another cluster ends nothing")
}
