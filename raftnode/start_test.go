package raftnode

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S68: raft asks by itself, maybe before Open has it.
func TestAMemberDoesNotStandBeforeItIsOpen(t *testing.T) {
	t.Parallel()
	m := &Member{id: "a", started: make(chan struct{})}
	require.False(t, m.stands())
}
