package raftnode

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// metrics are the member's, under holdfast_raft_.
type metrics struct {
	proposals *prometheus.CounterVec
	snapshots *prometheus.CounterVec
	elections prometheus.Counter
	applyTime prometheus.Histogram
	entries   prometheus.Counter
	syncTime  prometheus.Histogram

	registry   prometheus.Registerer
	collectors []prometheus.Collector
}

func newMetrics() *metrics {
	buckets := prometheus.ExponentialBuckets(0.0001, 2, 16)
	x := &metrics{
		proposals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_raft_proposals_total", Help: "Commands proposed on this member, by outcome.",
		}, []string{"outcome"}),
		snapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_raft_snapshots_total", Help: "Raft snapshots taken, restored and failed.",
		}, []string{"kind"}),
		elections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_raft_elections_total", Help: "Times that this member stood for election.",
		}),
		applyTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "holdfast_raft_apply_seconds", Help: "Time to apply one batch of committed entries.", Buckets: buckets,
		}),
		entries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_raft_applied_entries_total", Help: "Entries applied.",
		}),
		syncTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "holdfast_raft_fsync_seconds", Help: "Time of one durable write to the log or the vote.", Buckets: buckets,
		}),
	}
	x.snapshots.WithLabelValues("failed") // an increase is of a series that was there before
	return x
}

func (x *metrics) observeSync(took time.Duration) { x.syncTime.Observe(took.Seconds()) }
func (x *metrics) countSnapshot(kind string)      { x.snapshots.WithLabelValues(kind).Inc() }
func (x *metrics) countElection()                 { x.elections.Inc() }

func (x *metrics) observeApplied(entries int, took time.Duration) {
	x.entries.Add(float64(entries))
	x.applyTime.Observe(took.Seconds())
}

func (x *metrics) countProposal(err error, o *fsmpb.Outcome) {
	x.proposals.WithLabelValues(outcomeLabel(err, o)).Inc()
}

func outcomeLabel(err error, o *fsmpb.Outcome) string {
	switch {
	case err == nil && o.GetRejection() != nil:
		return "rejected"
	case err == nil:
		return "applied"
	case errors.Is(err, ErrOutcomeUnknown):
		return "unknown"
	case errors.Is(err, ErrDiskFull):
		return "disk_full"
	case errors.Is(err, ErrDiverged):
		return "diverged"
	default:
		return "no_leader"
	}
}

// register does nothing without a registry. A failure is a name used twice: a bug.
func (x *metrics) register(r prometheus.Registerer, m *Member) {
	if r == nil {
		return
	}
	x.registry = r
	x.collectors = append(x.gauges(m), x.proposals, x.snapshots, x.elections, x.applyTime, x.entries, x.syncTime)
	for _, c := range x.collectors {
		r.MustRegister(c)
	}
}

func (x *metrics) unregister() {
	for _, c := range x.collectors {
		x.registry.Unregister(c)
	}
}

func (x *metrics) gauges(m *Member) []prometheus.Collector {
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdfast_raft_" + name, Help: help, ConstLabels: labels}, value)
	}
	all := []prometheus.Collector{
		gauge("term", "The current term.", nil, func() float64 { return float64(m.raft.CurrentTerm()) }),
		gauge("applied_index", "The last index applied.", nil, func() float64 { return float64(m.reader.appliedIndex()) }),
		gauge("commit_index", "The last index known to be committed.", nil, func() float64 { return float64(m.raft.CommitIndex()) }),
		gauge("last_contact_seconds", "Seconds since the last contact with the leader; zero on the leader.", nil, func() float64 { return lastContact(m.core) }),
		gauge("inflight_proposals", "Commands that wait in this leader.", nil, func() float64 { return float64(m.proposer.proposals.inflight.Load()) }),
		gauge("ready", "1 while this member serves: it knows a leader, has caught up and can write. /readyz says why it does not.", nil, func() float64 { return oneIf(m.Ready() == nil) }),
		DivergedGauge(func() bool { return errors.Is(m.Ready(), ErrDiverged) }),
		gauge("disk_free_bytes", "Free space of the Raft folder's disk.", nil, func() float64 { return float64(m.diskGuard.free.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "holdfast_raft_misdirected_connections_total", Help: "Connections refused because they were meant for another member or cluster.",
		}, func() float64 { return float64(m.mux.misdirected.Load()) }),
	}
	for _, role := range []string{roleLeader, roleFollower, roleCandidate, roleNonvoter} {
		all = append(all, gauge("state", "1 for the role that this member has.", prometheus.Labels{"state": role}, func() float64 {
			return oneIf(roleOf(m.core) == role)
		}))
	}
	return all
}

// DivergedGauge is the metric of a member whose state is not the others'. Who runs one that does not start because of that has it, too.
func DivergedGauge(diverged func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "holdfast_raft_diverged", Help: "1 while this member takes no commands because its state is not the majority's, or no majority agrees on one.",
	}, func() float64 { return oneIf(diverged()) })
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func lastContact(c *core) float64 {
	if c.raft.State() == raft.Leader {
		return 0
	}
	return time.Since(c.raft.LastContact()).Seconds()
}
