package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// An update may remove a source's replica while its snapshot is reconciled. The snapshot is then
// made by the view or by the pool, whichever was chosen first.
func TestASourceThatCeasesToBeReplicatedIsSnapshottedInThePool(t *testing.T) {
	type snapshotPool struct {
		executor.Backend
		executor.SnapshotBackend
	}
	pool := snapshotPool{}
	source := &volume{id: "vol"}
	a := assemble(Config{})
	a.pools["p"], a.volumes["vol"] = pool, source
	a.Replicator = struct{ executor.Replicator }{}
	replicated := &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{}}
	repeatUntilEnd(t, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		source.desired = map[bool]*fsm.DesiredVolume{true: replicated}[source.desired == nil]
	})
	for range 100_000 {
		backend, err := a.poolSet.snapshotPool(&fsm.DesiredSnapshot{Source: "vol", Pool: "p"})
		require.NoError(t, err)
		if _, rb := backend.(*replicaBackend); !rb {
			require.Equal(t, pool, backend)
		}
	}
}
