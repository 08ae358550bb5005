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

// faultRows kill and stop processes, or take files away.
var faultRows = map[string]rowTest{
	"CSI-CTRL-CreateVolume-03": with(func(k *kit) {
		req := k.asked()
		v := k.answered(req)
		k.failover()
		k.everyController(func(_ string, c csi.ControllerClient) {
			k.done(func() error {
				res, err := c.CreateVolume(k.ctx, req)
				if err == nil {
					requireSame(k, v, res.GetVolume())
				}
				return err
			})
		})
	}),
	"CSI-CTRL-ControllerPublishVolume-24": with(func(k *kit) {
		req := publication(k.made().GetVolumeId())
		first := k.published(req)
		k.failover()
		k.everyController(func(_ string, c csi.ControllerClient) {
			k.done(func() error {
				res, err := c.ControllerPublishVolume(k.ctx, req)
				if err == nil {
					require.Equal(k.t, first, res.GetPublishContext())
				}
				return err
			})
		})
	}),
	"CSI-CTRL-CreateSnapshot-22": with(func(k *kit) {
		before := time.Now().Add(-time.Second)
		req := k.cutting(k.made().GetVolumeId())
		cut := k.cut(req)
		require.WithinRange(k.t, cut.GetCreationTime().AsTime(), before, time.Now().Add(time.Second))
		k.failover()
		requireSame(k, cut.GetCreationTime(), k.cut(req).GetCreationTime())
		requireSame(k, cut.GetCreationTime(), k.listedSnapshots(&csi.ListSnapshotsRequest{SnapshotId: cut.GetSnapshotId()})[0].GetCreationTime())
		got, err := k.ctl.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: cut.GetSnapshotId()})
		require.NoError(k.t, err)
		requireSame(k, cut.GetCreationTime(), got.GetSnapshot().GetCreationTime())
	}),

	"CSI-CTRL-CreateVolume-40": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		req := k.asked()
		k.after(func(ctx context.Context) error {
			res, err := k.ctl.CreateVolume(ctx, req)
			if err == nil {
				_, err = k.ctl.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: res.GetVolume().GetVolumeId()})
			}
			return err
		})
		return func(ctx context.Context) error {
			_, err := k.ctl.CreateVolume(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-DeleteVolume-09": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		req := &csi.DeleteVolumeRequest{VolumeId: k.made().GetVolumeId()}
		return func(ctx context.Context) error {
			_, err := k.ctl.DeleteVolume(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-ControllerPublishVolume-23": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		req := publication(k.made().GetVolumeId())
		k.after(func(ctx context.Context) error {
			_, err := k.ctl.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: req.GetVolumeId()})
			return err
		})
		return func(ctx context.Context) error {
			_, err := k.ctl.ControllerPublishVolume(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-ControllerUnpublishVolume-11": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		id := k.made().GetVolumeId()
		k.published(publication(id))
		return func(ctx context.Context) error {
			_, err := k.ctl.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n1"})
			return err
		}
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-13": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		req := k.validation()
		return func(ctx context.Context) error {
			_, err := k.ctl.ValidateVolumeCapabilities(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-ListVolumes-15": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := k.ctl.ListVolumes(ctx, &csi.ListVolumesRequest{})
			return err
		}
	}),
	"CSI-CTRL-ControllerGetVolume-08": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		id := k.made().GetVolumeId()
		return func(ctx context.Context) error {
			_, err := k.ctl.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
			return err
		}
	}),
	"CSI-CTRL-GetCapacity-10": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := k.ctl.GetCapacity(ctx, &csi.GetCapacityRequest{})
			return err
		}
	}),
	"CSI-CTRL-CreateSnapshot-26": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		req := k.cutting(k.made().GetVolumeId())
		k.after(func(ctx context.Context) error {
			res, err := k.ctl.CreateSnapshot(ctx, req)
			if err == nil {
				_, err = k.ctl.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: res.GetSnapshot().GetSnapshotId()})
			}
			return err
		})
		return func(ctx context.Context) error {
			_, err := k.ctl.CreateSnapshot(ctx, req)
			return err
		}
	}),
	"CSI-CTRL-DeleteSnapshot-07": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		id := k.cut(k.cutting(k.made().GetVolumeId())).GetSnapshotId()
		return func(ctx context.Context) error {
			_, err := k.ctl.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
			return err
		}
	}),
	"CSI-CTRL-ListSnapshots-16": withoutQuorum(func(k *kit) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := k.ctl.ListSnapshots(ctx, &csi.ListSnapshotsRequest{})
			return err
		}
	}),

	"CSI-CTRL-DeleteVolume-04": with(func(k *kit) {
		v := k.made()
		req := &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()}
		k.stopped([]string{"n1"}, func() {
			k.pending(func(ctx context.Context) error {
				_, err := k.ctl.DeleteVolume(ctx, req)
				return err
			})
			k.killed("n1")
		})
		require.NoError(k.t, retried(k.ctx, func(ctx context.Context) error {
			_, err := k.ctl.DeleteVolume(ctx, req)
			return err
		}))
		images, err := k.w.Cluster.Images("n1")
		require.NoError(k.t, err)
		require.NotContains(k.t, images, v.GetVolumeId())
		require.Nil(k.t, k.listed(v.GetVolumeId()))
	}),
	"CSI-CTRL-CreateSnapshot-17": with(cutThatWaits),
	"CSI-CTRL-ListSnapshots-03":  with(cutThatWaits),
	"CSI-CTRL-DeleteSnapshot-06": with(func(k *kit) {
		id := k.cut(k.cutting(k.made().GetVolumeId())).GetSnapshotId()
		call := func(ctx context.Context) error {
			_, err := k.ctl.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
			return err
		}
		k.stopped([]string{"n1"}, func() {
			for range 2 {
				k.pending(call)
			}
		})
		require.NoError(k.t, retried(k.ctx, call))
	}),
	"CSI-CTRL-DeleteSnapshot-05": with(func(k *kit) {
		id := k.cut(k.cutting(k.made().GetVolumeId())).GetSnapshotId()
		req := k.asked(ofSnapshot(id))
		create := func(ctx context.Context) error {
			_, err := k.ctl.CreateVolume(ctx, req)
			return err
		}
		k.stopped([]string{"n1"}, func() {
			k.pending(create)
			for range 2 {
				refused(k.t, k.uncut(&csi.DeleteSnapshotRequest{SnapshotId: id}), codes.FailedPrecondition)
			}
		})
		require.NoError(k.t, retried(k.ctx, create))
		k.answered(req)
	}),
	"CSI-CTRL-CreateSnapshot-04": with(cutThatFails),
	"CSI-CTRL-CreateSnapshot-08": with(cutThatFails),
	"CSI-CTRL-CreateSnapshot-28": with(cutThatFails),
	"CSI-CTRL-ControllerExpandVolume-13": with(func(k *kit) {
		id := k.made().GetVolumeId()
		old := func(size int64) {
			k.t.Helper()
			require.Equal(k.t, size, k.get(id).GetVolume().GetCapacityBytes())
			require.Equal(k.t, size, k.listed(id).GetVolume().GetCapacityBytes())
			file, err := os.Stat(k.imageOf(id))
			require.NoError(k.t, err)
			require.Equal(k.t, size, file.Size())
		}
		for range 2 {
			_, err := k.expansion(growth(id, 15<<40, 0))
			refused(k.t, err, codes.ResourceExhausted)
			old(16 * harness.Mi)
		}
		grow := func(ctx context.Context) error {
			_, err := k.ctl.ControllerExpandVolume(ctx, growth(id, 20*harness.Mi, 0))
			return err
		}
		k.stopped([]string{"n1"}, func() {
			k.pending(grow)
			k.killed("n1")
		})
		require.NoError(k.t, retried(k.ctx, grow))
		old(20 * harness.Mi)
	}),

	"CSI-CTRL-VolumeCondition-02": with(conditionOfLostNode),
	"CSI-CTRL-VolumeCondition-03": with(conditionOfLostNode),
	"CSI-CTRL-VolumeCondition-04": with(func(k *kit) {
		v := k.made()
		u := k.inUse(v, mounted(writer, "ext4"), false)
		atNode := func() *csi.VolumeCondition {
			k.t.Helper()
			res, err := k.w.Node(k.t).NodeGetVolumeStats(k.ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: v.GetVolumeId(), VolumePath: u.targets[0]})
			require.NoError(k.t, err)
			return res.GetVolumeCondition()
		}
		k.stopped([]string{"c1", "c2", "c3"}, func() { k.conditionIsTold(atNode()) })
		k.settled()
		k.stopped([]string{"n1"}, func() { k.conditionIsTold(k.get(v.GetVolumeId()).GetStatus().GetVolumeCondition()) })
		k.hidden(v.GetVolumeId(), func() { require.True(k.t, atNode().GetAbnormal()) })
		k.conditionIsTold(atNode())
	}),
}

