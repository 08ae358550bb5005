package alerts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/prometheus"
)

// TestAlertsOfDisksAndVolumes: a pool and a controller's disk fill, the target of the backups goes away, a volume's image too, a
// certificate is about to expire, and a process does not stay up.
func TestAlertsOfDisksAndVolumes(t *testing.T) {
	if testing.Short() {
		t.Skip("the long form only")
	}
	prometheus.Require(t)
	backups := filepath.Join(t.TempDir(), "backups")
	require.NoError(t, os.Mkdir(backups, 0o700))
	var pool, disk *harness.Disk
	w := startCluster(t, harness.Options{Controllers: 1, Nodes: 1, Flags: []string{
		"--node-arg=--pool-image=never", "--node-arg=--health-interval=1s", "--controller-arg=--backup-to=" + backups, "--controller-arg=--backup-interval=1s", "--controller-arg=--backup-increments=0",
	}}, func(c *harness.Cluster) { pool, disk = moveToDisks(t, c) })
	volume, err := w.NewCO().Create(t.Context(), harness.Spec{Name: "kept", Size: 16 * harness.Mi})
	require.NoError(t, err)
	w.loseAnImage(volume.ID)
	w.fillAPool(pool)
	w.fillAController(disk)
	w.letACertificateExpire()
	w.Quiet("HoldfastBackupFailed")
	require.NoError(t, os.RemoveAll(backups))
	w.Fires("HoldfastBackupFailed")
	w.restartOften("n1")
}

// moveToDisks moves the pool of the node and the data of the controller to disks of their own.
func moveToDisks(t *testing.T, c *harness.Cluster) (pool, disk *harness.Disk) {
	onDisks(t, c, func() (all []*harness.Disk, err error) {
		if pool, err = c.PutPoolOnDisk(t.Context(), "n1", 8192*harness.Mi); err != nil {
			return all, err
		}
		disk, err = c.PutOnDisk(t.Context(), "c1", 1536*harness.Mi)
		return append(all, pool, disk), err
	})
	return pool, disk
}

// onDisks stops a cluster for as long as its folders are put onto disks, which are taken away at the test's end.
func onDisks(t *testing.T, c *harness.Cluster, put func() ([]*harness.Disk, error)) {
	require.NoError(t, c.Stop(t.Context()))
	disks, err := put()
	t.Cleanup(func() {
		ctx := context.Background()
		require.NoError(t, c.Stop(ctx))
		for _, d := range slices.Backward(disks) {
			if d != nil { // one that failed has removed itself
				require.NoError(t, d.Remove(ctx))
			}
		}
	})
	require.NoError(t, err)
	require.NoError(t, c.Resume(t.Context()))
}

func (w *watched) fillAPool(d *harness.Disk) {
	w.Quiet("HoldfastPoolFull")
	require.NoError(w.t, d.Fill(64*harness.Mi))
	w.Fires("HoldfastPoolFull")
	require.NoError(w.t, d.Free())
	w.Ends("HoldfastPoolFull")
}

func (w *watched) fillAController(d *harness.Disk) {
	w.Quiet("HoldfastDiskFull")
	require.NoError(w.t, d.Fill(400*harness.Mi))
	w.Fires("HoldfastDiskFull")
	require.NoError(w.t, d.Free())
	w.Ends("HoldfastDiskFull")
}

// loseAnImage takes the image of a volume away that nobody uses, and gives it back.
func (w *watched) loseAnImage(id string) {
	w.Quiet("HoldfastReplicaLost", "HoldfastVolumeAbnormal")
	giveBack := w.takeImage("n1", id)
	w.Fires("HoldfastReplicaLost")
	w.Fires("HoldfastVolumeAbnormal")
	giveBack()
	w.Ends("HoldfastReplicaLost")
	w.Ends("HoldfastVolumeAbnormal")
}

// takeImage takes the image of a volume out of its pool.
func (w *watched) takeImage(node, id string) (giveBack func()) {
	l, err := w.Layout()
	require.NoError(w.t, err)
	image := filepath.Join(l.PoolDir(node), "volumes", id+".img")
	away := filepath.Join(w.Base, id+".away")
	require.NoError(w.t, move(image, away))
	return func() { require.NoError(w.t, move(away, image)) }
}

// move moves a file to another filesystem.
func move(from, to string) error {
	out, err := exec.Command("mv", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("move %s to %s: %w: %s", from, to, err, out)
	}
	return nil
}

// letACertificateExpire puts a certificate of which an hour is left into the place of the node's, and then renews it for the usual time.
func (w *watched) letACertificateExpire() {
	ca, folder, short := filepath.Join(w.Dir, "ca"), filepath.Join(w.Dir, "pki", "node-n1"), filepath.Join(w.Base, "short")
	w.Quiet("HoldfastCertExpires")
	w.runs("ca", "issue", "--ca-dir", ca, "--role", "node", "--name", "n1", "--out", short, "--validity", "1h")
	require.NoError(w.t, harness.AgeCertificate(ca, filepath.Join(short, "node-n1.crt"), 48*time.Hour, time.Hour))
	for _, pattern := range []string{"*.crt", "*.key"} { // the key last
		files, err := filepath.Glob(filepath.Join(short, pattern))
		require.NoError(w.t, err)
		require.NotEmpty(w.t, files)
		for _, file := range files {
			require.NoError(w.t, move(file, filepath.Join(folder, filepath.Base(file))))
		}
	}
	w.Fires("HoldfastCertExpires")
	w.runs("ca", "renew", "--ca-dir", ca, "--folder", folder, "--within", "2h", "--yes")
	w.Ends("HoldfastCertExpires")
}

// runs runs the command line, which must do what it is asked for.
func (w *watched) runs(args ...string) {
	w.t.Helper()
	res := w.Run(w.t.Context(), args...)
	require.Zero(w.t, res.Code, res.Stderr)
}

// restartOften kills a process and starts it again until that is seen to be often.
func (w *watched) restartOften(id string) {
	w.Quiet("HoldfastRestarts")
	for range 4 {
		before, err := w.Value(w.t.Context(), `process_start_time_seconds{job="holdfast-node"}`)
		require.NoError(w.t, err)
		require.NoError(w.t, w.Kill(w.t.Context(), id))
		require.NoError(w.t, w.StartChild(w.t.Context(), id))
		w.Await("the process that runs now is scraped", `process_start_time_seconds{job="holdfast-node"} != `+before)
	}
	w.Fires("HoldfastRestarts")
}
