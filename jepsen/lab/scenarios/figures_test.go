package scenarios

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

var (
	figures = flag.Bool("figures", false, "measure and print the table of figures: about 40 minutes")
	samples = flag.Int("samples", 5, "how often each figure is measured")
)

// TestFigures prints the table of `make lab-bench`. A goal that is missed fails it.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("it measures for 40 minutes: `make lab-bench`, or -args -figures")
	}
	found := &table{}
	for _, m := range []struct {
		name    string
		measure func(*testing.T, *env, *table)
	}{
		{"a volume's life", measureLife},
		{"failover", measureFailover},
		{"resynchronisation", measureResync},
		{"the path of data", measurePath},
		{"a partition", measurePartition},
		{"a cut link", measureLink},
		{"a fence", measureFence},
		{"reclaimed space", measureReclaim},
		{"encryption", measureEncryption},
		{"a volume group", measureGroup},
		{"a move between sites", measureMove},
		{"a group's move between sites", measureGroupMove},
		{"the loss of a site", measureSiteLoss},
		{"synchronisation between sites", measureSync},
		{"the path of data between sites", measureSitesPath},
	} {
		t.Run(m.name, func(t *testing.T) {
			fmt.Fprintf(os.Stderr, "measuring %s\n", m.name)
			before := len(found.rows)
			m.measure(t, newScenario(t), found)
			(&table{rows: found.rows[before:]}).print(os.Stderr) // what is measured is not lost with what comes after
		})
	}
	found.print(os.Stdout)
	require.Empty(t, found.missed())
}

// measureLife: from the call that creates a volume to its answer, which comes when both
// replicas are ready, and so on.
func measureLife(t *testing.T, w *env, found *table) {
	for range *samples {
		began := time.Now()
		v := w.replicated(t, "life", false)
		found.row("create with 2 replicas, until ready", "s").addDuration(time.Since(began))
		began = time.Now()
		require.NoError(t, w.co.publish(t.Context(), v, "n1"))
		found.row("publish: the replica is primary", "s").addDuration(time.Since(began))
		began = time.Now()
		require.NoError(t, w.co.stage(t.Context(), v, "n1"))
		found.row("stage and bind: formatted and mounted", "s").addDuration(time.Since(began))
		w.unstageAndUnpublish(t, v, "n1")
	}
}

// measureFailover: as TestPowerLossLosesNoAcknowledgedWrite.
func measureFailover(t *testing.T, w *env, found *table) {
	v := w.replicated(t, "power", false)
	nodes, from := []string{"n1", "n2"}, uint64(1)
	w.publishAndStage(t, v, nodes[0])
	for range *samples {
		var f failover
		f, from = w.failOver(t, v, nodes[0], nodes[1], from)
		found.row("power loss of the primary until mounted elsewhere", "s").below(15).addDuration(f.total)
		found.row("the same, from the publish call", "s").below(4).addDuration(f.fromPublish)
		slices.Reverse(nodes)
	}
	w.unstageAndUnpublish(t, v, nodes[0])
	w.noSplitBrain(t)
}

// resyncBytes are written while the peer is away.
const resyncBytes = 192 * mi

// measureResync: the rate at which a peer that was away is synchronised.
func measureResync(t *testing.T, w *env, found *table) {
	v := w.replicatedOf(t, "resync", 256*mi, true)
	w.publishAndStage(t, v, "n1")
	for range *samples {
		w.awaitInSync(t, v)
		require.NoError(t, w.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
		w.awaitKernel(t, v, "n1", timeout, "it noticed", func(d drbdState) bool { return d.connection != "Connected" })
		w.mustExec(t, "n1", fmt.Sprintf("dd if=/dev/zero of=%s bs=1M count=%d oflag=direct conv=fsync 2>/dev/null", v.target(), resyncBytes/mi))
		require.NoError(t, w.lab.ReconnectAll(t.Context()))
		w.awaitKernel(t, v, "n2", timeout, "it is being synchronised", func(d drbdState) bool { return d.connection == "SyncTarget" })
		began := time.Now()
		w.awaitKernel(t, v, "n2", 2*time.Minute, "it is synchronised", isUpToDate)
		found.row(fmt.Sprintf("resynchronisation of %d MiB", resyncBytes/mi), "MiB/s").add(float64(resyncBytes/mi) / time.Since(began).Seconds())
	}
	w.unstageAndUnpublish(t, v, "n1")
}

// measurePartition: how long nothing is acknowledged when the primary's host is isolated from
// its peer and from the controllers, until the other side writes; and how long the old
// side's writer hangs once the networks are connected again, until it gets an error.
func measurePartition(t *testing.T, w *env, found *table) {
	for range *samples {
		v := w.replicated(t, "cut", true)
		w.publishAndStage(t, v, "n1")
		w.awaitInSync(t, v)
		x := w.write(t, v, "n1", 1)
		x.awaitBlocks(t, 30)
		for _, n := range []lab.Network{lab.Replication, lab.API} {
			require.NoError(t, w.lab.Isolate(t.Context(), n, 1))
		}
		w.unpublishUnreachable(t, v, "n1")
		w.publishAndStage(t, v, "n2")
		last := x.readAcks()
		y := w.write(t, v, "n2", last.Number+1)
		found.row("partition: from the old side's last write to the other side's first", "s").addDuration(time.Since(time.Unix(0, last.At)))
		require.NoError(t, w.lab.ReconnectAll(t.Context()))
		healed := time.Now()
		w.awaitWriterError(t, x, last.Number)
		found.row("partition: from its healing until the old side's writer gets an error", "s").addDuration(time.Since(healed))
		w.awaitSynchronised(t, v, "n2", "the outdated replica is synchronised")
		require.Empty(t, y.stop(t).Error)
		w.unstageAndUnpublish(t, v, "n2")
	}
	w.noSplitBrain(t)
}

// measureLink: the primary's longest pause when only the link to its peer is interrupted.
func measureLink(t *testing.T, w *env, found *table) {
	v := w.replicated(t, "link", true)
	w.publishAndStage(t, v, "n1")
	for range *samples {
		w.awaitInSync(t, v)
		x := w.write(t, v, "n1", 1)
		x.awaitBlocks(t, 30)
		require.NoError(t, w.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
		w.awaitKernel(t, v, "n1", timeout, "it goes on alone", func(d drbdState) bool { return d.connection != "Connected" && !d.suspended })
		x.awaitBlocks(t, 30)
		last := x.stop(t)
		require.Empty(t, last.Error)
		found.row("cut link: the primary's longest pause", "s").addDuration(last.Longest)
		require.NoError(t, w.lab.ReconnectAll(t.Context()))
		w.awaitSynchronised(t, v, "n1", "both are synchronised")
	}
	w.unstageAndUnpublish(t, v, "n1")
}

// replicatedOf is replicated of another size.
func (w *env) replicatedOf(t *testing.T, name string, size int64, block bool) *volume {
	t.Helper()
	w.count++
	v := &volume{name: fmt.Sprintf("%s-%d", name, w.count), size: size, block: block}
	require.NoError(t, w.co.create(t.Context(), v, []string{"n1", "n2"}, map[string]string{"replicas": "2"}))
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, w.co.delete(context.WithoutCancel(t.Context()), v))
		}
	})
	return v
}
