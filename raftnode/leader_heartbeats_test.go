package raftnode

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// leaveUnanswered has a member leave heartbeats unanswered. It answers everything else.
func (n *testMember) leaveUnanswered() { n.transport.SetHeartbeatHandler(func(raft.RPC) {}) }

// S143: raft takes any answer for contact with a follower, also one on the connection that it replicates on. A leader to which
// nothing else is answered cannot confirm that it leads, and serves no read.
func TestS143_ALeaderWhoseHeartbeatsNobodyAnswersGivesUpItsTerm(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	old := c.leader()
	rest := c.others(old)
	old.mustPropose(t, "before") // its replication is under way
	for _, n := range rest {
		n.leaveUnanswered()
	}
	c.leader(rest...)
	old.mustPropose(t, "after")
	for _, n := range c.members {
		require.True(t, n.hasNode(t, "after"), n.cfg.Name)
	}
}

// S143: what counts is a quorum, the term, and that the heartbeat was sent after the last look that found one.
func TestS143_AQuorumOfAnswersKeepsTheTerm(t *testing.T) {
	tr := &transport{acks: make(map[raft.ServerID]ack), nextAck: make(chan struct{})}
	servers := []raft.Server{{ID: "self"}, {ID: "b"}, {ID: "c"}, {ID: "new", Suffrage: raft.Nonvoter}}
	h := newHeartbeatWatch(tr, "self", 7)
	answer := func(id raft.ServerID, term uint64) {
		tr.recordAck(id, ack{term: term, sentAt: tr.heartbeatClock.Add(1)})
	}
	for range 3 * maxHeartbeatMisses {
		answer("b", 7)
		require.False(t, h.lost(servers), "one of two answers")
	}
	for look := 1; look < maxHeartbeatMisses; look++ {
		answer("new", 7)
		answer("c", 6)
		require.False(t, h.lost(servers), "look %d without a quorum", look)
	}
	require.True(t, h.lost(servers))
	require.True(t, h.lost(servers), "it may have to give up again")
	answer("c", 7)
	require.False(t, h.lost(servers), "a quorum came back")
	require.False(t, h.lost(servers[:1]), "it is alone")
}

// S27, S143: a leader without another voter has nobody who could lead instead. It has a quorum by itself, so that its lease never
// ends: silent it would keep out for ever who joins it.
func TestS143_ALeaderWithoutAnotherVoterDoesNotFallSilent(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	only := c.add("c1", nil)
	c.waitReady(1)
	for i := range maxPromotionLag + 1 {
		only.mustPropose(t, fmt.Sprint("node-", i))
	}
	only.leader.giveUp("its clock is wrong")
	c.add("c2", nil)
	c.waitReady(2)
	only.mustPropose(t, "with-both")
}
