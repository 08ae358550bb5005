package raftnode

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// diverge replaces a member's state by one in which a node has a different limit.
func diverge(t *testing.T, n *testMember, limit uint32) {
	t.Helper()
	require.True(t, n.hasNode(t, "common"))
	state := fsm.New()
	n.machine.mu.Lock()
	defer n.machine.mu.Unlock()
	for at := uint64(1); at <= n.machine.index.Load(); at++ {
		var l raft.Log
		require.NoError(t, n.storage.logs.GetLog(at, &l))
		if l.Type != raft.LogCommand {
			continue
		}
		cmd := new(fsmpb.Command)
		require.NoError(t, proto.Unmarshal(l.Data, cmd))
		if r := cmd.GetRegisterNode(); r != nil {
			r.MaxVolumes = limit
		}
		state.Apply(at, cmd)
	}
	require.NotEqual(t, n.machine.state.Hash(), state.Hash())
	n.machine.state = state
}

// proposeUntil keeps proposing commands, so that checkpoints are made, until done returns no error.
func proposeUntil(t *testing.T, members []*testMember, done func() error) {
	t.Helper()
	i := 0
	eventually(t, func() error {
		if err := done(); err == nil {
			return nil
		}
		i++
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = members[i%len(members)].Propose(ctx, registerNode(fmt.Sprintf("moving-%d", i)))
		return done()
	})
}

func checkExited(n *testMember) error {
	if n.exitCode.Load() < 0 {
		return errors.New("it goes on")
	}
	return nil
}

func TestS23_OnlyAMemberOutsideTheMajorityExits(t *testing.T) {
	t.Parallel()
	for name, pick := range map[string]func(*testCluster) *testMember{
		"a diverged follower":                               pickFollower,
		"a diverged leader does not expel two good members": pickLeader,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newThreeMembers(t, nil)
			c.members[0].mustPropose(t, "common")
			bad := pick(c)
			diverge(t, bad, 7)
			good := c.others(bad)
			proposeUntil(t, good, func() error { return checkExited(bad) })
			require.EqualValues(t, ExitRestart, bad.exitCode.Load())
			require.NoError(t, bad.Close())
			require.ErrorIs(t, bad.Ready(), errStopped)
			_, err := bad.Read(t.Context(), func(*fsm.State) error { return nil })
			require.True(t, IsUnavailable(err), "%v", err)
			good[0].mustPropose(t, "without-it")
			for _, n := range good {
				require.True(t, n.hasNode(t, "without-it"))
				require.Error(t, checkExited(n))
			}
			for range 2 {
				require.ErrorIs(t, c.start(bad), store.ErrQuarantined)
			}
		})
	}
}

func pickFollower(c *testCluster) *testMember { return c.followers()[0] }
func pickLeader(c *testCluster) *testMember   { return c.leader() }

func TestS23_WithoutAMajorityHashNobodyExitsAndMutationsAreRefused(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	c.members[0].mustPropose(t, "common")
	diverge(t, c.members[0], 7)
	diverge(t, c.members[1], 8)
	proposeUntil(t, c.members, func() error {
		for _, n := range c.members {
			if _, err := n.Propose(testContext(t), registerNode("refused")); !errors.Is(err, ErrDiverged) {
				return fmt.Errorf("%s: %w", n.cfg.Name, err)
			}
			if err := n.Ready(); !errors.Is(err, ErrDiverged) {
				return fmt.Errorf("%s is ready: %w", n.cfg.Name, err)
			}
		}
		return nil
	})
	for _, n := range c.members {
		require.Error(t, checkExited(n))
		require.InDelta(t, 1, n.gauge(t, "holdfast_raft_diverged"), 0)
		require.InDelta(t, 0, n.gauge(t, "holdfast_raft_ready"), 0)
	}
}

func TestCheckpointsCarryTheHashOfAllMembers(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	proposeUntil(t, c.members, func() error {
		for _, n := range c.members {
			if at := n.machine.cluster().Checkpoint; at.Index < 16 {
				return fmt.Errorf("%s is at checkpoint %d", n.cfg.Name, at.Index)
			}
		}
		return nil
	})
	for _, n := range c.members {
		at := n.machine.cluster().Checkpoint
		hash, known := n.machine.hashAt(at.Index)
		require.True(t, known)
		require.Equal(t, at.Hash, hash[:])
	}
}
