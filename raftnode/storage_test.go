package raftnode

import (
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

type fullSnapshots struct{ raft.SnapshotStore }

func (fullSnapshots) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return nil, unix.ENOSPC
}

// A full disk has no room for the folder of a Raft snapshot, and nothing of it is written.
func TestARaftSnapshotThatCannotBeBegunIsCounted(t *testing.T) {
	failed := 0
	_, err := indexedSnapshots{fullSnapshots{}, func() { failed++ }}.Create(1, 1, 1, raft.Configuration{}, 1, nil)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.Equal(t, 1, failed)
}
