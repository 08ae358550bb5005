package conformance

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// lateRows kill or stop a process, or move a pool away, and restore it.
var lateRows = map[string]rowTest{
	"CSI-ID-GetPluginCapabilities-02": rowOf(sameEverywhere),
	"CSI-ID-Probe-02":                 rowOf(func(k *fixture) { k.whilePoolBroken(func(path string) error { return os.Rename(path, path+".away") }) }),
	"CSI-ID-Probe-07":                 rowOf(func(k *fixture) { k.whilePoolBroken(func(path string) error { return os.Rename(path, path+".away") }) }),
	"CSI-ID-Probe-06": rowOf(func(k *fixture) {
		k.whilePoolBroken(func(path string) error {
			if err := os.Rename(path, path+".away"); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("no folder"), 0o600)
		})
	}),
	"CSI-ID-Probe-10": rowOf(func(k *fixture) {
		k.whilePoolBroken(func(path string) error {
			if err := os.Rename(path, path+".away"); err != nil {
				return err
			}
			return os.Symlink("/nonexistent/volumes", path)
		})
	}),

	"CSI-GRP-CreateVolumeGroupSnapshot-02": rowOf(func(k *fixture) { k.groupSnapshotUnderWrites(1) }),
	"CSI-GRP-CreateVolumeGroupSnapshot-03": rowOf(func(k *fixture) { k.groupSnapshotUnderWrites(3) }),
	"CSI-GRP-CreateVolumeGroupSnapshot-06": rowOf(rowFailedGroup(func(k *fixture, sources []string, err error) {
		require.Error(k.t, err)
		require.NoError(k.t, harness.Poll(k.ctx, timeout, "what was cut to be removed", func() (bool, error) {
			return len(k.snapshotsOf(sources)) == 0, nil
		}))
	})),
	"CSI-GRP-CreateVolumeGroupSnapshot-24": rowOf(rowFailedGroup(func(k *fixture, _ []string, err error) {
		k.requireCode("a group of which one member cannot be cut", err, codes.Aborted, codes.FailedPrecondition, codes.Internal, codes.Unavailable)
	})),
	"CSI-GRP-CreateVolumeGroupSnapshot-25": rowOf(rowFailedGroup(func(k *fixture, sources []string, err error) {
		k.requireCode("a group that is not cut", err, codes.Aborted, codes.FailedPrecondition, codes.Internal, codes.Unavailable)
		require.NotEmpty(k.t, err.Error())
	})),
	"CSI-GRP-CreateVolumeGroupSnapshot-22": rowOf(func(k *fixture) {
		raw, other := k.create(harness.Spec{Node: "n1", Block: true}), k.volume()
		k.mountUntilEnd(raw)
		err := k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: k.env.Name("group"), SourceVolumeIds: []string{raw.ID, other.ID}})
		requireRefused(k.t, err, codes.FailedPrecondition)
		require.Empty(k.t, k.snapshotsOf([]string{raw.ID, other.ID}))
	}),
	"CSI-GRP-CreateVolumeGroupSnapshot-23": rowOf(func(k *fixture) {
		two := k.volume()
		here := &csi.Topology{Segments: map[string]string{harness.TopologyKey: "n1"}}
		left, err := k.controller.GetCapacity(k.ctx, &csi.GetCapacityRequest{AccessibleTopology: here})
		require.NoError(k.t, err)
		most := left.GetMaximumVolumeSize().GetValue() / 2 / harness.Mi * harness.Mi
		one := k.create(harness.Spec{Node: "n1", Size: most, Block: true})
		k.fillNodeOf("n1")
		err = k.createGroup(&csi.CreateVolumeGroupSnapshotRequest{Name: k.env.Name("group"), SourceVolumeIds: []string{one.ID, two.ID}})
		requireRefused(k.t, err, codes.ResourceExhausted)
		require.Empty(k.t, k.snapshotsOf([]string{one.ID, two.ID}))
	}),
	"CSI-GRP-DeleteVolumeGroupSnapshot-07": rowOf(func(k *fixture) {
		g := k.group(2)
		req := harness.Spec{Name: k.env.Name("restored"), Node: "n1"}.CreateRequest()
		req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: memberIDs(g)[0]}}}
		resume := k.pauseProcess("n1")
		k.requireAborted(func(ctx context.Context) error { // the command is applied, but the host that must create it is stopped
			_, err := k.controller.CreateVolume(ctx, req)
			return err
		})
		err := k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...)
		resume()
		requireRefused(k.t, err, codes.FailedPrecondition)
		k.createVolumeFrom(req)
		require.NoError(k.t, k.deleteGroup(g.GetGroupSnapshotId(), memberIDs(g)...))
	}),
	"CSI-GRP-GetVolumeGroupSnapshot-07": rowOf(func(k *fixture) {
		g := k.group(1)
		first, second := k.pauseProcess("c2"), k.pauseProcess("c3")
		brief, cancel := context.WithTimeout(k.ctx, 4*time.Second)
		defer cancel()
		res, err := k.groups.GetVolumeGroupSnapshot(brief, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId(), SnapshotIds: memberIDs(g)})
		first()
		second()
		k.requireCode("a group without a majority", err, codes.Unavailable, codes.DeadlineExceeded, codes.Aborted)
		require.Nil(k.t, res)
		require.NoError(k.t, k.awaitHealthy(k.ctx))
		k.untilOK(func() error {
			_, err := k.getGroup(g.GetGroupSnapshotId(), memberIDs(g))
			return err
		})
	}),
}

