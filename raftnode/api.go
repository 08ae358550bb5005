package raftnode

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// TransferLeadership gives leadership to another voter; no-op on others. It tries
// until ctx ends: raft gives up when the other one is not elected in one election timeout.
func (m *Member) TransferLeadership(ctx context.Context) error { return m.tracker.transfer(ctx) }

// Read calls fn with a state that holds everything acknowledged before the call.
// fn must not keep the state. It returns the index that was read at.
func (m *Member) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	return m.reader.read(ctx, fn)
}

// View calls fn with this member's applied state, which may lag.
func (m *Member) View(fn func(*fsm.State) error) error {
	_, err := m.machine.view(fn)
	return err
}

// Fork is a copy of this member's applied state, for long work.
func (m *Member) Fork() *fsm.State { return m.machine.fork() }

// WaitIndex returns when this member has applied the index.
func (m *Member) WaitIndex(ctx context.Context, index uint64) error {
	return m.reader.waitIndex(ctx, index)
}
