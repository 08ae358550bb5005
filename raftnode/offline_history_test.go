package raftnode

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// checkChain checks a journal against a state, twice.
func checkChain(t *testing.T, state *fsm.State, history func(func(Entry) bool) (uint64, error)) (c *fsm.ChainCheck) {
	t.Helper()
	for range 2 {
		c = fsm.NewChainCheck(state)
		first, err := history(func(e Entry) bool {
			require.NotNil(t, e.Command, e.Reason)
			c.Entry(e.Index, e.Command, e.Outcome, e.Chain)
			return true
		})
		require.NoError(t, err)
		c.End(first)
		require.Empty(t, c.Breaks)
	}
	return c
}

// checkChain checks the journal of a member that runs, once it has what the state has.
func (n *testMember) checkChain(t *testing.T) *fsm.ChainCheck {
	t.Helper()
	state := n.Fork()
	require.NoError(t, n.WaitIndex(testContext(t), state.Cluster().Index))
	return checkChain(t, state, func(fn func(Entry) bool) (uint64, error) { return n.History(0, 0, fn) })
}

// TestTheJournalsOfAllMembersAreOneChain: also after a Raft snapshot and a restart, and of members that do not run.
func TestTheJournalsOfAllMembersAreOneChain(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	propose := func(from int) {
		for i := range 5 {
			c.members[i%3].mustPropose(t, fmt.Sprintf("node-%d", from+i))
		}
		c.waitSameHash(t)
	}
	propose(0)
	require.NoError(t, c.members[0].raft.Snapshot().Error())
	propose(5)
	links := map[uint64][]byte{}
	for _, n := range c.members {
		k := n.checkChain(t)
		require.True(t, k.FromBeginning && k.MatchesState)
		require.GreaterOrEqual(t, k.Count, uint64(10))
		_, err := n.History(0, 0, func(e Entry) bool {
			if known := links[e.Index]; known != nil {
				require.Equal(t, known, e.Chain, "index %d", e.Index)
			}
			links[e.Index] = e.Chain
			return true
		})
		require.NoError(t, err)
	}
	c.crashAll()
	for i, n := range c.members {
		o, err := OpenOffline(n.cfg.Dir)
		require.NoError(t, err)
		k := checkChain(t, o.State(), o.History)
		require.Equal(t, i == 0, k.MatchesState, "only the first has a Raft snapshot")
		require.NoError(t, o.Close())
		require.NoError(t, c.start(n))
	}
	c.waitReady(3)
	propose(10)
	for _, n := range c.members {
		require.True(t, n.checkChain(t).MatchesState)
	}
}
