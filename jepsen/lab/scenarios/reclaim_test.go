package scenarios

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

const (
	// reclaimSize is of a volume whose space is reclaimed, deletedBytes what is written there and deleted.
	reclaimSize  = 192 * mi
	deletedBytes = 64 * mi
	// givenBack is the least of it that is given back: its blocks begin and end within a pool's chunks, and the filesystem's
	// journal goes on taking chunks until it was written through once (lazy_journal_init).
	givenBack = deletedBytes * 85 / 100
	// beside lies beside it, and stays.
	besideBytes = 8 * mi
)

// S61, ADD-RS-NodeReclaimSpace-03, ADD-RS-ControllerReclaimSpace-04: what was deleted in a filesystem of two replicas
// is back in the pools of both hosts, whether the volume is staged or nobody uses it. What lies beside it is what it
// was, while the volume is cut, grown, published and written to.
func TestS61_BothReplicasGiveBackWhatWasDeleted(t *testing.T) {
	w := newScenario(t)
	v := w.replicatedOf(t, "reclaim", reclaimSize, false)
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	beside := w.fill(t, v, "n1", "beside", besideBytes)

	t.Run("staged", func(t *testing.T) {
		before := w.writeAndDelete(t, v, "n1")
		w.awaitReclaimed(t, v, before, func(ctx context.Context) error { return w.reclaimStaged(ctx, v, "n1") })
		require.Equal(t, beside, w.sum(t, v, "n1", "beside"))
	})
	t.Run("beside writes, snapshots and growth", func(t *testing.T) { w.reclaimBesideOthers(t, v, beside) })
	t.Run("unpublished", func(t *testing.T) {
		before := w.writeAndDelete(t, v, "n1")
		w.unstageAndUnpublish(t, v, "n1")
		w.awaitReclaimed(t, v, before, func(ctx context.Context) error { return w.reclaimUnpublished(ctx, v) })
		w.publishDuringReclaim(t, v, "n2")
		require.Equal(t, beside, w.sum(t, v, "n2", "beside"))
	})
	w.unstageAndUnpublish(t, v, "n2")
	w.noSplitBrain(t)
}

// writeAndDelete writes files and deletes them; it answers how much the replicas occupied meanwhile.
func (w *env) writeAndDelete(t *testing.T, v *volume, node string) map[string]int64 {
	t.Helper()
	lab.AwaitInodeTables(t, w.guest(node), timeout)
	empty := w.allocatedOnBoth(t, v)
	w.fill(t, v, node, "deleted", deletedBytes)
	full := w.allocatedOnBoth(t, v)
	for _, n := range v.hosts {
		require.GreaterOrEqual(t, full[n]-empty[n], int64(givenBack), "%s: it was allocated", n)
	}
	w.mustExec(t, node, fmt.Sprintf("rm %[1]s/deleted && sync -f %[1]s", v.target()))
	return full
}

// fill writes a file of random bytes, and answers its checksum.
func (w *env) fill(t *testing.T, v *volume, node, name string, bytes int64) string {
	t.Helper()
	w.mustExec(t, node, fmt.Sprintf("dd if=/dev/urandom of=%s/%s bs=1M count=%d conv=fsync 2>/dev/null", v.target(), name, bytes/mi))
	return w.sum(t, v, node, name)
}

// sum is a file's checksum, past the page cache.
func (w *env) sum(t *testing.T, v *volume, node, name string) string {
	t.Helper()
	return strings.Fields(w.mustExec(t, node, fmt.Sprintf("echo 3 >/proc/sys/vm/drop_caches; sha256sum %s/%s", v.target(), name)))[0]
}

// allocatedOnBoth is how much each host's pool has given to the volume, by the pool itself.
func (w *env) allocatedOnBoth(t *testing.T, v *volume) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, n := range v.hosts {
		// Of a thin device the status has the sectors that are mapped.
		out := w.mustExec(t, n, fmt.Sprintf("dmsetup status vg-%s", strings.ReplaceAll(v.id, "-", "--")))
		fields := strings.Fields(out)
		require.Greater(t, len(fields), 3, out)
		require.Equal(t, "thin", fields[2], out)
		sectors, err := strconv.ParseInt(fields[3], 10, 64)
		require.NoError(t, err, out)
		all[n] = sectors * 512
	}
	return all
}

// awaitReclaimed reclaims until both pools have back what was deleted: a filesystem frees in the background, too.
func (w *env) awaitReclaimed(t *testing.T, v *volume, before map[string]int64, reclaim func(context.Context) error) {
	t.Helper()
	eventually(t, timeout, v.name+" gives back what was deleted", func(ctx context.Context) error {
		if err := reclaim(ctx); err != nil {
			return err
		}
		now := w.allocatedOnBoth(t, v)
		for n, was := range before {
			if back := was - now[n]; back < givenBack {
				return fmt.Errorf("%s has %d bytes back of %d, of %v there are %v", n, back, deletedBytes, before, now)
			}
		}
		return nil
	})
}

// reclaimStaged is what the published controller of CSI-Addons asks of a node: it leaves volume_path empty.
func (w *env) reclaimStaged(ctx context.Context, v *volume, node string) error {
	conn, err := w.cluster.NodeCSI(w.guest(node).Index)
	if err != nil {
		return err
	}
	return retryUntil(ctx, "reclaim "+v.name+" on "+node, func(ctx context.Context) error {
		resp, err := reclaimspace.NewReclaimSpaceNodeClient(conn).NodeReclaimSpace(ctx, &reclaimspace.NodeReclaimSpaceRequest{
			VolumeId: v.id, StagingTargetPath: v.staging(), VolumeCapability: v.capability()})
		return usageKnown(err, resp.GetPreUsage(), resp.GetPostUsage())
	})
}

