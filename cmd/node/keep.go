package node

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
)

// keepPools says what the pools cannot do, and grows the filesystem of the pool of files
// until ctx ends.
func (n *node) keepPools(ctx context.Context) {
	for _, p := range n.parts.pools {
		if text := n.limitation(ctx, p); text != "" {
			n.log.Warn(text, "pool", p.name)
		}
	}
	if n.parts.notMade != nil {
		n.log.Warn("the new pool copies for snapshots and clones", "error", n.parts.notMade)
	}
	if n.parts.own == nil {
		return
	}
	said := ""
	n.parts.own.Keep(ctx, func(err error) {
		if said != err.Error() { // once for each failure
			said = err.Error()
			n.log.Warn("the pool's filesystem cannot grow", "error", err)
		}
	})
}

// limitation is what a pool cannot do because it copies for a cut, and how long a cut of
// a mounted volume may stop its writers; empty when it shares blocks.
func (n *node) limitation(ctx context.Context, p pool) string {
	backend, ok := p.Backend.(executor.SnapshotBackend)
	if !ok || backend.SharesBlocks() {
		return ""
	}
	text := fmt.Sprintf("the pool copies for snapshots and clones, as its filesystem shares no blocks: a mounted volume is stopped for up to --freeze-max (%s), "+
		"and a raw volume published for writing cannot be cut; use a pool on xfs with reflink=1 or btrfs, or an LVM thin pool", n.freezeMax)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if rate, err := backend.CopyRate(ctx); err == nil {
		text += fmt.Sprintf("; at %d MB/s a mounted volume can be cut while it holds up to %d MiB", rate/1e6, int64(float64(rate)*n.freezeMax.Seconds())>>20)
	}
	return text
}