// pauseProcess stops a process of the shared cluster until the function is called, or the row is over.
func (k *fixture) pauseProcess(id string) func() {
	k.t.Helper()
	pid, err := k.env.Cluster.Signal(id, syscall.SIGSTOP)
	require.NoError(k.t, err)
	var done atomic.Bool
	resume := func() {
		if !done.Swap(true) {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have exited because it was stopped
		}
	}
	k.cleanUpWith(func(ctx context.Context) error { resume(); return k.awaitHealthy(ctx) })
	return resume
}

// whilePoolBroken corrupts the directory of n2's volumes: meanwhile Probe fails, twice, and then recovers.
func (k *fixture) whilePoolBroken(spoil func(path string) error) {
	k.t.Helper()
	l, err := k.env.Cluster.Layout()
	require.NoError(k.t, err)
	path := ""
	for _, n := range l.Nodes {
		if n.ID == "n2" {
			path = filepath.Join(n.PoolDir, "volumes")
		}
	}
	repair := func() error {
		if _, err := os.Stat(path + ".away"); err != nil {
			return ignoreMissing(err)
		}
		if err := ignoreMissing(os.Remove(path)); err != nil {
			return err
		}
		return os.Rename(path+".away", path)
	}
	k.cleanUpWith(func(ctx context.Context) error {
		if err := repair(); err != nil {
			return err
		}
		return k.awaitHealthy(ctx)
	})
	require.NoError(k.t, spoil(path))
	for range 2 {
		res, err := k.identity("n2").Probe(k.ctx, &csi.ProbeRequest{})
		requireRefused(k.t, err, codes.FailedPrecondition)
		require.Nil(k.t, res)
	}
	require.NoError(k.t, repair())
	k.awaitReady("n2", k.csiProbe("n2"))
}

