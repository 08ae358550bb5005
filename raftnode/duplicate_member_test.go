package raftnode

import (
	"testing"

	"github.com/stretchr/testify/require"
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
