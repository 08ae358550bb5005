package conformance

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// faultRows kill and stop processes, or move files away.
var faultRows = map[string]rowTest{
	"CSI-CTRL-CreateVolume-03": rowOf(func(k *fixture) {
		req := k.newCreateRequest()
		v := k.createVolumeFrom(req)
		k.failover()
		k.everyController(func(_ string, c csi.ControllerClient) {
			k.untilOK(func() error {
				res, err := c.CreateVolume(k.ctx, req)
				if err == nil {
					requireSame(k, v, res.GetVolume())
				}
				return err
			})
		})
	}),
	"CSI-CTRL-ControllerPublishVolume-24": rowOf(func(k *fixture) {
		req := publication(k.createVolume().GetVolumeId())
		first := k.published(req)
		k.failover()
		k.everyController(func(_ string, c csi.ControllerClient) {
			k.untilOK(func() error {
				res, err := c.ControllerPublishVolume(k.ctx, req)
				if err == nil {
					require.Equal(k.t, first, res.GetPublishContext())
				}
				return err
			})
		})
	}),
	"CSI-CTRL-CreateSnapshot-22": rowOf(func(k *fixture) {
		before := time.Now().Add(-time.Second)
		req := k.newSnapshotRequest(k.createVolume().GetVolumeId())
		snapshot := k.createSnapshotFrom(req)
		require.WithinRange(k.t, snapshot.GetCreationTime().AsTime(), before, time.Now().Add(time.Second))
		k.failover()
		requireSame(k, snapshot.GetCreationTime(), k.createSnapshotFrom(req).GetCreationTime())
		requireSame(k, snapshot.GetCreationTime(), k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: snapshot.GetSnapshotId()})[0].GetCreationTime())
		got, err := k.controller.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: snapshot.GetSnapshotId()})
		require.NoError(k.t, err)
		requireSame(k, snapshot.GetCreationTime(), got.GetSnapshot().GetCreationTime())
	}),

	"CSI-CTRL-CreateVolume-40": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		req := k.newCreateRequest()
		k.cleanUpWith(func(ctx context.Context) error {
			res, err := k.controller.CreateVolume(ctx, req)
			if err == nil {
				_, err = k.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: res.GetVolume().GetVolumeId()})
			}
			return err
		})
		return func(ctx context.Context) error {
			_, err := k.controller.CreateVolume(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-DeleteVolume-09": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		req := &csi.DeleteVolumeRequest{VolumeId: k.createVolume().GetVolumeId()}
		return func(ctx context.Context) error {
			_, err := k.controller.DeleteVolume(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-ControllerPublishVolume-23": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		req := publication(k.createVolume().GetVolumeId())
		k.cleanUpWith(func(ctx context.Context) error {
			_, err := k.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: req.GetVolumeId()})
			return err
		})
		return func(ctx context.Context) error {
			_, err := k.controller.ControllerPublishVolume(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-ControllerUnpublishVolume-11": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		id := k.createVolume().GetVolumeId()
		k.published(publication(id))
		return func(ctx context.Context) error {
			_, err := k.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n1"})
			return err
		}
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-13": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		req := k.validation()
		return func(ctx context.Context) error {
			_, err := k.controller.ValidateVolumeCapabilities(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-ListVolumes-15": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := k.controller.ListVolumes(ctx, &csi.ListVolumesRequest{})
			return err
		}
	}),
	"CSI-CTRL-ControllerGetVolume-08": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		id := k.createVolume().GetVolumeId()
		return func(ctx context.Context) error {
			_, err := k.controller.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
			return err
		}
	}),
	"CSI-CTRL-GetCapacity-10": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := k.controller.GetCapacity(ctx, &csi.GetCapacityRequest{})
			return err
		}
	}),
	"CSI-CTRL-CreateSnapshot-26": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		req := k.newSnapshotRequest(k.createVolume().GetVolumeId())
		k.cleanUpWith(func(ctx context.Context) error {
			res, err := k.controller.CreateSnapshot(ctx, req)
			if err == nil {
				_, err = k.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: res.GetSnapshot().GetSnapshotId()})
			}
			return err
		})
		return func(ctx context.Context) error {
			_, err := k.controller.CreateSnapshot(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-DeleteSnapshot-07": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		id := k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId())).GetSnapshotId()
		return func(ctx context.Context) error {
			_, err := k.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
			return err
		}
	}),
	"CSI-CTRL-ListSnapshots-16": withoutQuorum(func(k *fixture) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := k.controller.ListSnapshots(ctx, &csi.ListSnapshotsRequest{})
			return err
		}
	}),

	"CSI-CTRL-DeleteVolume-04": rowOf(func(k *fixture) {
		v := k.createVolume()
		req := &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()}
		k.whileStopped([]string{"n1"}, func() {
			k.requireAborted(func(ctx context.Context) error {
				_, err := k.controller.DeleteVolume(ctx, req)
				return err
			})
			k.killAndAwaitRestart("n1")
		})
		require.NoError(k.t, retried(k.ctx, func(ctx context.Context) error {
			_, err := k.controller.DeleteVolume(ctx, req)
			return err
		}))
		images, err := k.env.Cluster.Images("n1")
		require.NoError(k.t, err)
		require.NotContains(k.t, images, v.GetVolumeId())
		require.Nil(k.t, k.listEntry(v.GetVolumeId()))
	}),
	"CSI-CTRL-CreateSnapshot-17": rowOf(snapshotIsPending),
	"CSI-CTRL-ListSnapshots-03":  rowOf(snapshotIsPending),
	"CSI-CTRL-DeleteSnapshot-06": rowOf(func(k *fixture) {
		id := k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId())).GetSnapshotId()
		call := func(ctx context.Context) error {
			_, err := k.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
			return err
		}
		k.whileStopped([]string{"n1"}, func() {
			for range 2 {
				k.requireAborted(call)
			}
		})
		require.NoError(k.t, retried(k.ctx, call))
	}),
	"CSI-CTRL-DeleteSnapshot-05": rowOf(func(k *fixture) {
		id := k.createSnapshotFrom(k.newSnapshotRequest(k.createVolume().GetVolumeId())).GetSnapshotId()
		req := k.newCreateRequest(fromSnapshot(id))
		create := func(ctx context.Context) error {
			_, err := k.controller.CreateVolume(ctx, req)
			return err
		}
		k.whileStopped([]string{"n1"}, func() {
			k.requireAborted(create)
			for range 2 {
				requireRefused(k.t, k.deleteSnapshot(&csi.DeleteSnapshotRequest{SnapshotId: id}), codes.FailedPrecondition)
			}
		})
		require.NoError(k.t, retried(k.ctx, create))
		k.createVolumeFrom(req)
	}),
	"CSI-CTRL-CreateSnapshot-04": rowOf(snapshotFails),
	"CSI-CTRL-CreateSnapshot-08": rowOf(snapshotFails),
	"CSI-CTRL-CreateSnapshot-28": rowOf(snapshotFails),
	"CSI-CTRL-ControllerExpandVolume-13": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		old := func(size int64) {
			k.t.Helper()
			require.Equal(k.t, size, k.get(id).GetVolume().GetCapacityBytes())
			require.Equal(k.t, size, k.listEntry(id).GetVolume().GetCapacityBytes())
			file, err := os.Stat(k.imageOf(id))
			require.NoError(k.t, err)
			require.Equal(k.t, size, file.Size())
		}
		for range 2 {
			_, err := k.expansion(growth(id, 15<<40, 0))
			requireRefused(k.t, err, codes.ResourceExhausted)
			old(16 * harness.Mi)
		}
		grow := func(ctx context.Context) error {
			_, err := k.controller.ControllerExpandVolume(ctx, growth(id, 20*harness.Mi, 0))
			return err
		}
		k.whileStopped([]string{"n1"}, func() {
			k.requireAborted(grow)
			k.killAndAwaitRestart("n1")
		})
		require.NoError(k.t, retried(k.ctx, grow))
		old(20 * harness.Mi)
	}),

	"CSI-CTRL-VolumeCondition-02": rowOf(conditionOfLostNode),
	"CSI-CTRL-VolumeCondition-03": rowOf(conditionOfLostNode),
	"CSI-CTRL-VolumeCondition-04": rowOf(func(k *fixture) {
		v := k.createVolume()
		u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
		atNode := func() *csi.VolumeCondition {
			k.t.Helper()
			res, err := k.env.Node(k.t).NodeGetVolumeStats(k.ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: v.GetVolumeId(), VolumePath: u.targets[0]})
			require.NoError(k.t, err)
			return res.GetVolumeCondition()
		}
		k.whileStopped([]string{"c1", "c2", "c3"}, func() { k.requireCondition(atNode()) })
		k.awaitAllControllers()
		k.whileStopped([]string{"n1"}, func() { k.requireCondition(k.get(v.GetVolumeId()).GetStatus().GetVolumeCondition()) })
		k.whileHidden(v.GetVolumeId(), func() { require.True(k.t, atNode().GetAbnormal()) })
		k.requireCondition(atNode())
	}),
}

