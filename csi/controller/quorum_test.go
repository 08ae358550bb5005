package controller_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// TestS4_TooLate: a command beyond the dedupe window is not applied; the answer
// comes from the state by name, else it is ABORTED.
func TestS4_TooLate(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "known")
	epoch := w.publish(t, id, mount(writer, ""))
	w.cluster.set(func(c *cluster) {
		c.index += 2 * fsm.DedupeWindow
		c.mangle = func(cmd *fsmpb.Command) {
			cmd.RequestId, cmd.ProposedIndex = fmt.Appendf(nil, "late-%011d", c.index), 1
		}
	})
	require.Equal(t, id, w.create(t, "known"))
	_, err := w.CreateVolume(t.Context(), named("known", capacity(5*gib, 0)))
	requireCode(t, codes.AlreadyExists, err)
	_, err = w.CreateVolume(t.Context(), named("unknown"))
	requireCode(t, codes.Aborted, err)

	require.True(t, maps.Equal(epoch, w.publish(t, id, mount(writer, ""))))
	_, err = w.ControllerPublishVolume(t.Context(), publishing(id, "n9"))
	requireCode(t, codes.Aborted, err)
	requireCode(t, codes.Aborted, w.unpublish(t, id, "n1"))
	requireCode(t, codes.Aborted, w.delete(t, id))
	require.NoError(t, w.delete(t, unknownID))
	require.Len(t, w.cluster.volumes(), 1)
}

// TestS28_WithoutAQuorum: mutations and reads are UNAVAILABLE at once, and also
// where only the caller's deadline ended the wait.
func TestS28_WithoutAQuorum(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "v")
	context1 := w.publish(t, id, mount(writer, ""))
	calls := map[string]func(context.Context) error{
		"CreateVolume": func(ctx context.Context) error { _, err := w.CreateVolume(ctx, named("new")); return err },
		"DeleteVolume": func(ctx context.Context) error {
			_, err := w.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		},
		"ControllerPublishVolume": func(ctx context.Context) error {
			_, err := w.ControllerPublishVolume(ctx, publishing(id, "n1"))
			return err
		},
		"ControllerUnpublishVolume": func(ctx context.Context) error {
			_, err := w.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id})
			return err
		},
		"ListVolumes": func(ctx context.Context) error { _, err := w.ListVolumes(ctx, &csi.ListVolumesRequest{}); return err },
		"GetCapacity": func(ctx context.Context) error { _, err := w.GetCapacity(ctx, &csi.GetCapacityRequest{}); return err },
		"ControllerGetVolume": func(ctx context.Context) error {
			_, err := w.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
			return err
		},
		"ValidateVolumeCapabilities": func(ctx context.Context) error {
			_, err := w.ValidateVolumeCapabilities(ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{mount(writer, "")}})
			return err
		},
		"NodeStageVolume": func(ctx context.Context) error {
			_, err := w.node.NodeStageVolume(ctx, staging(id, "/nowhere", context1, mount(writer, "")))
			return err
		},
	}
	w.cluster.set(func(c *cluster) { c.down = true })
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { requireCode(t, codes.Unavailable, call(t.Context())) })
	}
	w.cluster.set(func(c *cluster) { c.down, c.stuck = false, true })
	delete(calls, "NodeStageVolume") // the executor says Unavailable() itself; see csi/node
	var waiting sync.WaitGroup       // each waits for all of its time
	for name, call := range calls {
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			assert.Equal(t, codes.Unavailable, status.Code(call(ctx)), "%s near its deadline", name)
		})
	}
	waiting.Wait()
}

func staging(id, path string, publishContext map[string]string, c *csi.VolumeCapability) *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: path, PublishContext: publishContext, VolumeCapability: c}
}
