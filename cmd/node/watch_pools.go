package node

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
)

// watchPools warns of pools that copy for snapshots, and grows the filesystem image of the pool of files
// until ctx ends.
func (n *node) watchPools(ctx context.Context) {
	for _, p := range n.components.pools {
		if text := n.copyLimitation(ctx, p); text != "" {
			n.log.Warn(text, "pool", p.name)
		}
	}
	if n.components.filesystemErr != nil {
		n.log.Warn("the new pool copies for snapshots and clones", "error", n.components.filesystemErr)
	}
	if n.components.ownFilesystem == nil {
		return
	}
	lastErr := ""
	n.components.ownFilesystem.KeepGrown(ctx, func(err error) {
		if lastErr != err.Error() { // a repeated failure is logged once
			lastErr = err.Error()
			n.log.Warn("the pool's filesystem cannot grow", "error", err)
		}
	})
}

// copyLimitation is the warning for a pool that copies for snapshots: what it cannot do, and for how long a
// snapshot may block writers of a mounted volume; empty when the pool shares blocks.
func (n *node) copyLimitation(ctx context.Context, p pool) string {
	backend, ok := p.Backend.(executor.SnapshotBackend)
	if !ok || backend.SharesBlocks() {
		return ""
	}
	text := fmt.Sprintf("the pool copies for snapshots and clones, as its filesystem shares no blocks: a mounted volume is stopped for up to --freeze-max (%s), "+
		"and no snapshot can be taken of a raw volume published for writing; use a pool on xfs with reflink=1 or btrfs, or an LVM thin pool", n.freezeMax)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if rate, err := backend.CopyRate(ctx); err == nil {
		text += fmt.Sprintf("; at %d MB/s a snapshot of a mounted volume can be taken while it holds up to %d MiB", rate/1e6, int64(float64(rate)*n.freezeMax.Seconds())>>20)
	}
	return text
}
