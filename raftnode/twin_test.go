package raftnode

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A copy that votes while the original is only slow gives the member two votes.
func TestS68_OneSilenceIsNoProofThatNobodyIsThere(t *testing.T) {
	t.Parallel()
	var unasked, silent, slow twin
	require.False(t, unasked.gone(), "before it asked")
	for range asksForTwin {
		require.False(t, silent.gone())
		silent.silent()
	}
	require.True(t, silent.gone())
	slow.silent()
	slow.answered("10.0.0.1:9800")
	for range 2 * asksForTwin {
		slow.silent()
	}
	require.False(t, slow.gone(), "it answered once")
	slow.forget()
	require.False(t, slow.gone(), "at another address it asks anew")
}
