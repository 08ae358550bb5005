package raftnode

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// TestS68_OneMissingAnswerDoesNotRuleOutADuplicate: a duplicate that votes while the original only
// answers slowly would give the member two votes.
func TestS68_OneMissingAnswerDoesNotRuleOutADuplicate(t *testing.T) {
	t.Parallel()
	var unprobed, unanswering, slow duplicateMember
	require.False(t, unprobed.ruledOut(), "before it asked")
	for range duplicateProbes {
		require.False(t, unanswering.ruledOut())
		unanswering.noAnswer()
	}
	require.True(t, unanswering.ruledOut())
	slow.noAnswer()
	slow.found("10.0.0.1:9800")
	for range 2 * duplicateProbes {
		slow.noAnswer()
	}
	require.False(t, slow.ruledOut(), "it answered once")
	slow.reset()
	require.False(t, slow.ruledOut(), "at another address it asks anew")
}

// S68: a process that answers Raft is the member, whether or not its Member service answers. The copy becomes the
// member when it is gone.
func TestS68_AMemberThatAnswersRaftKeepsItsAddress(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, func(cfg *Config) { cfg.HeartbeatTimeout = time.Second }) // a loaded machine answers within two
	original := c.followers()[0]
	original.server.Stop()
	copied := &raftpb.JoinRequest{
		MemberId: original.id, RaftAddr: freeAddr(), ClusterId: original.storage.clusterID(),
		FeatureLevel: fsm.MaxFeatureLevel, ProcessId: "of-the-copy",
	}
	join := func() error {
		_, err := c.leader(c.others(original)...).membership.acceptJoin(testContext(t), copied)
		return err
	}
	for range 5 {
		eventually(t, func() error {
			err := join()
			require.Error(t, err, "the member is still there")
			if !strings.Contains(err.Error(), "answered at "+original.addr) {
				return err // the leader changed
			}
			require.ErrorIs(t, err, ErrNotLeader, "it is tried again")
			return nil
		})
	}
	original.crash(t)
	eventually(t, join)
	moved, _ := c.leader(c.others(original)...).serverOf(original.id)
	require.Equal(t, copied.GetRaftAddr(), string(moved.Address))
}
