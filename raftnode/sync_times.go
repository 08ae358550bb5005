package raftnode

import (
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// SyncTimes counts the durable writes of the log and the vote since the member was opened: those up to each bound, which
// rise, and all.
type SyncTimes struct {
	Bounds     []time.Duration
	Cumulative []uint64
	Total      uint64
}

// SyncTimes is what holdfast_raft_fsync_seconds shows.
func (m *Member) SyncTimes() (SyncTimes, error) {
	var metric dto.Metric
	if err := m.metrics.syncTime.Write(&metric); err != nil {
		return SyncTimes{}, fmt.Errorf("read the durations of durable writes: %w", err)
	}
	var s SyncTimes
	for _, b := range metric.GetHistogram().GetBucket() {
		s.Bounds = append(s.Bounds, time.Duration(b.GetUpperBound()*float64(time.Second)).Round(time.Microsecond))
		s.Cumulative = append(s.Cumulative, b.GetCumulativeCount())
	}
	s.Total = metric.GetHistogram().GetSampleCount()
	return s, nil
}
