package controller

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicaStates are the states that a replica is counted in, each replica in the first that holds.
var replicaStates = []struct {
	name  string
	holds func(r *countedReplica) bool
}{
	{"planned", func(r *countedReplica) bool { return r.State == fsm.ReplicaPlanned }},
	{"leaving", func(r *countedReplica) bool { return r.leaving }},
	{"missing", func(r *countedReplica) bool { return r.State == fsm.ReplicaMissing }},
	{"frozen", func(r *countedReplica) bool { return r.reachable && r.ReplicaSync != nil && r.Observed.Suspended }},
	{"outdated", func(r *countedReplica) bool { return r.ReplicaSync != nil && r.Outdated }},
	{"disk_failed", func(r *countedReplica) bool { return r.ReplicaSync != nil && r.DiskFailed != 0 && !r.UpToDate }},
	{"unreachable", func(r *countedReplica) bool { return !r.reachable }},
	{"syncing", func(r *countedReplica) bool {
		return r.ReplicaSync != nil && r.Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
	}},
	{"not_up_to_date", func(r *countedReplica) bool { return r.ReplicaSync != nil && !r.UpToDate }},
	{"disconnected", func(r *countedReplica) bool { return r.hasPeer && !r.Observed.Connected() }},
	{"up_to_date", func(*countedReplica) bool { return true }},
}

// countedReplica is a replica with what its state depends on beside itself.
type countedReplica struct {
	*fsm.Replica
	reachable bool // its host is
	leaving   bool // it is being removed while its volume stays
	hasPeer   bool // another replica of its volume takes part
}

// replicaCollector counts, when it is scraped, the replicas by their state. Its labels are states, and never names.
type replicaCollector struct {
	state    stateReader
	replicas *prometheus.Desc
}

func newReplicaCollector(s stateReader) *replicaCollector {
	return &replicaCollector{state: s, replicas: prometheus.NewDesc("holdfast_cluster_replicas",
		"Replicas of volumes, those of local volumes included, by state; each counts once, in the first of these that holds: planned, leaving, missing, frozen, outdated, disk_failed, unreachable, syncing, not_up_to_date, disconnected, up_to_date.", []string{"state"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *replicaCollector) Describe(out chan<- *prometheus.Desc) { out <- c.replicas }

// Collect implements prometheus.Collector. It reads a copy, so that the log does not wait for it.
func (c *replicaCollector) Collect(out chan<- prometheus.Metric) {
	counts := countReplicas(c.state.Fork())
	for _, s := range replicaStates {
		out <- prometheus.MustNewConstMetric(c.replicas, prometheus.GaugeValue, float64(counts[s.name]), s.name)
	}
}

func countReplicas(st *fsm.State) map[string]int {
	reachable := map[fsm.HostID]bool{}
	for n := range st.Nodes() {
		reachable[n.Host] = n.State == fsm.NodeReachable
	}
	counts := map[string]int{}
	for v := range st.Volumes("") {
		for i := range v.Replicas {
			r := &v.Replicas[i]
			if r.State == fsm.ReplicaGone {
				continue
			}
			counts[replicaStateOf(&countedReplica{Replica: r, reachable: reachable[r.Host],
				leaving: r.State == fsm.ReplicaLeaving || v.Replication != nil && slices.Contains(v.Replication.Leaving, r.Host),
				hasPeer: v.PeerReplica(r.Host) != nil && r.ReplicaSync != nil})]++
		}
	}
	return counts
}

func replicaStateOf(r *countedReplica) string {
	for _, s := range replicaStates {
		if s.holds(r) {
			return s.name
		}
	}
	return ""
}
