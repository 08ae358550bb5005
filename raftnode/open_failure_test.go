package raftnode

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// S68: raft may request votes before Open has returned.
func TestS68_AMemberDoesNotCampaignBeforeItIsOpen(t *testing.T) {
	t.Parallel()
	m := &joiner{core: &core{id: "a", started: make(chan struct{})}}
	require.False(t, m.mayCampaign())
}

// TestAMemberThatFailsWhileItIsOpenedEnds checks that a fatal error during Open is acted upon after all
// goroutines were started: otherwise the end would wait for goroutines that are still being started.
func TestAMemberThatFailsWhileItIsOpenedEnds(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	for i := range 8 {
		var failed func(string, error)
		n := c.prepare(fmt.Sprintf("c%d", i), func(cfg *Config) {
			cfg.Bootstrap, cfg.Join = true, nil
			cfg.openStorage = func(o store.Options) (*storage, error) {
				failed = o.OnFatal
				return openStorage(o)
			}
			cfg.Services = func(grpc.ServiceRegistrar) { failed("write", errors.New("on purpose")) }
		})
		require.NoError(t, c.start(n))
		require.NoError(t, n.Close())
		require.EqualValues(t, ExitRestart, n.exitCode.Load())
	}
}
