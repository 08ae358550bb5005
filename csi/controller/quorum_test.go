package controller_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// TestS4_ExpiredCommands: a command beyond the dedupe window is not applied; the answer
// comes from the state by name, else it is ABORTED.
func TestS4_ExpiredCommands(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "known")
	epoch := w.publish(t, id, mount(writer, ""))
	snapshot, group := w.createSnapshot(t, "s", id), w.createGroup(t, "g", id)
	w.cluster.update(func(c *fakeCluster) {
		c.index += 2 * fsm.DedupeWindow
		c.mutateCommand = func(cmd *fsmpb.Command) {
			cmd.RequestId, cmd.ProposedIndex = fmt.Appendf(nil, "late-%011d", c.index), 1
		}
	})
	require.Equal(t, id, w.create(t, "known"))
	_, err := w.CreateVolume(t.Context(), createRequest("known", withCapacity(5*gib, 0)))
	requireCode(t, codes.AlreadyExists, err)
	_, err = w.CreateVolume(t.Context(), createRequest("unknown"))
	requireCode(t, codes.Aborted, err)

	require.True(t, maps.Equal(epoch, w.publish(t, id, mount(writer, ""))))
	_, err = w.ControllerPublishVolume(t.Context(), publishRequest(id, "n9"))
	requireCode(t, codes.NotFound, err)
	w.requireExpiredSnapshots(t, id, snapshot, group)
	w.requireExpiredChanges(t, id)
	requireCode(t, codes.Aborted, w.unpublish(t, id, "n1"))
	requireCode(t, codes.Aborted, w.delete(t, id))
	require.NoError(t, w.delete(t, unknownID))
	require.Len(t, w.cluster.volumes(), 1)
}

// requireExpiredSnapshots asks for snapshots by commands that come too late.
func (w *env) requireExpiredSnapshots(t *testing.T, id string, snapshot *csi.Snapshot, group *csi.VolumeGroupSnapshot) {
	t.Helper()
	require.Equal(t, snapshot.GetSnapshotId(), w.createSnapshot(t, "s", id).GetSnapshotId())
	_, err := w.CreateSnapshot(t.Context(), &snapshotReq{Name: "s", SourceVolumeId: unknownID})
	requireCode(t, codes.AlreadyExists, err)
	_, err = w.CreateSnapshot(t.Context(), &snapshotReq{Name: "unknown", SourceVolumeId: id})
	requireCode(t, codes.Aborted, err)
	_, err = w.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snapshot.GetSnapshotId()})
	requireCode(t, codes.Aborted, err)
	require.Equal(t, group.GetGroupSnapshotId(), w.createGroup(t, "g", id).GetGroupSnapshotId())
	_, err = w.CreateVolumeGroupSnapshot(t.Context(), &groupReq{Name: "g", SourceVolumeIds: []string{unknownID}})
	requireCode(t, codes.AlreadyExists, err)
	_, err = w.CreateVolumeGroupSnapshot(t.Context(), &groupReq{Name: "unknown", SourceVolumeIds: []string{id}})
	requireCode(t, codes.Aborted, err)
	_, err = w.DeleteVolumeGroupSnapshot(t.Context(), &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId(), SnapshotIds: membersOf(group)})
	requireCode(t, codes.Aborted, err)
	require.Len(t, w.snapshots(t), 2)
}

// requireExpiredChanges grows and modifies by commands that come too late: what holds anyway is
// answered for.
func (w *env) requireExpiredChanges(t *testing.T, id string) {
	t.Helper()
	grow := func(size int64) error {
		_, err := w.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
		return err
	}
	require.NoError(t, grow(gib))
	requireCode(t, codes.Aborted, grow(2*gib))
	modify := func(limit string) error {
		_, err := w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: mapOf("iopsLimit", limit)})
		return err
	}
	require.NoError(t, modify("0"))
	requireCode(t, codes.Aborted, modify("1"))
}

// S28: mutations and reads are UNAVAILABLE at once.
func TestS28_WithoutAQuorum(t *testing.T) {
	w := newEnv(t)
	calls := w.allCalls(t)
	w.cluster.update(func(c *fakeCluster) { c.noQuorum = true })
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { requireCode(t, codes.Unavailable, call(t.Context())) })
	}
}

// S28: they are so, too, where only the caller's deadline ended the wait.
func TestS28_WithoutAQuorumNearTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		calls := w.allCalls(t)
		w.cluster.update(func(c *fakeCluster) { c.unresponsive = true })
		delete(calls, "NodeStageVolume")      // the executor says Unavailable() itself; see csi/node
		delete(calls, "GetMetadataAllocated") // a stream has the caller's own deadline
		var waiting sync.WaitGroup            // each waits for all of its time
		for name, call := range calls {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				assert.Equal(t, codes.Unavailable, status.Code(call(ctx)), "%s near its deadline", name)
			})
		}
		waiting.Wait()
	})
}

// allCalls are one of each kind, about a volume that is published.
func (w *env) allCalls(t *testing.T) map[string]func(context.Context) error {
	t.Helper()
	id := w.create(t, "v")
	context1 := w.publish(t, id, mount(writer, ""))
	return map[string]func(context.Context) error{
		"CreateVolume": func(ctx context.Context) error { _, err := w.CreateVolume(ctx, createRequest("new")); return err },
		"DeleteVolume": func(ctx context.Context) error {
			_, err := w.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		},
		"ControllerPublishVolume": func(ctx context.Context) error {
			_, err := w.ControllerPublishVolume(ctx, publishRequest(id, "n1"))
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
		"CreateSnapshot": func(ctx context.Context) error {
			_, err := w.CreateSnapshot(ctx, &snapshotReq{Name: "s", SourceVolumeId: id})
			return err
		},
		"DeleteSnapshot": func(ctx context.Context) error {
			_, err := w.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: unknownSnapshot})
			return err
		},
		"ListSnapshots": func(ctx context.Context) error {
			_, err := w.ListSnapshots(ctx, &csi.ListSnapshotsRequest{})
			return err
		},
		"GetSnapshot": func(ctx context.Context) error {
			_, err := w.GetSnapshot(ctx, &csi.GetSnapshotRequest{SnapshotId: unknownSnapshot})
			return err
		},
		"ControllerExpandVolume": func(ctx context.Context) error {
			_, err := w.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: gib}})
			return err
		},
		"ControllerModifyVolume": func(ctx context.Context) error {
			_, err := w.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: mapOf("iopsLimit", "1")})
			return err
		},
		"CreateVolumeGroupSnapshot": func(ctx context.Context) error {
			_, err := w.CreateVolumeGroupSnapshot(ctx, &groupReq{Name: "g", SourceVolumeIds: []string{id}})
			return err
		},
		"DeleteVolumeGroupSnapshot": func(ctx context.Context) error {
			_, err := w.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: unknownGroup})
			return err
		},
		"GetVolumeGroupSnapshot": func(ctx context.Context) error {
			_, err := w.GetVolumeGroupSnapshot(ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: unknownGroup})
			return err
		},
		"GetMetadataAllocated": func(ctx context.Context) error {
			stream, err := w.GetMetadataAllocated(ctx, &csi.GetMetadataAllocatedRequest{SnapshotId: unknownSnapshot})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"NodeStageVolume": func(ctx context.Context) error {
			_, err := w.node.NodeStageVolume(ctx, stageRequest(id, "/nowhere", context1, mount(writer, "")))
			return err
		},
	}
}

func stageRequest(id, path string, publishContext map[string]string, c *csi.VolumeCapability) *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: path, PublishContext: publishContext, VolumeCapability: c}
}
