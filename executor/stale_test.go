package executor

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// bare is an executor of a host without pools, of which nothing was started.
func bare(t *testing.T) *Executor {
	host, err := OpenHost(t.TempDir() + "/data")
	require.NoError(t, err)
	e, err := New(Config{Node: "n1", Host: host})
	require.NoError(t, err)
	return e
}

const staleVolume = fsm.VolumeID("hv-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d6")

// A volume may cease to be wanted as soon as a call has waited for what it must be.
func TestAWishThatIsTakenBackIsNotWhatACallWaitedFor(t *testing.T) {
	e := bare(t)
	e.Patience = time.Minute
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	done := make(chan struct{})
	var flips sync.WaitGroup
	flips.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			e.mu.Lock()
			e.wished(v.id, map[bool]*fsm.Wish{true: {Volume: v.id}}[v.wish == nil], fsm.Epoch{})
			e.mu.Unlock()
		}
	})
	defer flips.Wait()
	defer close(done)
	for range 20_000 {
		w, err := e.wishOf(t.Context(), v)
		require.NoError(t, err)
		require.NotNil(t, w)
	}
}
