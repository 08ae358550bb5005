package agent

import (
	"context"
	"log/slog"
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// env is what all parts of an Agent share and what never changes once it runs: it is read
// without a lock. Values in it have their own locks.
type env struct {
	Config
	pools map[fsm.PoolID]executor.Backend
	acted *records.ActedEpoch
	// detached is which disks this host detached without failure, over restarts of its process.
	detached *records.DetachedDisks
	metrics  *metrics

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (en *env) hitFaultPoint(point string) {
	if en.Faults != nil {
		en.Faults.Hit(point)
	}
}

// realPath is the path as the kernel names it; a path that is not allowed is returned unchanged.
func (en *env) realPath(path string) string {
	if realPath, err := en.Mounter.RealPath(path); err == nil {
		return realPath
	}
	return path
}

func (en *env) logger(v *volume) *slog.Logger { return en.Logger.With("volume", v.id) }
