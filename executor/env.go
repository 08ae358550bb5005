package executor

import (
	"context"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// env is what all parts of an executor have in common and nobody changes once it runs:
// it is read without a lock. What is in it has locks of its own.
type env struct {
	Config
	pools   map[fsm.PoolID]Backend
	acted   *actedEpoch
	metrics *metrics

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
	wg     sync.WaitGroup
}
