package scenarios

import (
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
	"github.com/holdfast-storage/holdfast/jepsen/prometheus"
)

// TestAlertsOfSites: a site is behind for hours, and then dies while it is; it is given up by force, returns, and stays apart until it is
// resynchronised by force. A real Prometheus sees each alert fire and end.
func TestAlertsOfSites(t *testing.T) {
	prometheus.Require(t)
	env, a, b := newSites(t)
	w := env.watch(t)
	r := newRelation(t, a, b, "watched", true)
	r.use(t, a)
	w.leaveBehind(r, a)
	w.giveUp(r, a, b)
	w.takeBack(r, a, b)
	r.failBack(t, b, a)
	r.end(t, a)
	r.judge(t)
	r.remove(t, a)
}

// leaveBehind cuts the replicas off from each other for two hours.
func (w *watched) leaveBehind(r *relation, a *site) {
	w.Quiet("HoldfastReplicationBehind")
	w.writeAlone(r, a)
	require.NoError(w.t, w.lab.StepClocks(w.t.Context(), 2*time.Hour))
	w.Fires("HoldfastReplicationBehind")
	w.reconnect(w.t)
	r.awaitInSync(w.t)
	w.Ends("HoldfastReplicationBehind")
	require.NoError(w.t, w.lab.StepClocks(w.t.Context(), -2*time.Hour))
}

// writeAlone has the primary's site write what the other one does not have.
func (w *watched) writeAlone(r *relation, a *site) {
	w.t.Helper()
	a.cutOff(w.t, lab.Replication)
	v := r.volumes[a][0]
	w.awaitKernel(w.t, v, a.host(w.t, v), timeout, "it goes on alone", goesOnAlone)
	r.writer.awaitBlocks(w.t, 100)
}

// giveUp has the other site go on without what the primary's wrote last.
func (w *watched) giveUp(r *relation, a, b *site) {
	w.Quiet("HoldfastReplicationError", "HoldfastVolumesApart")
	stale := r.acked()
	w.writeAlone(r, a)
	a.losePower(w.t)
	r.gone()
	r.awaitNeedsForce(w.t, b)
	r.promoteByForce(w.t, b)
	r.requireUntil(w.t, b, stale)
	w.reconnect(w.t)
	r.beginForcedTurn(w.t, b)
	w.Fires("HoldfastVolumesApart")
}

// takeBack has the site return, which has what nobody else has, and resynchronises it by force.
func (w *watched) takeBack(r *relation, a, b *site) {
	a.boot(w.t)
	r.awaitStatus(w.t, b, replication.GetVolumeReplicationInfoResponse_ERROR)
	w.Fires("HoldfastReplicationError")
	require.NoError(w.t, r.demote(w.t.Context(), a))
	r.awaitReady(w.t, a, true)
	w.Ends("HoldfastReplicationError")
	w.Ends("HoldfastVolumesApart")
}
