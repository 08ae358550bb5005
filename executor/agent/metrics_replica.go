package agent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicaCollector reports, when it is scraped, how much this host's replicas differ from their peers. Its series are
// bounded by the replicas that the host has.
type replicaCollector struct {
	agent *Agent
	outOfSync, differences,
	frozen, progress, verified *prometheus.Desc
}

func newReplicaCollector(a *Agent) *replicaCollector {
	labels := []string{"volume_id"}
	return &replicaCollector{agent: a,
		outOfSync:   prometheus.NewDesc("holdfast_replica_out_of_sync_bytes", "Bytes of a replicated volume that the two replicas do not have alike, as this host's kernel counts them.", labels, nil),
		differences: prometheus.NewDesc("holdfast_replica_differences_bytes", "Bytes of which a verification found that the two connected replicas differ; it stays until they are synchronised.", labels, nil),
		frozen:      prometheus.NewDesc("holdfast_replica_frozen", "1 while this host's kernel holds back the I/O of the volume's users, which the log may not know: its quorum may be away.", labels, nil),
		progress: prometheus.NewDesc("holdfast_replica_sync_ratio", "How far what is under way between the two replicas is, 0 to 1; no series when nothing is. Kind is resync or verify.",
			[]string{"volume_id", "kind"}, nil),
		verified: prometheus.NewDesc("holdfast_replica_verified_timestamp_seconds", "When the last verification of the two replicas began on this host, or they were made, in seconds since 1970. One of the two hosts begins them: take the maximum.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *replicaCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.outOfSync, c.differences, c.frozen, c.progress, c.verified} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It takes no volume's lock, so that it answers while a step hangs.
func (c *replicaCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for id, at := range c.verifiedAt() {
		gauge(c.verified, float64(at.Unix()), string(id))
	}
	reader, ok := c.agent.Replicator.(executor.SyncReader)
	if !ok {
		return
	}
	all, err := reader.ListSync(context.Background())
	if err != nil {
		c.agent.Logger.Debug("the kernel's replicas cannot be read", "error", err)
		return
	}
	for id, s := range all {
		gauge(c.outOfSync, float64(s.OutOfSync), string(id))
		gauge(c.differences, float64(differencesOf(s)), string(id))
		gauge(c.frozen, float64(boolToInt(s.Suspended)), string(id))
		if kind := syncKind(s); kind != "" {
			gauge(c.progress, float64(s.Percent)/100, string(id), kind)
		}
	}
}

// verifiedAt is when the replicas of each volume were last compared by this host, as its records have it.
func (c *replicaCollector) verifiedAt() map[fsm.VolumeID]time.Time {
	c.agent.mu.Lock()
	defer c.agent.mu.Unlock()
	all := map[fsm.VolumeID]time.Time{}
	for id, v := range c.agent.volumes {
		if r := v.recordCopy.Replica; r != nil && !r.Verified.IsZero() {
			all[id] = r.Verified
		}
	}
	return all
}

// differencesOf is what a verification found: replicas that exchange every write and copy nothing have nothing else
// out of sync.
func differencesOf(s executor.SyncStatus) int64 {
	if s.Connection == fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED && s.Percent < 0 {
		return s.OutOfSync
	}
	return 0
}

// syncKind is what is under way between the replicas, empty for nothing.
func syncKind(s executor.SyncStatus) string {
	switch {
	case s.Percent < 0:
		return ""
	case s.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE, s.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
		return "resync"
	}
	return "verify"
}
