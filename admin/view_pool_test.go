package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm"
)

const gib = int64(1) << 30

func TestPoolCondition(t *testing.T) {
	for name, tc := range map[string]struct {
		state PoolState
		want  string
	}{
		"nothing to say":             {state: PoolState{Free: 60 * gib, Capacity: 100 * gib}},
		"nothing below the share":    {state: PoolState{Free: 21 * gib, Capacity: 100 * gib}},
		"nearly full":                {state: PoolState{Free: 18 * gib, Capacity: 100 * gib}, want: "82 % full"},
		"full":                       {state: PoolState{Capacity: 100 * gib}, want: "100 % full"},
		"without a size":             {state: PoolState{}},
		"it copies":                  {state: PoolState{Free: gib, Capacity: gib, Copies: true}, want: "snapshots and clones are copies"},
		"both":                       {state: PoolState{Capacity: gib, Copies: true}, want: "100 % full, snapshots and clones are copies"},
		"absent, and nothing beside": {state: PoolState{Absent: true, Copies: true}, want: "absent: it is not mounted, or lost its id"},
		"absent, as its host says":   {state: PoolState{Absent: true, Detail: "no such folder"}, want: "absent: no such folder"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, tc.state.condition()) })
	}
}

// TestNodesShowFreeSpace checks the capacity of the filesystem below the pool, and the free space for volumes.
func TestNodesShowFreeSpace(t *testing.T) {
	w := newEnv(t, "n1", "n2")
	pools := map[string]string{}
	w.server.Pools = func(context.Context) map[fsm.PoolID]PoolState {
		return map[fsm.PoolID]PoolState{fsm.PoolID(pools["n1"]): {Free: 75 * gib, Capacity: 252 * gib, Copies: true}}
	}
	answer := func() []*adminpb.Node {
		resp, err := w.server.Nodes(ctx, &adminpb.NodesRequest{})
		require.NoError(t, err)
		return resp.GetNodes()
	}
	for _, n := range answer() {
		pools[n.GetId()] = n.GetPools()[0].GetId()
	}
	for range 2 {
		nodes := answer()
		first, second := nodes[0].GetPools()[0], nodes[1].GetPools()[0]
		require.True(t, first.GetMeasured())
		require.Equal(t, 75*gib, first.GetFreeBytes())
		require.False(t, second.GetMeasured(), "its host did not say")
		var out strings.Builder
		require.NoError(t, printTable(&out, &adminpb.NodesResponse{Nodes: nodes}, listing.View{}))
		require.Contains(t, out.String(), "75 GiB")
		require.Contains(t, out.String(), "snapshots and clones are copies")
	}
}
