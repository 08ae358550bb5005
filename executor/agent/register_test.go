package agent_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// kindPool is a pool that only has a kind and a size.
type kindPool struct {
	executor.Backend
	kind string
}

func (s kindPool) ID() fsm.PoolID { return fsm.PoolID("hp-" + s.kind) }

func (s kindPool) Kind() string { return s.kind }

func (s kindPool) Facts(context.Context) executor.PoolFacts {
	return executor.PoolFacts{ID: s.ID(), Free: 1, Capacity: 1 << 30}
}

func TestS25_PoolsRegisterWithTheOvercommitOfTheirKind(t *testing.T) {
	host, err := records.OpenHost(filepath.Join(t.TempDir(), "host"))
	require.NoError(t, err)
	e, err := agent.New(agent.Config{
		Host: host, Pools: []executor.Backend{kindPool{kind: "loopfile"}, kindPool{kind: "lvm"}, kindPool{kind: "other"}},
		OvercommitPercent: 150, OvercommitPercents: map[string]uint32{"loopfile": 2000, "lvm": 100},
	})
	require.NoError(t, err)
	got := map[string]uint32{}
	for range 2 {
		for _, p := range e.Register().GetPools() {
			got[p.GetBackend()] = p.GetOvercommitPercent()
		}
		require.Equal(t, map[string]uint32{"loopfile": 2000, "lvm": 100, "other": 150}, got)
	}
}
