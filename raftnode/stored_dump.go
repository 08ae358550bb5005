package raftnode

import (
	"errors"
	"fmt"
	"io"
)

// StoredDump writes the newest Raft snapshot that this member stores at or below an index, else the oldest, as
// fsm.ReadDump reads it. It returns Raft's index of it: 0, and nothing is written, where none is stored.
func (m *Member) StoredDump(below uint64, w io.Writer) (index uint64, err error) {
	stored, err := m.storage.snapshots.List() // newest first
	if err != nil {
		return 0, fmt.Errorf("list the Raft snapshots: %w", err)
	}
	if len(stored) == 0 {
		return 0, nil
	}
	chosen := stored[len(stored)-1]
	for _, meta := range stored {
		if meta.Index <= below {
			chosen = meta
			break
		}
	}
	_, content, err := m.storage.snapshots.Open(chosen.ID)
	if err != nil {
		return 0, fmt.Errorf("open the Raft snapshot at index %d: %w", chosen.Index, err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if _, err := io.Copy(w, content); err != nil {
		return 0, fmt.Errorf("read the Raft snapshot at index %d: %w", chosen.Index, err)
	}
	return chosen.Index, nil
}
