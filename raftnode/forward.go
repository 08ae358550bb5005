package raftnode

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// forward has the leader take a command. Whatever the connection says, the
// command may have got through.
func (m *Member) forward(ctx context.Context, v *view, cmd *fsmpb.Command) (answer, error) {
	conn, err := m.peers.dial(v.addr)
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	resp, err := raftpb.NewMemberClient(conn).Propose(ctx, &raftpb.ProposeRequest{Command: cmd}, grpc.WaitForReady(true))
	if err != nil {
		return answer{}, fmt.Errorf("%w: forward to the leader at %s: %w", ErrOutcomeUnknown, v.addr, err)
	}
	if err := failureOf(resp); err != nil {
		return answer{}, fmt.Errorf("%w: the leader at %s: %s", err, v.addr, resp.GetMessage())
	}
	return answer{outcome: resp.GetOutcome(), index: resp.GetIndex()}, nil
}

// failureOf is the error behind a failure on the wire.
func failureOf(resp *raftpb.ProposeResponse) error {
	switch resp.GetFailure() {
	case raftpb.Failure_FAILURE_NONE:
		if resp.GetOutcome() == nil {
			return ErrOutcomeUnknown
		}
		return nil
	case raftpb.Failure_FAILURE_NOT_LEADER:
		return ErrNotLeader
	case raftpb.Failure_FAILURE_DISK_FULL:
		return ErrDiskFull
	case raftpb.Failure_FAILURE_DIVERGED:
		return ErrDiverged
	default:
		return ErrOutcomeUnknown
	}
}
