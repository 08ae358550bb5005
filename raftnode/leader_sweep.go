package raftnode

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// sweepPause leaves the log to others between two batches of a sweep.
	sweepPause = 5 * time.Millisecond
	// sweepRetry is the pause before a batch that failed is proposed again.
	sweepRetry = time.Second
)

// signalSweep is called after each batch of entries.
func (l *leader) signalSweep() {
	if l.machine.sweeping.Load() {
		select {
		case l.sweepSignal <- struct{}{}:
		default:
		}
	}
}

// sweep proposes the batches of the pending sweeps for as long as this member leads.
// A leader that dies between two batches leaves the rest to the next leader.
func (l *leader) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		if pending := l.machine.cluster().Sweeps; len(pending) > 0 {
			l.sweepBatch(ctx, pending[0].Epoch.Index)
			continue
		}
		select {
		case <-l.sweepSignal:
		case <-ctx.Done():
		}
	}
}

func (l *leader) sweepBatch(ctx context.Context, index uint64) {
	_, err := l.proposer.proposeInternal(ctx, l.proposer.fillInternalCommand(&fsmpb.Command{Body: &fsmpb.Command_ContinueSweep{ContinueSweep: &fsmpb.ContinueSweep{Index: index}}}))
	if err == nil {
		sleep(ctx, sweepPause)
		return
	}
	if ctx.Err() == nil {
		l.log.Warn("cannot propose the next batch of a sweep", "index", index, "error", err)
	}
	sleep(ctx, sweepRetry)
}
