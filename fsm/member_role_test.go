package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func demoteMember(id string) *fsmpb.SetMemberRole {
	return &fsmpb.SetMemberRole{MemberId: id, NonVoter: true}
}

// S141: a member that an operator demoted stays a non-voter: it is in the state, whoever leads.
func TestS141_ADemotedMemberIsRecorded(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"m2", "m1", "m3"} {
		w.twice(admin, demoteMember(id))
	}
	require.Equal(t, []string{"m1", "m2", "m3"}, w.s.Cluster().NonVoters)
	w.twice(admin, &fsmpb.SetMemberRole{MemberId: "m2"})
	w.twice(admin, &fsmpb.SetMemberRole{MemberId: "m9"})
	c := w.s.Cluster()
	require.Equal(t, []string{"m1", "m3"}, c.NonVoters)
	require.True(t, c.IsNonVoter("m1"))
	require.False(t, c.IsNonVoter("m2"))
	joined := restored(t, w.s)
	require.Equal(t, c.NonVoters, joined.Cluster().NonVoters)
	require.Equal(t, w.s.Hash(), joined.Hash())
}

// What one entry changes is seen in no copy of the state from before, and in the hash.
func TestADemotionIsHashedAndNotShared(t *testing.T) {
	w := newWorld(t)
	w.ok(admin, demoteMember("m1"))
	w.ok(admin, demoteMember("m2"))
	fork := w.s.Fork()
	hash := fork.Hash()
	w.ok(admin, &fsmpb.SetMemberRole{MemberId: "m1"})
	require.Equal(t, []string{"m1", "m2"}, fork.Cluster().NonVoters)
	require.Equal(t, hash, fork.Hash())
	w.s.cluster.Index, w.s.cluster.Time = fork.cluster.Index, fork.cluster.Time
	require.NotEqual(t, hash, w.s.Hash())
	w.ok(admin, &fsmpb.SetMemberRole{MemberId: "m2"})
	require.Nil(t, w.s.Cluster().NonVoters, "it hashes as it did before there were any")
}

func TestDemotionsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.rejected(Invalid, admin, demoteMember(""))
	w.rejected(Forbidden, controller, demoteMember("m1"))
	for i := range maxNonVoters {
		w.ok(admin, demoteMember(fmt.Sprintf("m-%03d", i)))
	}
	w.rejected(Precondition, admin, demoteMember("one-more"))
	old := newWorldAt(t, Level2)
	old.rejected(Unsupported, admin, demoteMember("m1"))
	require.Equal(t, Level3, LeastLevel(envelope(admin, "x", 1, demoteMember("m1"))))
}

func TestCheckFindsANonVoterTwice(t *testing.T) {
	w := newWorld(t)
	w.ok(admin, demoteMember("m1"))
	w.s.cluster.NonVoters = []string{"m1", "m1"}
	require.ErrorContains(t, w.s.Check(), "invariant S141:")
}
