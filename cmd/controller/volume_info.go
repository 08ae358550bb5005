package controller

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// maxVolumeInfo bounds the series of volume_info, however many volumes are in trouble.
	maxVolumeInfo = 500
	// runningLong is when a running operation is worth a series: most end at once.
	runningLong = time.Minute
)

// volumeInfo says what the orchestrator calls the volumes that somebody should look at: a
// condition, replicas that are not whole, or an operation that failed or does not end. A
// series for each volume would be no help where there are 100,000.
type volumeInfo struct {
	source  source
	now     func() time.Time
	mu      sync.Mutex
	watched map[fsm.VolumeID]bool // those that may be such a volume
	info    *prometheus.Desc
	many    *prometheus.Desc
}

func newVolumeInfo(s source) *volumeInfo {
	return &volumeInfo{
		source: s, now: time.Now, watched: map[fsm.VolumeID]bool{},
		info: prometheus.NewDesc("holdfast_volume_info",
			"1 for each volume with a condition, replicas that are not whole, or an operation that failed or runs for over a minute; at most 500.",
			[]string{"volume_id", "namespace", "pvc", "pv", "why"}, nil),
		many: prometheus.NewDesc("holdfast_volume_info_unlisted", "Volumes that would be in holdfast_volume_info, were it not bounded.", nil, nil),
	}
}

// look notes whether a volume may be one to be told, as it is now.
func (i *volumeInfo) look(st *fsm.State, id fsm.VolumeID) {
	if id == "" {
		return
	}
	v, ok := st.Volume(id)
	i.mu.Lock()
	defer i.mu.Unlock()
	if ok && (v.Operation != nil || troubleOf(st, v) != "") {
		i.watched[id] = true
	} else {
		delete(i.watched, id)
	}
}

// all looks at every volume of a copy of the state.
func (i *volumeInfo) all(st *fsm.State) {
	i.mu.Lock()
	clear(i.watched)
	i.mu.Unlock()
	for v := range st.Volumes("") {
		i.look(st, v.ID)
	}
}

// Describe is prometheus.Collector's.
func (i *volumeInfo) Describe(out chan<- *prometheus.Desc) { out <- i.info; out <- i.many }

// Collect is prometheus.Collector's.
func (i *volumeInfo) Collect(out chan<- prometheus.Metric) {
	i.mu.Lock()
	ids := make([]fsm.VolumeID, 0, len(i.watched))
	for id := range i.watched {
		ids = append(ids, id)
	}
	i.mu.Unlock()
	slices.Sort(ids)
	listed, more := 0, 0
	st := i.source.Fork()
	for _, id := range ids {
		v, ok := st.Volume(id)
		why := ""
		if ok {
			why = i.why(st, v)
		}
		switch {
		case why == "":
		case listed < maxVolumeInfo:
			listed++
			out <- prometheus.MustNewConstMetric(i.info, prometheus.GaugeValue, 1, append(labelsOf(v), why)...)
		default:
			more++
		}
	}
	out <- prometheus.MustNewConstMetric(i.many, prometheus.GaugeValue, float64(more))
}

// why says why a volume is to be looked at; empty: it is not.
func (i *volumeInfo) why(st *fsm.State, v *fsm.Volume) string {
	switch op := v.Operation; {
	case op == nil:
	case op.State == fsm.OpFailed:
		return kinds[op.Kind] + " failed"
	case op.State == fsm.OpRunning && i.now().Sub(op.Started) > runningLong:
		return kinds[op.Kind] + " running"
	}
	return troubleOf(st, v)
}

func troubleOf(st *fsm.State, v *fsm.Volume) string {
	switch _, failed := v.Phase.(fsm.Failed); {
	case failed:
		return "failed"
	case v.Condition.Abnormal:
		return "condition"
	case st.ReplicationCondition(v).Abnormal:
		return "replication"
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
