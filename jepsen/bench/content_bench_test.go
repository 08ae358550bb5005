//go:build bench

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// onReflink puts the cluster's files on a new xfs that shares blocks.
func onReflink(b *testing.B) {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("needs root to mount a filesystem")
	}
	base := b.TempDir()
	image, at := filepath.Join(base, "xfs.img"), filepath.Join(base, "x")
	for _, argv := range [][]string{
		{"truncate", "-s", "60G", image}, {"mkfs.xfs", "-q", "-m", "reflink=1", image}, {"mkdir", at}, {"mount", "-o", "loop", image, at},
	} {
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		require.NoError(b, err, string(out))
	}
	b.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			b.Error(err, string(out))
		}
	})
	b.Setenv("TMPDIR", at)
}

// BenchmarkContent snapshots, clones and grows a mounted volume of 20 GiB on a pool that
// shares blocks, with 1, 4 and 16 GiB of data in it, and compares two snapshots.
func BenchmarkContent(b *testing.B) {
	onReflink(b)
	c := startHoldfast(b)
	w := content{b: b, co: c.NewCO()}
	w.up(20 * gi)
	for range b.N {
		held := 0
		for _, data := range []int{1, 4, 16} {
			w.write(fmt.Sprintf("data%d", data), data-held)
			held = data
			b.ReportMetric(ms(w.median(w.snapshot)), fmt.Sprintf("snapshot-%dGiB-ms", data))
			b.ReportMetric(ms(w.median(w.clone)), fmt.Sprintf("clone-%dGiB-ms", data))
		}
		b.ReportMetric(ms(w.median(w.expand)), "expand-ms")
		took := w.delta()
		b.ReportMetric(float64(20+w.grown)/took.Seconds(), "delta-GiB/s")
	}
}

// content is one mounted volume, on which a benchmark operates.
type content struct {
	b     *testing.B
	co    *harness.CO
	v     *harness.Volume
	n     int
	grown int // GiB
	last  []string
}

func (w *content) up(size int64) {
	w.b.Helper()
	var err error
	w.v, err = w.co.Create(w.b.Context(), harness.Spec{Name: "content", Size: size, FSType: "xfs"})
	require.NoError(w.b, err)
	require.NoError(w.b, w.co.PublishStageBind(w.b.Context(), w.v, "n1"))
	w.b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := errors.Join(w.co.UnbindUnstageUnpublish(ctx, w.v), w.co.Delete(ctx, w.v)); err != nil {
			w.b.Error(err)
		}
	})
}

// write fills a file with GiB of data of which no two blocks are equal.
func (w *content) write(name string, gib int) {
	w.b.Helper()
	f := filepath.Join(w.v.Target, name)
	out, err := exec.Command("dd", "if=/dev/urandom", "of="+f, "bs=4M", fmt.Sprintf("count=%d", gib*256), "oflag=direct", "status=none").CombinedOutput()
	require.NoError(w.b, err, string(out))
}

// median runs a measurement five times and returns the median.
func (w *content) median(once func() time.Duration) time.Duration {
	w.b.Helper()
	var all []time.Duration
	for range 5 {
		all = append(all, once())
	}
	return middle(all)
}

func (w *content) controller() csi.ControllerClient {
	w.b.Helper()
	c, err := w.co.Cluster.Controller("c1")
	require.NoError(w.b, err)
	return c
}

func (w *content) snapshot() time.Duration {
	w.b.Helper()
	w.n++
	began := time.Now()
	s, err := w.controller().CreateSnapshot(w.b.Context(), &csi.CreateSnapshotRequest{Name: fmt.Sprintf("s%d", w.n), SourceVolumeId: w.v.ID})
	took := time.Since(began)
	require.NoError(w.b, err)
	w.last = append(w.last, s.GetSnapshot().GetSnapshotId())
	return took
}

func (w *content) clone() time.Duration {
	w.b.Helper()
	w.n++
	req := harness.Spec{Name: fmt.Sprintf("clone%d", w.n), Size: w.v.Size, FSType: "xfs"}.CreateRequest()
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: w.last[len(w.last)-1]},
	}}
	began := time.Now()
	made, err := w.controller().CreateVolume(w.b.Context(), req)
	took := time.Since(began)
	require.NoError(w.b, err)
	_, err = w.controller().DeleteVolume(w.b.Context(), &csi.DeleteVolumeRequest{VolumeId: made.GetVolume().GetVolumeId()})
	require.NoError(w.b, err)
	return took
}

