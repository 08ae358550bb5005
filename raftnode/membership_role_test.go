package raftnode

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// recordRole records whether a member is to vote, twice.
func (n *testMember) recordRole(t *testing.T, id string, nonVoter bool) {
	t.Helper()
	for range 2 {
		_, err := n.proposeUntilAnswered(t, &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_SetMemberRole{SetMemberRole: &fsmpb.SetMemberRole{MemberId: id, NonVoter: nonVoter}}})
		require.NoError(t, err)
	}
}

// waitSuffrage waits until the member knows another one as a voter, or as none.
func (n *testMember) waitSuffrage(t *testing.T, id string, want raft.ServerSuffrage) {
	t.Helper()
	eventually(t, func() error {
		if s, in := n.serverOf(id); !in || s.Suffrage != want {
			return fmt.Errorf("%s: it is %s", n.cfg.Name, s.Suffrage)
		}
		return nil
	})
}

// S141: a member that an operator demoted stays a non-voter under every leader, until it is promoted.
func TestS141_ADemotedMemberStaysANonVoter(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader := c.leader()
	demoted, other := c.others(leader)[0], c.others(leader)[1]
	requireRefused(t, func() error { return other.DemotePeer(testContext(t), demoted.id) }) // it is not recorded
	leader.recordRole(t, demoted.id, true)
	for range 2 {
		retryUnavailable(t, func() error { return other.DemotePeer(testContext(t), demoted.id) })
	}
	other.waitSuffrage(t, demoted.id, raft.Nonvoter)

	for range 2 { // under another leader, which promotes a member that joins
		leader.handOver(t, other)
	}
	joiner := c.add("c4", nil)
	other.waitSuffrage(t, joiner.id, raft.Voter)
	other.waitSuffrage(t, demoted.id, raft.Nonvoter)
	requireRefused(t, func() error { return other.TransferTo(testContext(t), demoted.id) })
	eventually(t, func() error { return leader.RemovePeer(testContext(t), joiner.id) }) // the non-voter is not catching up

	other.recordRole(t, demoted.id, false)
	other.waitSuffrage(t, demoted.id, raft.Voter)
	c.members = c.others(joiner)
	requireSameHash(t, c.members...)
}

// handOver transfers leadership until the other one leads: a machine that starves it may have it lost again at once.
func (n *testMember) handOver(t testing.TB, to *testMember) {
	t.Helper()
	retryUnavailable(t, func() error {
		if err := n.TransferTo(testContext(t), to.id); err != nil {
			return err
		}
		if leading, _, _ := to.Leadership(); !leading {
			return fmt.Errorf("%w: %s leads no more", ErrNotLeader, to.cfg.Name)
		}
		return nil
	})
}

// S141: a voter is demoted only while the others are a quorum without it, and a leader hands leadership on first.
func TestS141_AVoterIsDemotedOnlyIfTheOthersKeepAQuorum(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader := c.leader()
	dead, live := c.others(leader)[0], c.others(leader)[1]
	for _, n := range c.members {
		leader.recordRole(t, n.id, true)
	}
	dead.crash(t)
	for range 2 {
		requireRefused(t, func() error { return leader.DemotePeer(testContext(t), live.id) })
		requireRefused(t, func() error { return live.DemotePeer(testContext(t), leader.id) })
	}
	requireRefused(t, func() error { return leader.DemotePeer(testContext(t), "nobody") })
	requireRefused(t, func() error { return live.TransferTo(testContext(t), dead.id) })
	require.NoError(t, c.start(dead))
	c.waitReady(3)
	old := c.leader()
	retryUnavailable(t, func() error { return live.DemotePeer(testContext(t), old.id) })
	c.leader(c.others(old)...).waitSuffrage(t, old.id, raft.Nonvoter)
}

// The status of a member tells how its disk is.
func TestAStatusTellsOfTheDisk(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	n.mustPropose(t, "one")
	s, err := n.Status(testContext(t), 0)
	require.NoError(t, err)
	require.Positive(t, s.GetDiskFreeBytes())
	require.Positive(t, s.GetSlowestSyncNano())
	for range 2 {
		times, err := n.SyncTimes()
		require.NoError(t, err)
		require.Positive(t, times.Total)
		require.Len(t, times.Cumulative, len(times.Bounds))
		require.LessOrEqual(t, times.Cumulative[len(times.Cumulative)-1], times.Total)
		require.Equal(t, 100*time.Microsecond, times.Bounds[0])
	}
}

func TestTheSlowestWriteIsForgottenAfterAMinute(t *testing.T) {
	var x slowSyncs
	at := time.Unix(1_000_000, 0)
	require.Zero(t, x.slowest(at))
	x.add(at, 5)
	x.add(at, 3)
	for age, want := range map[time.Duration]time.Duration{0: 5, 29 * time.Second: 5, 59 * time.Second: 5, 60 * time.Second: 0, -time.Hour: 0} {
		y := slowSyncs{began: x.began, longest: x.longest}
		for range 2 {
			require.Equal(t, want, y.slowest(at.Add(age)), age)
		}
	}
}

// A leader of an older build does not know the call: the answer is no, and is not asked for again.
func TestWhatALeaderDoesNotKnowIsRefused(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	follower := c.followers()[0]
	err := follower.membership.runOnLeader(testContext(t), func(context.Context) error { return ErrNotLeader },
		func(context.Context, raftpb.MemberClient) error {
			return status.Error(codes.Unimplemented, "unknown method")
		})
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "upgrade it first")
}