func (w *env) reclaimUnpublished(ctx context.Context, v *volume) error {
	return retryUntil(ctx, "reclaim "+v.name, func(ctx context.Context) error {
		resp, err := w.beginReclaim(ctx, v)
		return usageKnown(err, resp.GetPreUsage(), resp.GetPostUsage())
	})
}

func (w *env) beginReclaim(ctx context.Context, v *volume) (*reclaimspace.ControllerReclaimSpaceResponse, error) {
	conn, err := w.cluster.ControllerCSI(int(w.co.takeTurn()) + 1)
	if err != nil {
		return nil, err
	}
	return reclaimspace.NewReclaimSpaceControllerClient(conn).ControllerReclaimSpace(ctx, &reclaimspace.ControllerReclaimSpaceRequest{
		VolumeId: v.id, Parameters: v.context})
}

func usageKnown(err error, before, after *reclaimspace.StorageConsumption) error {
	if err == nil && (before == nil || after == nil) {
		err = fmt.Errorf("the pool's usage is not known")
	}
	return err
}

// reclaimBesideOthers reclaims again and again while a workload writes and the volume is cut and grown.
func (w *env) reclaimBesideOthers(t *testing.T, v *volume, beside string) {
	x := w.write(t, v, "n1", 1)
	end, failed := make(chan struct{}), make(chan error, 1)
	go func() { failed <- w.reclaimUntil(end, v, "n1") }()
	snapshot := w.cut(t, v, "beside")
	for i := range int64(2) {
		w.fill(t, v, "n1", "deleted", 16*mi)
		w.mustExec(t, "n1", fmt.Sprintf("rm %s/deleted", v.target()))
		v.size += 16 * mi * (i + 1)
		w.expand(t, v, "n1")
	}
	x.awaitBlocks(t, 50)
	close(end)
	require.NoError(t, <-failed)
	last := x.stop(t)
	require.Empty(t, last.Error)
	w.requireAcknowledged(t, v, "n1", last.Number)
	require.Equal(t, beside, w.sum(t, v, "n1", "beside"))
	require.Equal(t, beside, w.sumOfSnapshot(t, v, snapshot, "beside"))
	w.deleteSnapshot(t, snapshot)
}

// reclaimUntil answers the first refusal that is not one because something else went first.
func (w *env) reclaimUntil(end <-chan struct{}, v *volume, node string) error {
	for {
		select {
		case <-end:
			return nil
		case <-time.After(50 * time.Millisecond):
		}
		if err := w.reclaimStaged(context.Background(), v, node); err != nil {
			return err
		}
	}
}

func (w *env) cut(t *testing.T, v *volume, name string) string {
	t.Helper()
	var id string
	err := w.co.callAnyController(t.Context(), "cut "+v.name, func(ctx context.Context, c csi.ControllerClient) error {
		resp, err := c.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{SourceVolumeId: v.id, Name: fmt.Sprintf("%s-%s", v.name, name)})
		if id = resp.GetSnapshot().GetSnapshotId(); err == nil && !resp.GetSnapshot().GetReadyToUse() {
			err = status.Error(codes.Aborted, "it is not ready")
		}
		return err
	})
	require.NoError(t, err)
	return id
}

func (w *env) deleteSnapshot(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, w.co.callAnyController(t.Context(), "delete "+id, func(ctx context.Context, c csi.ControllerClient) error {
		_, err := c.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
		return err
	}))
}

// sumOfSnapshot restores a snapshot and answers the checksum of a file in it.
func (w *env) sumOfSnapshot(t *testing.T, v *volume, snapshot, name string) string {
	t.Helper()
	r := &volume{name: v.name + "-restored", size: v.size}
	require.NoError(t, w.co.callAnyController(t.Context(), "restore "+snapshot, func(ctx context.Context, c csi.ControllerClient) error {
		resp, err := c.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: r.name, CapacityRange: &csi.CapacityRange{RequiredBytes: r.size},
			VolumeCapabilities: []*csi.VolumeCapability{r.capability()}, VolumeContentSource: &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
				Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot}}}})
		r.id, r.context = resp.GetVolume().GetVolumeId(), resp.GetVolume().GetVolumeContext()
		if at := resp.GetVolume().GetAccessibleTopology(); len(at) > 0 {
			r.hosts = []string{at[0].GetSegments()[topologyKey]}
		}
		return err
	}))
	w.publishAndStage(t, r, r.hosts[0])
	sum := w.sum(t, r, r.hosts[0], name)
	w.unstageAndUnpublish(t, r, r.hosts[0])
	require.NoError(t, w.co.delete(t.Context(), r))
	return sum
}

// expand makes the volume and its filesystem as large as v says.
func (w *env) expand(t *testing.T, v *volume, node string) {
	t.Helper()
	size := &csi.CapacityRange{RequiredBytes: v.size}
	require.NoError(t, w.co.callAnyController(t.Context(), "expand "+v.name, func(ctx context.Context, c csi.ControllerClient) error {
		_, err := c.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.id, CapacityRange: size, VolumeCapability: v.capability()})
		return err
	}))
	require.NoError(t, retryUntil(t.Context(), "expand "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := w.co.nodeClient(node).NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.id, VolumePath: v.target(), StagingTargetPath: v.staging(),
			CapacityRange: size, VolumeCapability: v.capability()})
		return err
	}))
}

// publishDuringReclaim publishes the volume to another host while its space is reclaimed: that ends first.
func (w *env) publishDuringReclaim(t *testing.T, v *volume, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = w.beginReclaim(ctx, v) // the publish may come first, and end it
	}()
	w.publishAndStage(t, v, node)
	cancel()
	<-ended
}
