package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// appliedIndexPoll is how often Raft is asked for an index that the machine may never be
// given: Raft keeps the first entry of each term to itself.
const appliedIndexPoll = 10 * time.Millisecond

// WaitIndex returns when this member has applied the index.
func (m *Member) WaitIndex(ctx context.Context, index uint64) error {
	for {
		if m.raft.AppliedIndex() >= index {
			return m.waitApplied(ctx, m.lastDelivered(index))
		}
		if err := m.waitBriefly(ctx, index); err != nil {
			return fmt.Errorf("wait for index %d: %w", index, err)
		}
	}
}

// waitBriefly waits for the index, but not for long.
func (m *Member) waitBriefly(ctx context.Context, index uint64) error {
	brief, cancel := context.WithTimeout(ctx, appliedIndexPoll)
	defer cancel()
	err := m.waitApplied(brief, index)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// lastDelivered is the last entry at or below index that the machine is given:
// commands and configurations. What is no longer in the log is in the state.
func (m *Member) lastDelivered(index uint64) uint64 {
	for ; index > m.machine.applied.reached.Load(); index-- {
		var l raft.Log
		if err := m.storage.logs.GetLog(index, &l); err != nil {
			return 0
		}
		if l.Type == raft.LogCommand || l.Type == raft.LogConfiguration {
			return index
		}
	}
	return 0
}
