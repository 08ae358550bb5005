package agent_test

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// counters returns the values of the counters of that name, by the value of their label.
func counters(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			label := ""
			for _, l := range m.GetLabel() {
				label = l.GetValue()
			}
			all[label] = m.GetCounter().GetValue()
		}
	}
	return all
}

// TestReclaimsAreCounted counts reclaims of a staged volume and of an unpublished one, that are done, refused and fail,
// and what they give back.
func TestReclaimsAreCounted(t *testing.T) {
	w := newStoppedHost(t)
	registry := prometheus.NewRegistry()
	w.configure = func(c *agent.Config) { c.Metrics = registry }
	w.start(nil)
	requireCounted := func(freedBlocks float64, want map[string]float64) {
		t.Helper()
		require.Equal(t, want, counters(t, registry, "holdfast_reclaims_total"))
		require.Equal(t, map[string]float64{"": freedBlocks * backendtest.BlockBytes}, counters(t, registry, "holdfast_reclaimed_bytes_total"))
	}
	requireCounted(0, map[string]float64{})
	id, _ := w.staged(mountCap)
	w.writeAndDelete(id)
	for range 2 {
		_, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
		require.NoError(t, err)
	}
	requireCounted(3, map[string]float64{"done": 2})
	failWith := func(failure error) {
		w.mounter.setFail(func(effect, _ string) error {
			if effect == "trim" {
				return failure
			}
			return nil
		})
	}
	for _, failure := range []error{fsm.Reject(fsm.Unsupported, "it cannot discard"), errors.New("an I/O error")} {
		failWith(failure)
		_, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
		require.Error(t, err)
	}
	requireCounted(3, map[string]float64{"done": 2, "refused": 1, "failed": 1})
	failWith(nil)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	require.NoError(t, w.unpublishVolume(id))
	_, rej := w.awaitReclaim(id, w.beginReclaim(id))
	require.Nil(t, rej)
	w.eventually(func() bool { return counters(t, registry, "holdfast_reclaims_total")["done"] == 3 }, "it is counted when it was reported")
	requireCounted(3, map[string]float64{"done": 3, "refused": 1, "failed": 1})
}
