package reclaimspace_test

import (
	"context"
	"testing"
	"time"

	spec "github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/addons/reclaimspace"
	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ADD-RS-ControllerReclaimSpace-05, -06, -07, -09, -10: the request.
func TestControllerReclaimSpaceChecksTheRequest(t *testing.T) {
	type req = spec.ControllerReclaimSpaceRequest
	for name, tc := range map[string]struct {
		change func(*req)
		want   codes.Code
	}{
		"well-formed":                 {func(*req) {}, codes.OK},
		"-05: a volume is required":   {func(r *req) { r.VolumeId = "" }, codes.InvalidArgument},
		"-06: an unknown parameter":   {func(r *req) { r.Parameters = map[string]string{"size": "all"} }, codes.InvalidArgument},
		"-06: an orchestrator's":      {func(r *req) { r.Parameters = map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "x"} }, codes.OK},
		"-06: another site":           {func(r *req) { r.Parameters = map[string]string{"site": "B"} }, codes.InvalidArgument},
		"-07: secrets are not needed": {func(r *req) { r.Secrets = map[string]string{"a": "b"} }, codes.OK},
		"-10: an unknown volume":      {func(r *req) { r.VolumeId = string(fsm.VolumeIDFrom(uuid.New())) }, codes.NotFound},
		"-10: an id of another form":  {func(r *req) { r.VolumeId = "fake" }, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestCluster(t)
			c.onBegin = func() { c.doReclaim(&fsmpb.Reclaimed{}) }
			r := &req{VolumeId: string(c.id)}
			tc.change(r)
			for range 2 {
				_, err := reclaimspace.NewController(c, c).ControllerReclaimSpace(t.Context(), r)
				require.Equal(t, tc.want, status.Code(err), err)
			}
		})
	}
}

// ADD-RS-ControllerReclaimSpace-02, -08, -14: what the host's pool said is answered.
func TestControllerReclaimSpaceAnswersTheUsage(t *testing.T) {
	c := newTestCluster(t)
	c.onBegin = func() { c.doReclaim(&fsmpb.Reclaimed{Known: true, BeforeBytes: 9, AfterBytes: 0}) }
	for range 2 {
		resp, err := reclaimspace.NewController(c, c).ControllerReclaimSpace(t.Context(), &spec.ControllerReclaimSpaceRequest{VolumeId: string(c.id)})
		require.NoError(t, err)
		require.EqualValues(t, 9, resp.GetPreUsage().GetUsageBytes())
		require.NotNil(t, resp.GetPostUsage())
	}
	c.onBegin = func() { c.doReclaim(&fsmpb.Reclaimed{Reason: uint32(fsm.Unsupported), Error: "it cannot discard"}) }
	_, err := reclaimspace.NewController(c, c).ControllerReclaimSpace(t.Context(), &spec.ControllerReclaimSpaceRequest{VolumeId: string(c.id)})
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

// S61: a published volume is OK and untouched.
func TestS61_APublishedVolumeIsOKAndUntouched(t *testing.T) {
	c := newTestCluster(t)
	epoch := c.publish()
	for range 2 {
		_, err := reclaimspace.NewController(c, c).ControllerReclaimSpace(t.Context(), &spec.ControllerReclaimSpaceRequest{VolumeId: string(c.id)})
		require.NoError(t, err)
		require.Equal(t, epoch, c.publication().Epoch)
	}
}

// ADD-RS-ControllerReclaimSpace-11, S61: a caller whose time is up is ABORTED, and its retry joins; a publish
// asks the reclaim to end first, is ABORTED, and is granted at the retry.
func TestS61_APublishEndsTheReclaimFirst(t *testing.T) {
	c := newTestCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := reclaimspace.NewController(c, c).ControllerReclaimSpace(ctx, &spec.ControllerReclaimSpaceRequest{VolumeId: string(c.id)})
	require.Equal(t, codes.Aborted, status.Code(err))
	epoch := c.publication().Epoch
	c.stage(epoch, fsm.ReclaimPath)
	publish := &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{VolumeId: string(c.id), NodeId: "n1", Capability: capability()}}}
	_, err = cluster.New(c).ProposeCommand(t.Context(), publish)
	require.ErrorContains(t, err, "retry")
	require.True(t, c.publication().Ending)
	c.report(epoch, &fsmpb.Observation{Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	_, err = cluster.New(c).ProposeCommand(t.Context(), publish)
	require.NoError(t, err)
	require.False(t, c.publication().Reclaim)
}
