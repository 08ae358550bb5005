package fsm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// S25: an encrypted volume, its snapshots and what is made of them take their header's room in the pool as well.
func TestS25_AHeaderIsReserved(t *testing.T) {
	w := encryptedWorld(t)
	pool := string(w.volume(1).Replicas[0].Pool)
	require.Equal(t, gib+LUKSHeaderBytes, w.reserved(pool))
	w.takeSnapshot(1, 1)
	require.Equal(t, 2*(gib+LUKSHeaderBytes), w.reserved(pool))
	require.Equal(t, w.reserved(pool), (&world{s: restored(t, w.s)}).reserved(pool))
	require.NoError(t, w.s.Check())
}

// S25: a volume for whose header there is no room is not placed, and is where there is room; one in clear needs none.
func TestS25_ThereIsRoomForAHeader(t *testing.T) {
	withCapacity := func(capacity int64) *world {
		w := newWorld(t)
		for _, n := range slices.Collect(w.s.Nodes()) {
			limited := *n
			limited.Pools = []Pool{{ID: n.Pools[0].ID, Backend: loopfileBackend, Capacity: capacity, OvercommitPercent: 100}}
			w.s.putNode(limited)
		}
		return w
	}
	for range 2 {
		withCapacity(gib+LUKSHeaderBytes-1).rejected(NoCapacity, controller, encryptedVolume(create(1)))
		withCapacity(gib+LUKSHeaderBytes).ok(controller, encryptedVolume(create(1)))
		withCapacity(gib).ok(controller, create(1))
	}
}

// S25: an encrypted volume's replicas take their header's room each, and so do the copy that is kept of one and one that is added.
func TestS25_AHeaderIsReservedForEachReplica(t *testing.T) {
	w := newLoser(t)
	w.encryptVolume1(0)
	before := w.reserved("pool-n1")
	require.Equal(t, w.reserved("pool-n2"), before)
	require.Equal(t, gib+LUKSHeaderBytes, before)
	limited, _ := w.s.Node("n1")
	for _, tc := range []struct {
		room int64
		kept bool
	}{{gib + LUKSHeaderBytes - 1, false}, {gib + LUKSHeaderBytes, true}} {
		n := *limited
		n.Pools = []Pool{{ID: "pool-n1", Backend: loopfileBackend, Capacity: before + tc.room, OvercommitPercent: 100}}
		w.s.putNode(n)
		require.Equal(t, tc.kept, w.ok("node/n1", w.keepReplica(1, "n1")).GetSnapshotId() != "")
	}
	require.Equal(t, 2*before, w.reserved("pool-n1"))
}
