package raftnode

import (
	"context"
	"time"
)

// sleep waits, or returns at once when the context is done.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
