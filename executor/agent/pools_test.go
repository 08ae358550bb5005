package agent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// roundingPool is a pool whose devices are a little larger than what they were asked for.
type roundingPool struct {
	executor.Backend
	executor.SnapshotBackend
	size int64
}

func (p roundingPool) ID() fsm.PoolID { return "hp-rounding" }

func (p roundingPool) ObserveSnapshot(context.Context, fsm.SnapshotID) (executor.Device, error) {
	return executor.Device{Exists: true, Size: p.size}, nil
}

type noMetadata struct{ executor.Replicator }

func (noMetadata) BackingCapacity(backing int64) int64 { return backing }

// A snapshot has the size that its volume had when it was taken, also where the device below was larger, and after the
// volume was expanded.
func TestASnapshotOfAReplicaHasTheSizeThatWasDecided(t *testing.T) {
	const size = 32 << 20
	for name, volume := range map[string]int64{"as large": size, "expanded since": 2 * size} {
		t.Run(name, func(t *testing.T) {
			a := newBareAgent(t)
			pool := roundingPool{size: size + 4096}
			a.poolSet.pools, a.poolSet.Replicator = map[fsm.PoolID]executor.Backend{pool.ID(): pool}, noMetadata{}
			a.mu.Lock()
			a.volumeEntry(testVolume).desired = &fsm.DesiredVolume{Size: volume, Replication: &fsm.DesiredReplica{}}
			a.mu.Unlock()
			backend, err := a.poolSet.snapshotPool(&fsm.DesiredSnapshot{Source: testVolume, Pool: pool.ID(), Size: size})
			require.NoError(t, err)
			have, err := backend.ObserveSnapshot(t.Context(), "hs-1")
			require.NoError(t, err)
			require.EqualValues(t, size, have.Size)
		})
	}
}
