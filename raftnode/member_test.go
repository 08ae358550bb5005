package raftnode

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestAClusterOfThree(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newThreeMembers(t, func(cfg *Config) { cfg.LogStore = kind })
		t.Run("a command proposed on any member is known on any member", func(t *testing.T) { testProposeEverywhere(t, c) })
		t.Run("a rejection comes back beside the outcome", func(t *testing.T) { testRejections(t, c) })
		t.Run("a command proposed again with its request id has one effect (S4)", func(t *testing.T) { testDeduplication(t, c) })
		t.Run("a watch wakes on what is of interest", func(t *testing.T) { testWatches(t, c) })
		t.Run("any index is waited for, also Raft's own entries", func(t *testing.T) { testWaitIndex(t, c) })
		t.Run("the journal tells what was proposed", func(t *testing.T) { testHistory(t, c) })
		t.Run("leadership is given away at once", func(t *testing.T) { testTransfer(t, c) })
		t.Run("a crashed leader is replaced and comes back", func(t *testing.T) { testReplaceLeader(t, c) })
		requireSameHash(t, c.members...)
	})
}

func testProposeEverywhere(t *testing.T, c *testCluster) {
	for i, proposer := range c.members {
		name := fmt.Sprintf("everywhere-%d", i)
		proposer.mustPropose(t, name)
		require.NoError(t, proposer.View(func(s *fsm.State) error {
			_, own := s.Node(fsm.NodeID(name))
			require.True(t, own, "its own command is applied on %s when Propose returns", proposer.cfg.Name)
			return nil
		}))
		for _, reader := range c.members {
			require.True(t, reader.hasNode(t, name), "%s knows what %s proposed", reader.cfg.Name, proposer.cfg.Name)
		}
	}
}

func testRejections(t *testing.T, c *testCluster) {
	for _, n := range c.members {
		for range 2 {
			cmd := registerNode("refused")
			cmd.Actor = "node/somebody-else"
			outcome, err := n.proposeUntilAnswered(t, cmd)
			var rej *fsm.Rejection
			require.ErrorAs(t, err, &rej)
			require.Equal(t, fsm.Forbidden, rej.Reason)
			require.NotNil(t, outcome.GetRejection())
			require.False(t, IsUnavailable(err))
		}
	}
}

func testDeduplication(t *testing.T, c *testCluster) {
	for i, n := range c.members {
		cmd := registerNode(fmt.Sprintf("dedupe-%d", i))
		propose := func(n *testMember) (o *fsmpb.Outcome) {
			retryUnavailable(t, func() (err error) {
				o, err = n.Propose(testContext(t), cmd)
				return err
			})
			return o
		}
		first := propose(n)
		require.Len(t, cmd.GetRequestId(), fsm.RequestIDLen)
		again := propose(c.members[(i+1)%3])
		require.Equal(t, first.GetIndex(), again.GetIndex(), "the first answer is given again")
	}
}

func testWatches(t *testing.T, c *testCluster) {
	for i, n := range c.members {
		name := fsm.NodeID(fmt.Sprintf("watched-%d", i))
		nodeWatch, other, all := n.Watch(Interest{Node: name}), n.Watch(Interest{Node: "nobody"}), n.Watch(Interest{All: true})
		c.members[(i+1)%3].mustPropose(t, string(name))
		for _, w := range []*Watch{nodeWatch, all} {
			select {
			case <-w.C:
			case <-time.After(testTimeout):
				require.Fail(t, "the watch did not wake")
			}
		}
		volumes, everything := nodeWatch.TakeVolumes()
		require.Equal(t, []fsm.VolumeID{""}, volumes)
		require.False(t, everything)
		volumes, everything = nodeWatch.TakeVolumes()
		require.Empty(t, volumes)
		require.False(t, everything)
		require.Empty(t, other.C)
		for _, w := range []*Watch{nodeWatch, other, all} {
			w.Close()
		}
	}
}

func testWaitIndex(t *testing.T, c *testCluster) {
	leader := c.leader()
	commit := leader.raft.CommitIndex()
	for _, n := range c.members {
		for at := uint64(1); at <= commit; at++ {
			require.NoError(t, n.WaitIndex(testContext(t), at), "index %d", at)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		err := n.WaitIndex(ctx, commit+1_000_000)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

func testHistory(t *testing.T, c *testCluster) {
	for _, n := range c.members {
		var names []string
		_, err := n.History(0, 0, func(e Entry) bool {
			if r := e.Command.GetRegisterNode(); r != nil && e.Outcome.GetRejection() == nil {
				names = append(names, r.GetNodeId())
			}
			return true
		})
		require.NoError(t, err)
		require.Contains(t, names, "everywhere-0")
		require.Contains(t, names, "watched-2")
	}
}

func testTransfer(t *testing.T, c *testCluster) {
	old := c.leader()
	transfer := func(n *testMember) {
		t.Helper()
		retryUnavailable(t, func() error { return n.TransferLeadership(testContext(t)) })
	}
	transfer(old)
	eventually(t, func() error {
		for _, n := range c.others(old) {
			if leading, _, _ := n.Leadership(); leading {
				return nil
			}
		}
		// On a busy machine the new leader may lose the election that follows.
		transfer(old)
		return errors.New("no other member leads")
	})
	old.mustPropose(t, "after-transfer")
	for _, n := range c.members { // repeated, on the followers
		if leading, _, _ := n.Leadership(); !leading {
			transfer(n)
		}
	}
}

func testReplaceLeader(t *testing.T, c *testCluster) {
	for i := range 2 {
		old := c.leader()
		rest := c.others(old)
		old.crash(t)
		rest[0].mustPropose(t, fmt.Sprintf("after-crash-%d", i))
		require.True(t, rest[1].hasNode(t, fmt.Sprintf("after-crash-%d", i)))
		require.NoError(t, c.start(old))
		c.waitReady(3)
		require.True(t, old.hasNode(t, fmt.Sprintf("after-crash-%d", i)))
	}
}

func TestS28_WithoutAQuorumCallsFailSoonAndSayUnavailable(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	survivor := c.followers()[0]
	for _, n := range c.others(survivor) {
		n.crash(t)
	}
	for _, round := range []string{"while the leader is missed", "when there is none for long"} {
		began := time.Now()
		_, err := survivor.Propose(testContext(t), registerNode("nobody-hears"))
		require.Error(t, err, round)
		require.True(t, IsUnavailable(err), "%s: %v", round, err)
		_, err = survivor.Read(testContext(t), func(*fsm.State) error { return errors.New("must not be called") })
		require.ErrorIs(t, err, ErrNotLeader, round)
		require.Error(t, survivor.Ready())
		require.Less(t, time.Since(began), testTimeout/2, round)
	}
	eventually(t, func() error {
		began := time.Now()
		_, err := survivor.Propose(testContext(t), registerNode("nobody-hears"))
		require.ErrorIs(t, err, ErrNotLeader)
		if took := time.Since(began); took > survivor.Member.cfg.leaderlessTimeout()/2 {
			return fmt.Errorf("it took %s", took)
		}
		return nil
	})
	for _, n := range c.others(survivor) {
		require.NoError(t, c.start(n))
	}
	c.waitReady(3)
	survivor.mustPropose(t, "heard-again")
}
