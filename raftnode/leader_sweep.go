package raftnode

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// sweepPause leaves the log to others between two batches of a sweep.
	sweepPause = 5 * time.Millisecond
	// sweepRetry is how soon a batch is proposed again that was not taken.
	sweepRetry = time.Second
)

// signalSweep is told after each batch of entries.
func (m *Member) signalSweep() {
	if m.machine.sweeping.Load() {
		select {
		case m.sweepSignal <- struct{}{}:
		default:
		}
	}
}

// sweep has the sweeps under way written, batch by batch, for as long as this member
// leads. A leader that dies between two batches leaves the rest to the next one.
func (m *Member) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		if pending := m.machine.cluster().Sweeps; len(pending) > 0 {
			m.sweepBatch(ctx, pending[0].Epoch.Index)
			continue
		}
		select {
		case <-m.sweepSignal:
		case <-ctx.Done():
		}
	}
}

func (m *Member) sweepBatch(ctx context.Context, index uint64) {
	_, err := m.proposer.proposeInternal(ctx, m.proposer.fillInternalCommand(&fsmpb.Command{Body: &fsmpb.Command_ContinueSweep{ContinueSweep: &fsmpb.ContinueSweep{Index: index}}}))
	if err == nil {
		sleep(ctx, sweepPause)
		return
	}
	if ctx.Err() == nil {
		m.log.Warn("propose the next batch of a sweep", "index", index, "error", err)
	}
	sleep(ctx, sweepRetry)
}
