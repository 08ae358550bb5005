package agent_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// gauges returns the values of the gauges of that name, by the value of their label; of several, the first by name.
func gauges(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				all[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return all
}

// TestAHostSaysHowMuchItsReplicasDiffer follows a volume whose hosts lose each other while one of them writes.
func TestAHostSaysHowMuchItsReplicasDiffer(t *testing.T) {
	p := newStoppedPair(t)
	registry := prometheus.NewRegistry()
	a := p.hosts[0]
	a.configure = func(c *agent.Config) { c.Metrics = registry }
	for _, m := range p.hosts {
		m.start(nil)
	}
	began := time.Now().Add(-time.Second)
	id := p.create(fsmpb.Protocol_PROTOCOL_C)
	outOfSync := func() map[string]float64 { return gauges(t, registry, "holdfast_replica_out_of_sync_bytes") }
	require.Equal(t, map[string]float64{string(id): 0}, outOfSync())
	require.Equal(t, map[string]float64{string(id): 0}, gauges(t, registry, "holdfast_replica_differences_bytes"))
	require.Empty(t, gauges(t, registry, "holdfast_replica_sync_ratio"))
	require.GreaterOrEqual(t, gauges(t, registry, "holdfast_replica_verified_timestamp_seconds")[string(id)], float64(began.Unix()))
	a.stage(id, a.publish(id))
	p.link.SetDisconnected(true)
	a.write(id, "without the other")
	require.Positive(t, outOfSync()[string(id)])
	require.Zero(t, gauges(t, registry, "holdfast_replica_differences_bytes")[string(id)], "they are not connected")
	p.link.SetSyncTime(time.Hour)
	p.link.SetDisconnected(false)
	p.eventually("what it wrote is copied", func() bool { return gauges(t, registry, "holdfast_replica_sync_ratio")[kindLabel] == 0.4 })
	p.link.FinishSync(id)
	p.eventually("the replicas are equal", func() bool { return outOfSync()[string(id)] == 0 })
	require.Empty(t, gauges(t, registry, "holdfast_replica_sync_ratio"))
}

// TestAHostSaysWhatIsFrozenWithoutAQuorum: the log cannot know it, as nothing gets into it.
func TestAHostSaysWhatIsFrozenWithoutAQuorum(t *testing.T) {
	p := newStoppedPair(t)
	registry := prometheus.NewRegistry()
	a := p.hosts[0]
	a.configure = func(c *agent.Config) { c.Metrics = registry }
	for _, m := range p.hosts {
		m.start(nil)
	}
	id := p.create(fsmpb.Protocol_PROTOCOL_C)
	frozen := func() float64 { return gauges(t, registry, "holdfast_replica_frozen")[string(id)] }
	a.stage(id, a.publish(id))
	require.Zero(t, frozen())
	p.setDown(true)
	p.link.SetDisconnected(true)
	acknowledged, err := a.replicator.Write(id, "unheard")
	require.NoError(t, err)
	require.False(t, acknowledged)
	require.Equal(t, 1.0, frozen())
	p.setDown(false)
	p.eventually("the quorum has decided", func() bool { return frozen() == 0 })
}

// kindLabel is the first label of holdfast_replica_sync_ratio here.
const kindLabel = "resync"

// thinPool is a pool whose metadata are full to a share; below zero it is not known.
type thinPool struct {
	executor.Backend
	ratio float64
}

func (p *thinPool) MetadataRatio() (float64, bool) { return p.ratio, p.ratio >= 0 }

func TestAHostSaysHowFullTheMetadataOfAPoolAre(t *testing.T) {
	w := newStoppedHost(t)
	registry := prometheus.NewRegistry()
	var pool *thinPool
	w.configure = func(c *agent.Config) {
		pool = &thinPool{Backend: c.Pools[0], ratio: 0.25}
		c.Metrics, c.Pools = registry, []executor.Backend{pool}
	}
	w.start(nil)
	for _, want := range []map[fsm.PoolID]float64{{pool.ID(): 0.25}, {pool.ID(): 0.75}, {}} {
		pool.ratio = -1
		for _, ratio := range want {
			pool.ratio = ratio
		}
		got := map[fsm.PoolID]float64{}
		for id, ratio := range gauges(t, registry, "holdfast_pool_metadata_ratio") {
			got[fsm.PoolID(id)] = ratio
		}
		require.Equal(t, want, got)
	}
}
