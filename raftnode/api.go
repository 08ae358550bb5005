package raftnode

import "context"

// TransferLeadership gives leadership to another voter; no-op on others. It tries
// until ctx ends: raft gives up when the other one is not elected in one election timeout.
func (m *Member) TransferLeadership(ctx context.Context) error { return m.tracker.transfer(ctx) }