// killed kills a child and waits for its next process.
func (k *kit) killed(id string) {
	k.t.Helper()
	pid, err := k.w.Cluster.Signal(id, syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, k.w.Cluster.AwaitOther(k.ctx, id, pid))
}

// cutThatWaits: a snapshot that cannot be cut yet is pending, and not listed.
func cutThatWaits(k *kit) {
	req := k.cutting(k.made().GetVolumeId())
	call := func(ctx context.Context) error {
		_, err := k.ctl.CreateSnapshot(ctx, req)
		return err
	}
	k.stopped([]string{"n1"}, func() {
		for range 2 {
			k.pending(call)
			require.Empty(k.t, k.cutsOf([]string{req.GetSourceVolumeId()}))
		}
	})
	require.NoError(k.t, retried(k.ctx, call))
	require.Equal(k.t, []string{k.cut(req).GetSnapshotId()}, k.cutsOf([]string{req.GetSourceVolumeId()}))
}

// cutThatFails: of a volume whose file is elsewhere nothing is cut; every call says so.
func cutThatFails(k *kit) {
	v := k.made()
	req := k.cutting(v.GetVolumeId())
	call := func(ctx context.Context) error {
		_, err := k.ctl.CreateSnapshot(ctx, req)
		return err
	}
	k.hidden(v.GetVolumeId(), func() {
		for range 2 {
			err := retried(k.ctx, call)
			require.Error(k.t, err)
			require.False(k.t, harness.Retriable(err), "%v", err)
			require.Empty(k.t, k.cutsOf([]string{v.GetVolumeId()}))
		}
	})
	require.Empty(k.t, k.cutsOf([]string{v.GetVolumeId()}))
}

// conditionOfLostNode: a volume whose host does not answer is abnormal until it does.
func conditionOfLostNode(k *kit) {
	id := k.made(at(places("n2"), nil)).GetVolumeId()
	k.conditionIsTold(k.get(id).GetStatus().GetVolumeCondition())
	until := func(abnormal bool) {
		k.t.Helper()
		err := harness.Poll(k.ctx, patience, "the condition to change", func() (bool, error) {
			c := k.get(id).GetStatus().GetVolumeCondition()
			require.NotEmpty(k.t, c.GetMessage())
			require.LessOrEqual(k.t, len(c.GetMessage()), 128)
			return c.GetAbnormal() == abnormal, nil
		})
		require.NoError(k.t, err)
	}
	k.stopped([]string{"n2"}, func() { until(true) })
	until(false)
}
