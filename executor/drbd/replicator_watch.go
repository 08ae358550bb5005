package drbd

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// How long Watch waits before it restarts the kernel's event stream.
const (
	watchBackoff    = 100 * time.Millisecond
	watchBackoffMax = 5 * time.Second

	noTimeout = 100 * 365 * 24 * time.Hour
)

// Watch calls changed for each volume of which the kernel reports an event, until ctx ends. Each
// new stream begins with all volumes, so no change is lost between two. Changed must not block.
func (r *Replicator) Watch(ctx context.Context, changed func(fsm.VolumeID)) error {
	backoff := watchBackoff
	for ctx.Err() == nil {
		lines := &eventWriter{changed: changed}
		_, err := r.config.runner.Run(ctx, run.Command{Tool: "drbdsetup", Args: []string{"events2"}, Timeout: noTimeout, Stdout: lines})
		if ctx.Err() != nil {
			break
		}
		if lines.gotEvent {
			backoff = watchBackoff
		}
		r.config.Log.Warn("the kernel's stream about replicas ended, it is started again", "error", err, "after", backoff)
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, watchBackoffMax)
	}
	return ctx.Err()
}
