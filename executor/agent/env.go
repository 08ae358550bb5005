package agent

import (
	"context"
	"log/slog"
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// env is what all parts of an executor have in common and nobody changes once it runs:
// it is read without a lock. What is in it has locks of its own.
type env struct {
	Config
	pools   map[fsm.PoolID]executor.Backend
	acted   *records.ActedEpoch
	metrics *metrics

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (en *env) hitFaultPoint(point string) {
	if en.Faults != nil {
		en.Faults.Hit(point)
	}
}

// realPath is the path as the kernel names it; one that is not allowed stays as it is.
func (en *env) realPath(path string) string {
	if realPath, err := en.Mounter.RealPath(path); err == nil {
		return realPath
	}
	return path
}

func (en *env) logger(v *volume) *slog.Logger { return en.Logger.With("volume", v.id) }