// killAndAwaitRestart kills a child and waits for its next process.
func (k *fixture) killAndAwaitRestart(id string) {
	k.t.Helper()
	pid, err := k.env.Cluster.Signal(id, syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, k.env.Cluster.AwaitNewPID(k.ctx, id, pid))
}

// snapshotIsPending: a snapshot that cannot be taken yet is pending, and not listed.
func snapshotIsPending(k *fixture) {
	req := k.newSnapshotRequest(k.createVolume().GetVolumeId())
	call := func(ctx context.Context) error {
		_, err := k.controller.CreateSnapshot(ctx, req)
		return err
	}
	k.whileStopped([]string{"n1"}, func() {
		for range 2 {
			k.requireAborted(call)
			require.Empty(k.t, k.snapshotsOf([]string{req.GetSourceVolumeId()}))
		}
	})
	require.NoError(k.t, retried(k.ctx, call))
	require.Equal(k.t, []string{k.createSnapshotFrom(req).GetSnapshotId()}, k.snapshotsOf([]string{req.GetSourceVolumeId()}))
}

// snapshotFails: no snapshot is taken of a volume whose file was moved away; every call reports it.
func snapshotFails(k *fixture) {
	v := k.createVolume()
	req := k.newSnapshotRequest(v.GetVolumeId())
	call := func(ctx context.Context) error {
		_, err := k.controller.CreateSnapshot(ctx, req)
		return err
	}
	k.whileHidden(v.GetVolumeId(), func() {
		for range 2 {
			err := retried(k.ctx, call)
			require.Error(k.t, err)
			require.False(k.t, harness.Retriable(err), "%v", err)
			require.Empty(k.t, k.snapshotsOf([]string{v.GetVolumeId()}))
		}
	})
	require.Empty(k.t, k.snapshotsOf([]string{v.GetVolumeId()}))
}

// conditionOfLostNode: a volume whose host does not answer is abnormal until it does.
func conditionOfLostNode(k *fixture) {
	id := k.createVolume(withTopology(nodeTerms("n2"), nil)).GetVolumeId()
	k.requireCondition(k.get(id).GetStatus().GetVolumeCondition())
	until := func(abnormal bool) {
		k.t.Helper()
		err := harness.Poll(k.ctx, timeout, "the condition to change", func() (bool, error) {
			c := k.get(id).GetStatus().GetVolumeCondition()
			require.NotEmpty(k.t, c.GetMessage())
			require.LessOrEqual(k.t, len(c.GetMessage()), 128)
			return c.GetAbnormal() == abnormal, nil
		})
		require.NoError(k.t, err)
	}
	k.whileStopped([]string{"n2"}, func() { until(true) })
	until(false)
}