// expand grows the mounted volume and its filesystem by a GiB.
func (w *content) expand() time.Duration {
	w.b.Helper()
	w.grown++
	size := &csi.CapacityRange{RequiredBytes: int64(20+w.grown) * gi}
	node, err := w.co.Cluster.Node("n1")
	require.NoError(w.b, err)
	began := time.Now()
	_, err = w.controller().ControllerExpandVolume(w.b.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: w.v.ID, CapacityRange: size})
	require.NoError(w.b, err)
	_, err = node.NodeExpandVolume(w.b.Context(), &csi.NodeExpandVolumeRequest{VolumeId: w.v.ID, VolumePath: w.v.Target, CapacityRange: size})
	require.NoError(w.b, err)
	w.v.Size = size.RequiredBytes
	return time.Since(began)
}

// delta reads the difference between two successive snapshots, with 64 MiB written between them.
func (w *content) delta() time.Duration {
	w.b.Helper()
	w.snapshot()
	out, err := exec.Command("dd", "if=/dev/urandom", "of="+filepath.Join(w.v.Target, "delta"), "bs=4M", "count=16", "oflag=direct", "status=none").CombinedOutput()
	require.NoError(w.b, err, string(out))
	w.snapshot()
	conn, err := harness.Dial(endpoint(w.b, w.co.Cluster, "c1"))
	require.NoError(w.b, err)
	defer func() { _ = conn.Close() }()
	began := time.Now()
	stream, err := csi.NewSnapshotMetadataClient(conn).GetMetadataDelta(w.b.Context(), &csi.GetMetadataDeltaRequest{
		BaseSnapshotId: w.last[len(w.last)-2], TargetSnapshotId: w.last[len(w.last)-1],
	})
	require.NoError(w.b, err)
	var changed int64
	for {
		page, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(w.b, err)
		for _, block := range page.GetBlockMetadata() {
			changed += block.GetSizeBytes()
		}
	}
	took := time.Since(began)
	require.GreaterOrEqual(w.b, changed, int64(64<<20))
	for _, id := range w.last {
		_, err := w.controller().DeleteSnapshot(w.b.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
		require.NoError(w.b, err)
	}
	w.last = nil
	return took
}

func endpoint(b *testing.B, c *harness.Cluster, id string) string {
	b.Helper()
	l, err := c.Layout()
	require.NoError(b, err)
	for _, controller := range l.Controllers {
		if controller.ID == id {
			return controller.Endpoint
		}
	}
	b.Fatalf("no controller %s", id)
	return ""
}

// BenchmarkGroup snapshots eight mounted volumes at one instant.
func BenchmarkGroup(b *testing.B) {
	onReflink(b)
	c := startHoldfast(b)
	co := c.NewCO()
	var ids []string
	for i := range 8 {
		v, err := co.Create(b.Context(), harness.Spec{Name: fmt.Sprintf("g%d", i), Size: gi, FSType: "xfs"})
		require.NoError(b, err)
		require.NoError(b, co.PublishStageBind(b.Context(), v, "n1"))
		ids = append(ids, v.ID)
		b.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := errors.Join(co.UnbindUnstageUnpublish(ctx, v), co.Delete(ctx, v)); err != nil {
				b.Error(err)
			}
		})
	}
	conn, err := harness.Dial(endpoint(b, c, "c1"))
	require.NoError(b, err)
	defer func() { _ = conn.Close() }()
	groups := csi.NewGroupControllerClient(conn)
	for range b.N {
		var all []time.Duration
		for i := range 5 {
			began := time.Now()
			g, err := groups.CreateVolumeGroupSnapshot(b.Context(), &csi.CreateVolumeGroupSnapshotRequest{Name: fmt.Sprintf("group%d", i), SourceVolumeIds: ids})
			require.NoError(b, err)
			all = append(all, time.Since(began))
			var members []string
			for _, s := range g.GetGroupSnapshot().GetSnapshots() {
				members = append(members, s.GetSnapshotId())
			}
			_, err = groups.DeleteVolumeGroupSnapshot(b.Context(), &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshot().GetGroupSnapshotId(), SnapshotIds: members})
			require.NoError(b, err)
		}
		b.ReportMetric(ms(middle(all)), "group-ms")
		b.ReportMetric(longestFreeze(b, c), "longest-freeze-ms")
	}
}

// longestFreeze reads the node's gauge of the longest freeze.
func longestFreeze(b *testing.B, c *harness.Cluster) float64 {
	b.Helper()
	l, err := c.Layout()
	require.NoError(b, err)
	resp, err := http.Get("http://" + l.Nodes[0].Metrics + "/metrics")
	require.NoError(b, err)
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	for line := range strings.Lines(string(out)) {
		var seconds float64
		if _, err := fmt.Sscanf(line, "holdfast_freeze_longest_seconds %g", &seconds); err == nil {
			return 1000 * seconds
		}
	}
	b.Fatal("the node does not tell its longest freeze")
	return 0
}
