package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// appliedIndexPoll is the interval of polling raft for an index that the machine may never be
// given: raft does not deliver the first entry of each term.
const appliedIndexPoll = 10 * time.Millisecond

// waitIndex returns when this member has applied the index.
func (r *reader) waitIndex(ctx context.Context, index uint64) error {
	for {
		if r.raft.AppliedIndex() >= index {
			return r.waitApplied(ctx, r.lastDelivered(index))
		}
		if err := r.waitBriefly(ctx, index); err != nil {
			return fmt.Errorf("wait for index %d: %w", index, err)
		}
	}
}

// waitBriefly waits for the index, but not for long.
func (r *reader) waitBriefly(ctx context.Context, index uint64) error {
	brief, cancel := context.WithTimeout(ctx, appliedIndexPoll)
	defer cancel()
	err := r.waitApplied(brief, index)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// lastDelivered is the last entry at or below index that the machine is given:
// commands and configurations. What is no longer in the log is in the state.
func (r *reader) lastDelivered(index uint64) uint64 {
	for ; index > r.machine.applied.reached.Load(); index-- {
		var l raft.Log
		if err := r.storage.logs.GetLog(index, &l); err != nil {
			return 0
		}
		if l.Type == raft.LogCommand || l.Type == raft.LogConfiguration {
			return index
		}
	}
	return 0
}

func (r *reader) stateHash(ctx context.Context, at uint64) ([]byte, uint64) {
	if at == 0 {
		at = r.machine.index.Load()
	} else if err := r.waitIndex(ctx, at); err != nil {
		return nil, at
	}
	hash, known := r.machine.hashAt(at)
	if !known {
		return nil, at
	}
	return hash[:], at
}

// appliedIndex counts Raft's own entries too, which the machine is not given.
func (r *reader) appliedIndex() uint64 {
	if at := r.raft.AppliedIndex(); r.lastDelivered(at) == 0 {
		return at
	}
	return r.machine.applied.reached.Load()
}
