package controller

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// maxVolumeInfoSeries bounds the series of volume_info, however many volumes are in trouble.
	maxVolumeInfoSeries = 500
	// longRunning is when a running operation is worth a series: most end at once.
	longRunning = time.Minute
)

// volumeInfo gives the orchestrator's names of the volumes that need attention: those with a
// condition, incomplete replicas, or an operation that failed or does not end. A series for
// each volume would be no help where there are 100,000.
type volumeInfo struct {
	state      stateReader
	now        func() time.Time
	mu         sync.Mutex
	candidates map[fsm.VolumeID]bool // those that may be such a volume
	info       *prometheus.Desc
	unlisted   *prometheus.Desc
}

func newVolumeInfo(s stateReader) *volumeInfo {
	return &volumeInfo{
		state: s, now: time.Now, candidates: map[fsm.VolumeID]bool{},
		info: prometheus.NewDesc("holdfast_volume_info",
			"1 for each volume with a condition, replicas that are not whole, or an operation that failed or runs for over a minute; at most 500.",
			[]string{"volume_id", "namespace", "pvc", "pv", "why"}, nil),
		unlisted: prometheus.NewDesc("holdfast_volume_info_unlisted", "Volumes that would be in holdfast_volume_info, were it not bounded.", nil, nil),
	}
}

// update records whether a volume may need a series, as it is now.
func (i *volumeInfo) update(st *fsm.State, id fsm.VolumeID) {
	if id == "" {
		return
	}
	v, ok := st.Volume(id)
	i.mu.Lock()
	defer i.mu.Unlock()
	if ok && (v.Operation != nil || troubleOf(st, v) != "") {
		i.candidates[id] = true
	} else {
		delete(i.candidates, id)
	}
}

// rebuild updates every volume, from a copy of the state.
func (i *volumeInfo) rebuild(st *fsm.State) {
	i.mu.Lock()
	clear(i.candidates)
	i.mu.Unlock()
	for v := range st.Volumes("") {
		i.update(st, v.ID)
	}
}

// Describe implements prometheus.Collector.
func (i *volumeInfo) Describe(out chan<- *prometheus.Desc) { out <- i.info; out <- i.unlisted }

// Collect implements prometheus.Collector.
func (i *volumeInfo) Collect(out chan<- prometheus.Metric) {
	i.mu.Lock()
	ids := make([]fsm.VolumeID, 0, len(i.candidates))
	for id := range i.candidates {
		ids = append(ids, id)
	}
	i.mu.Unlock()
	slices.Sort(ids)
	listed, unlisted := 0, 0
	st := i.state.Fork()
	for _, id := range ids {
		v, ok := st.Volume(id)
		reason := ""
		if ok {
			reason = i.reason(st, v)
		}
		switch {
		case reason == "":
		case listed < maxVolumeInfoSeries:
			listed++
			out <- prometheus.MustNewConstMetric(i.info, prometheus.GaugeValue, 1, append(labelsOf(v), reason)...)
		default:
			unlisted++
		}
	}
	out <- prometheus.MustNewConstMetric(i.unlisted, prometheus.GaugeValue, float64(unlisted))
}

// reason says why a volume needs attention; empty when it does not.
func (i *volumeInfo) reason(st *fsm.State, v *fsm.Volume) string {
	switch op := v.Operation; {
	case op == nil:
	case op.State == fsm.OpFailed:
		return op.Kind.String() + " failed"
	case op.State == fsm.OpRunning && i.now().Sub(op.Started) > longRunning:
		return op.Kind.String() + " running"
	}
	return troubleOf(st, v)
}

func troubleOf(st *fsm.State, v *fsm.Volume) string {
	if _, failed := v.Phase.(fsm.Failed); failed {
		return "failed"
	}
	switch condition, ofReplication := st.StoredCondition(v); {
	case ofReplication:
		return "replication"
	case condition.Abnormal:
		return "condition"
	}
	return ""
}

func labelsOf(v *fsm.Volume) []string {
	claim := v.Claim
	if claim == nil {
		claim = &fsm.Claim{}
	}
	return []string{string(v.ID), claim.Namespace, claim.Name, claim.Volume}
}
