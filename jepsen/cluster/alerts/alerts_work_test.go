package alerts

import (
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/prometheus"
)

// TestAlertsOfWork: more is asked of a pool than it has, a host cannot limit a volume, disks are full, the controller is away while a
// volume's use ends, and a process is of another build.
func TestAlertsOfWork(t *testing.T) {
	prometheus.Require(t)
	t.Parallel()
	var d workDisks
	w := startCluster(t, harness.Options{Controllers: 1, Nodes: 1, Flags: []string{
		"--node-arg=--min-free=1MiB", "--node-arg=--io-cgroup=holdfast-not-there", "--node-arg=--pool-image=never",
		"--controller-arg=--snapshot-threshold=64", "--controller-arg=--snapshot-interval=1s",
	}}, func(c *harness.Cluster) { d = moveToWorkDisks(t, c) })
	startUsual := w.startAnotherBuild("n1")
	w.reserveAPool()
	w.limitInNoGroup()
	w.fillSnapshots(d.snapshots)
	v, err := w.NewCO().Create(t.Context(), harness.Spec{Name: "used"})
	require.NoError(t, err)
	require.NoError(t, w.NewCO().Publish(t.Context(), v, "n1"))
	w.fillAHost(d.host, v)
	w.unstageAlone(v)
	startUsual()
}

// workDisks are disks of their own: of the node's pool and records, and of the controller's Raft snapshots.
type workDisks struct{ pool, host, snapshots *harness.Disk }

func moveToWorkDisks(t *testing.T, c *harness.Cluster) (d workDisks) {
	onDisks(t, c, func() (all []*harness.Disk, err error) {
		if d.pool, err = c.PutPoolOnDisk(t.Context(), "n1", 8192*harness.Mi); err != nil {
			return all, err
		}
		all = append(all, d.pool)
		if d.host, err = c.PutOnDisk(t.Context(), "n1", 64*harness.Mi); err != nil {
			return all, err
		}
		all = append(all, d.host)
		d.snapshots, err = c.PutSnapshotsOnDisk(t.Context(), "c1", 64*harness.Mi)
		return append(all, d.snapshots), err
	})
	return d
}

// fillSnapshots changes the state until a Raft snapshot is due, which has no room.
func (w *watched) fillSnapshots(d *harness.Disk) {
	w.Quiet("HoldfastSnapshotsFail")
	require.NoError(w.t, d.Fill(0))
	co := w.NewCO()
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, "a Raft snapshot to fail", func() (bool, error) {
		for i := range 8 {
			v, err := co.Create(w.t.Context(), harness.Spec{Name: fmt.Sprintf("changed-%d", i)})
			require.NoError(w.t, err)
			require.NoError(w.t, co.Delete(w.t.Context(), v))
		}
		return w.Holds(w.t.Context(), `holdfast_raft_snapshots_total{kind="failed"} > 0`)
	}))
	w.Fires("HoldfastSnapshotsFail")
	const taken = `sum(holdfast_raft_snapshots_total{kind="taken"})`
	before := w.number(taken + " or vector(0)")
	require.NoError(w.t, d.Free())
	w.Await("a Raft snapshot to be taken again", fmt.Sprintf("%s > %f", taken, before))
}

// fillAHost leaves no room for the records of a host, so that nothing can be staged there.
func (w *watched) fillAHost(d *harness.Disk, v *harness.Volume) {
	w.Quiet("HoldfastCSIErrors")
	require.NoError(w.t, d.Fill(0))
	co := w.NewCO()
	w.while("HoldfastCSIErrors", true, func() {
		require.Equal(w.t, codes.Internal, status.Code(co.Stage(w.t.Context(), v)))
	})
	w.Fires("HoldfastCSIErrors")
	require.NoError(w.t, d.Free())
	require.NoError(w.t, co.Stage(w.t.Context(), v))
	node, err := w.Node("n1")
	require.NoError(w.t, err)
	w.while("HoldfastCSIErrors", false, func() {
		for range 100 {
			_, err := node.NodeGetCapabilities(w.t.Context(), &csi.NodeGetCapabilitiesRequest{})
			require.NoError(w.t, err)
		}
	})
	w.Ends("HoldfastCSIErrors")
}

// while does something again and again until an alert fires, or no longer does.
func (w *watched) while(alert string, fires bool, do func()) {
	w.t.Helper()
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, fmt.Sprintf("%s to fire: %t", alert, fires), func() (bool, error) {
		do()
		now, err := w.Holds(w.t.Context(), fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing"}`, alert))
		return err == nil && now == fires, err
	}))
}
