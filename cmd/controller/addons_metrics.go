package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
)

// addonsCollector counts, when it is scraped, what CSI-Addons has in the state.
type addonsCollector struct {
	state stateReader
	volumes, groups, fences, encrypted,
	rotations, reclaims *prometheus.Desc
}

func newAddonsCollector(s stateReader) *addonsCollector {
	return &addonsCollector{state: s,
		volumes:   prometheus.NewDesc("holdfast_cluster_volumes", "Volumes that the log knows, in all phases, by the site that they are at home at.", []string{"site"}, nil),
		groups:    prometheus.NewDesc("holdfast_cluster_volume_groups", "Volume groups that the log knows.", nil, nil),
		fences:    prometheus.NewDesc("holdfast_cluster_fences", "Fences by state: one holds when no host that it binds can write, until then it is unfinished.", []string{"state"}, nil),
		encrypted: prometheus.NewDesc("holdfast_cluster_encrypted_volumes", "Volumes that are encrypted.", nil, nil),
		rotations: prometheus.NewDesc("holdfast_cluster_key_rotations", "Volumes whose key is being replaced: until that is done, the former key may open them.", nil, nil),
		reclaims:  prometheus.NewDesc("holdfast_cluster_reclaims", "Unpublished volumes whose unused space is being reclaimed.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (a *addonsCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{a.volumes, a.groups, a.fences, a.encrypted, a.rotations, a.reclaims} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It reads a copy, so that the log does not wait for it.
func (a *addonsCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	st := a.state.Fork()
	count := countVolumes(st)
	for site, volumes := range count.home {
		gauge(a.volumes, volumes, site.String())
	}
	gauge(a.encrypted, count.encrypted)
	gauge(a.rotations, count.rotations)
	gauge(a.reclaims, count.reclaims)
	groups := 0
	for range st.VolumeGroups("") {
		groups++
	}
	gauge(a.groups, groups)
	holding, unfinished := countFences(st)
	gauge(a.fences, holding, "holds")
	gauge(a.fences, unfinished, "unfinished")
}

// volumeCounts are how many volumes there are of each kind.
type volumeCounts struct {
	home                           map[fsm.Site]int
	encrypted, rotations, reclaims int
}

func countVolumes(st *fsm.State) volumeCounts {
	c := volumeCounts{home: map[fsm.Site]int{}}
	for _, site := range st.Sites() {
		c.home[site] = 0
	}
	for v := range st.Volumes("") {
		c.home[v.Home]++
		if v.Crypt != nil {
			c.encrypted++
		}
		if v.Crypt != nil && v.Crypt.Rotation != nil {
			c.rotations++
		}
		for _, p := range v.Publications() {
			if p.Reclaim {
				c.reclaims++
			}
		}
	}
	return c
}

func countFences(st *fsm.State) (holding, unfinished int) {
	for f := range st.Fences() {
		if holds, _, _ := st.FenceHolds([]string{f.CIDR}, f.Owner); holds {
			holding++
		} else {
			unfinished++
		}
	}
	return holding, unfinished
}
