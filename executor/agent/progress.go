package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// progressInterval is how often the progress of a copy is reported.
const progressInterval = 2 * time.Second

// progress reports how far a copy is, now and then, without waiting for the log.
func (r *reporter) progress(volume fsm.VolumeID, snapshot fsm.SnapshotID, source fsm.VolumeID) executor.Progress {
	last := time.Now()
	return func(done, total int64) {
		if time.Since(last) < progressInterval {
			return
		}
		last = time.Now()
		ob := plan.ObservationOf(snapshot, source)
		if snapshot == "" {
			ob.VolumeId = string(volume)
		}
		ob.Fact = &fsmpb.Observation_Progress{Progress: &fsmpb.Progress{DoneBytes: done, TotalBytes: total}}
		r.send(reportBatch{[]*fsmpb.Observation{ob}, func(fsm.Epoch, error) {}})
	}
}