// rowFailedGroup makes a row of a group snapshot of three volumes, of which the second one's file was moved away.
func rowFailedGroup(see func(k *fixture, sources []string, err error)) func(*fixture) {
	return func(k *fixture) {
		sources := k.volumes(3)
		l, err := k.env.Cluster.Layout()
		require.NoError(k.t, err)
		image := filepath.Join(l.Nodes[0].PoolDir, "volumes", sources[1]+".img")
		require.NoError(k.t, os.Rename(image, image+".away"))
		back := func() error { return ignoreMissing(os.Rename(image+".away", image)) }
		k.cleanUpWith(func(context.Context) error { return back() })
		req := &csi.CreateVolumeGroupSnapshotRequest{Name: k.env.Name("group"), SourceVolumeIds: sources}
		var res *csi.CreateVolumeGroupSnapshotResponse
		require.NoError(k.t, harness.Poll(k.ctx, timeout, "an answer before the deadline", func() (bool, error) {
			brief, cancel := context.WithTimeout(k.ctx, 5*time.Second)
			defer cancel()
			res, err = k.groups.CreateVolumeGroupSnapshot(brief, req)
			return status.Code(err) != codes.DeadlineExceeded, err
		}))
		if err == nil {
			k.deleteGroupLater(res.GetGroupSnapshot())
		}
		see(k, sources, err)
		require.NoError(k.t, back())
		require.NoError(k.t, harness.Poll(k.ctx, timeout, "nothing of the group to be left", func() (bool, error) {
			return len(k.snapshotsOf(sources)) == 0, nil
		}))
	}
}

// groupSnapshotUnderWrites writes increasing numbers to three volumes in turn, with several concurrent writers,
// takes a group snapshot, and restores it: no volume is ahead of one that was written before it, and none is
// more than a round behind.
func (k *fixture) groupSnapshotUnderWrites(writers int) {
	var volumes []*harness.Volume
	var ids []string
	for range 3 {
		v := k.volume()
		k.mountUntilEnd(v)
		volumes, ids = append(volumes, v), append(ids, v.ID)
	}
	ctx, stop := context.WithCancel(k.ctx)
	rounds := make([]atomic.Int64, writers)
	done := make(chan error, writers)
	for i := range writers {
		go func() { done <- writeRounds(ctx, volumes, i, &rounds[i]) }()
	}
	require.NoError(k.t, harness.Poll(k.ctx, timeout, "every writer to have written", func() (bool, error) {
		for i := range rounds {
			if rounds[i].Load() < 3 {
				return false, nil
			}
		}
		return true, nil
	}))
	res, err := k.groups.CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: k.env.Name("group"), SourceVolumeIds: ids})
	stop()
	for range writers {
		require.NoError(k.t, <-done)
	}
	require.NoError(k.t, err)
	k.deleteGroupLater(res.GetGroupSnapshot())
	seen := make([][]int64, writers)
	for _, id := range ids {
		for _, s := range res.GetGroupSnapshot().GetSnapshots() {
			if s.GetSourceVolumeId() != id {
				continue
			}
			restored := k.restore(s.GetSnapshotId())
			k.mountUntilEnd(restored)
			for i := range writers {
				raw, err := os.ReadFile(markOf(restored, i))
				require.NoError(k.t, err)
				require.Len(k.t, raw, 8)
				seen[i] = append(seen[i], int64(binary.BigEndian.Uint64(raw)))
			}
		}
	}
	for _, at := range seen {
		require.Len(k.t, at, 3)
		require.GreaterOrEqual(k.t, at[0], at[1], "%v", at)
		require.GreaterOrEqual(k.t, at[1], at[2], "%v", at)
		require.LessOrEqual(k.t, at[0]-at[2], int64(1), "%v", at)
	}
}

func markOf(v *harness.Volume, writer int) string {
	return filepath.Join(v.Target, fmt.Sprintf("mark-%d", writer))
}

// writeRounds writes a number to all volumes in turn, each time to the disk, then the next number.
func writeRounds(ctx context.Context, volumes []*harness.Volume, writer int, round *atomic.Int64) error {
	var files []*os.File
	for _, v := range volumes {
		f, err := os.OpenFile(markOf(v, writer), os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		files = append(files, f)
	}
	for n := int64(1); ctx.Err() == nil; n++ {
		for _, f := range files {
			if _, err := f.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(n)), 0); err != nil {
				return err
			}
		}
		round.Store(n)
	}
	return nil
}
