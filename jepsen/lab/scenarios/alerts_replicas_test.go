package scenarios

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestAlertsOfReplicas: the replicas of a volume are not compared for a month, then differ, lose each other while one of them writes on, and
// wait for a quorum. A real Prometheus sees each alert become pending, fire and end.
func TestAlertsOfReplicas(t *testing.T) {
	w := watchAlerts(t)
	v := agedVolume
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	w.compareAfterAMonth(v)
	w.cutReplication(v)
	w.freeze(v)
	w.unstageAndUnpublish(t, v, "n1")
	w.noSplitBrain(t)
}

// compareAfterAMonth changes a byte of one replica below DRBD, and then has the hosts compare the replicas again.
func (w *watched) compareAfterAMonth(v *volume) {
	w.Fires("HoldfastVerifyOld")
	w.Quiet("HoldfastDifferences")
	w.mustExec(w.t, "n2", fmt.Sprintf("echo differs | dd of=/dev/mapper/%s bs=4K seek=100 conv=sync oflag=direct 2>/dev/null", v.device()))
	w.restartNodes("--verify-interval", "168h")
	w.Ends("HoldfastVerifyOld")
	w.Fires("HoldfastDifferences")
}

// restartNodes starts the node processes anew, with these flags beside those that they always have.
func (w *watched) restartNodes(flags ...string) {
	w.t.Helper()
	w.nodeArgs = flags
	for _, g := range w.lab.Guests() {
		require.NoError(w.t, w.cluster.KillNode(w.t.Context(), g.Index))
		require.NoError(w.t, w.cluster.StartNode(w.t.Context(), g.Index))
	}
	require.NoError(w.t, w.cluster.AwaitReady(w.t.Context()))
}

// cutReplication cuts the replicas off from each other while their volume is written to. When they are connected again they are
// synchronised, and what a verification found with it.
func (w *watched) cutReplication(v *volume) {
	w.Quiet("HoldfastDegraded", "HoldfastNoRedundancy", "HoldfastOutOfSync", "HoldfastFrozen")
	require.NoError(w.t, w.lab.Partition(w.t.Context(), lab.Replication, []int{1}, []int{2}))
	w.awaitKernel(w.t, v, "n1", timeout, "it goes on alone", goesOnAlone)
	w.mustExec(w.t, "n1", fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M count=2 oflag=direct 2>/dev/null", v.target()))
	w.Fires("HoldfastDegraded")
	w.Fires("HoldfastNoRedundancy")
	w.Fires("HoldfastOutOfSync")
	require.NoError(w.t, w.lab.ReconnectAll(w.t.Context()))
	w.awaitSynchronised(w.t, v, "n1", "both are synchronised")
	for _, alert := range []string{"HoldfastDegraded", "HoldfastNoRedundancy", "HoldfastOutOfSync", "HoldfastDifferences"} {
		w.Ends(alert)
	}
}

// freeze takes the quorum away, and then the peer of a primary that is written to.
func (w *watched) freeze(v *volume) {
	w.Quiet("HoldfastFrozen")
	x := w.write(w.t, v, "n1", 1)
	for _, i := range []int{1, 2} {
		require.NoError(w.t, w.cluster.KillController(w.t.Context(), i))
	}
	require.NoError(w.t, w.lab.Partition(w.t.Context(), lab.Replication, []int{1}, []int{2}))
	x.awaitFrozen(w.t)
	w.Fires("HoldfastFrozen")
	require.NoError(w.t, w.restore(context.WithoutCancel(w.t.Context())))
	w.awaitSynchronised(w.t, v, "n1", "both are synchronised")
	w.Ends("HoldfastFrozen")
	require.Empty(w.t, x.stop(w.t).Error)
}
