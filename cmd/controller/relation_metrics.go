package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
)

// relationCollector counts, when it is scraped, the replications between two sites. Its labels are states, and never
// names.
type relationCollector struct {
	state stateReader
	now   func() time.Time
	status, role, ousted, apart,
	conversions, unequal *prometheus.Desc
}

func newRelationCollector(s stateReader) *relationCollector {
	desc := prometheus.NewDesc
	return &relationCollector{state: s, now: time.Now,
		status:      desc("holdfast_cluster_replications", "Replications between two sites, of a volume or of a group, by status.", []string{"status"}, nil),
		role:        desc("holdfast_cluster_replication_roles", "Replications between two sites by their role: a site is primary, both are demoted, or it is moving.", []string{"role"}, nil),
		ousted:      desc("holdfast_cluster_replications_ousted", "Replications with a site that lost the role and has not demoted or resynchronised since.", nil, nil),
		apart:       desc("holdfast_cluster_volumes_apart", "Volumes with a replica that was given up by force and waits for a forced resync.", nil, nil),
		conversions: desc("holdfast_cluster_conversions", "Volumes that are being converted to replicated ones, or back.", []string{"state"}, nil),
		unequal:     desc("holdfast_cluster_replication_unequal_seconds", "Seconds since the replicas of the volume that is longest behind were last known to be equal; 0 where none is behind.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (r *relationCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.status, r.role, r.ousted, r.apart, r.conversions, r.unequal} {
		out <- d
	}
}

// relationCounts are how many relations and volumes there are of each kind.
type relationCounts struct {
	status              map[fsm.ReplicationHealth]int
	role                map[string]int
	ousted, apart       int
	converting, undoing int
	equalUntil          time.Time // the earliest of those that are behind; zero: none is
}

// Collect implements prometheus.Collector. It reads a copy, so that the log does not wait for it.
func (r *relationCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	c := countRelations(r.state.Fork())
	for _, health := range []fsm.ReplicationHealth{fsm.ReplicationHealthy, fsm.ReplicationDegraded, fsm.ReplicationError, fsm.ReplicationUnknown} {
		gauge(r.status, c.status[health], health.String())
	}
	for _, role := range []string{"primary", "demoted", "moving"} {
		gauge(r.role, c.role[role], role)
	}
	gauge(r.ousted, c.ousted)
	gauge(r.apart, c.apart)
	gauge(r.conversions, c.converting, "converting")
	gauge(r.conversions, c.undoing, "undoing")
	behind := 0
	if !c.equalUntil.IsZero() {
		behind = max(0, int(r.now().Sub(c.equalUntil)/time.Second))
	}
	gauge(r.unequal, behind)
}

func countRelations(st *fsm.State) *relationCounts {
	c := &relationCounts{status: map[fsm.ReplicationHealth]int{}, role: map[string]int{}}
	ofGroups := map[fsm.VolumeGroupID]fsm.ReplicationHealth{}
	for v := range st.Volumes("") {
		status := st.VolumeReplicationStatus(v)
		switch {
		case status == nil:
		case v.Relation == nil:
			group := st.GroupOf(v.ID)
			ofGroups[group] = max(ofGroups[group], status.Health)
		default:
			c.addRelation(v.Relation, status.Health)
		}
		c.addVolume(v)
	}
	for g := range st.VolumeGroups("") {
		if g.Relation != nil {
			c.addRelation(g.Relation, max(ofGroups[g.ID], fsm.ReplicationHealthy))
		}
	}
	return c
}

func (c *relationCounts) addRelation(r *fsm.Relation, health fsm.ReplicationHealth) {
	c.status[health]++
	switch {
	case r.Move != nil:
		c.role["moving"]++
	case r.Promoted:
		c.role["primary"]++
	default:
		c.role["demoted"]++
	}
	if len(r.Ousted) > 0 {
		c.ousted++
	}
}

func (c *relationCounts) addVolume(v *fsm.Volume) {
	if r := v.Replication; r != nil && r.Conversion != nil {
		if r.Conversion.Undoing {
			c.undoing++
		} else {
			c.converting++
		}
	}
	m := v.RelationMember
	if m == nil {
		return
	}
	if m.Apart {
		c.apart++
	}
	if until := equalUntil(v, m); !until.IsZero() && (c.equalUntil.IsZero() || until.Before(c.equalUntil)) {
		c.equalUntil = until
	}
}

// equalUntil is when the replicas of a volume that is behind were last known to be equal; zero: they are equal, or
// never were.
func equalUntil(v *fsm.Volume, m *fsm.RelationMember) time.Time {
	for _, l := range v.ActiveReplicas() {
		if !l.UpToDate {
			if m.LastSync.Ended.After(m.InSyncAt) {
				return m.LastSync.Ended
			}
			return m.InSyncAt
		}
	}
	return time.Time{}
}
