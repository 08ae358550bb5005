package raftnode

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

const (
	// forwardTimeout bounds one attempt at another member, so that a leader that takes
	// commands and does not commit them is asked anew.
	forwardTimeout = 10 * time.Second
	// maxForwardBatch is how many commands go in one message, and maxForwardBytes
	// how many bytes of them; a member accepts messages of twice that size.
	maxForwardBatch = 256
	maxForwardBytes = 4 << 20
)

// forwardedCommand is one command on its way to the leader.
type forwardedCommand struct {
	ctx  context.Context
	data []byte
	done chan proposalResult // never blocks
}

// forward sends a command to the leader, in one message with others that wait. After any
// error of the connection the command may have been applied.
func (p *proposer) forward(ctx context.Context, cmd *fsmpb.Command) (commandResult, error) {
	data, err := marshal(cmd)
	if err != nil {
		return commandResult{}, err
	}
	f := &forwardedCommand{ctx: ctx, data: data, done: make(chan proposalResult, 1)}
	select {
	case p.forwards.pending <- f:
	default:
		return commandResult{}, errQueueFull
	}
	return awaitResult(ctx, p.lifetime, f.done)
}

// sendForwards sends a batch to the present leader.
func (p *proposer) sendForwards(batch []*forwardedCommand, done func()) {
	go func() {
		defer done()
		batch = slices.DeleteFunc(batch, func(f *forwardedCommand) bool { return f.ctx.Err() != nil }) // nobody waits
		for len(batch) > 0 {
			n := countFitting(batch)
			p.forwardBatch(batch[:n])
			batch = batch[n:]
		}
	}()
}

// countFitting is how many of the batch's first commands fit in one message.
func countFitting(batch []*forwardedCommand) int {
	size := 0
	for i, f := range batch {
		if size += len(f.data); size > maxForwardBytes && i > 0 {
			return i
		}
	}
	return len(batch)
}

func (p *proposer) forwardBatch(batch []*forwardedCommand) {
	v := p.tracker.current()
	ctx, cancel := context.WithTimeout(v.ctx, forwardTimeout)
	defer cancel()
	stop := context.AfterFunc(p.lifetime, cancel)
	defer stop()
	answers, err := p.proposeAtLeader(ctx, v, batch)
	for i, f := range batch {
		switch {
		case err != nil:
			f.done <- proposalResult{err: err}
		case errorOfFailure(answers[i]) != nil:
			f.done <- proposalResult{err: fmt.Errorf("%w: the leader at %s: %s", errorOfFailure(answers[i]), v.addr, answers[i].GetMessage())}
		default:
			f.done <- proposalResult{commandResult: commandResult{outcome: answers[i].GetOutcome(), index: answers[i].GetIndex()}}
		}
	}
}

func (p *proposer) proposeAtLeader(ctx context.Context, v *leaderInfo, batch []*forwardedCommand) ([]*raftpb.ProposeResponse, error) {
	if v.addr == "" || v.leading {
		return nil, fmt.Errorf("%w: the leader has changed", ErrNotLeader)
	}
	conn, err := p.peers.dial(v.id, v.addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	req := &raftpb.ProposeAllRequest{Commands: make([][]byte, len(batch))}
	for i, f := range batch {
		req.Commands[i] = f.data
	}
	resp, err := raftpb.NewMemberClient(conn).ProposeAll(ctx, req, grpc.WaitForReady(true))
	if err == nil && len(resp.GetAnswers()) != len(batch) {
		err = fmt.Errorf("%d answers to %d commands", len(resp.GetAnswers()), len(batch))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: forward to the leader at %s: %w", ErrOutcomeUnknown, v.addr, err)
	}
	return resp.GetAnswers(), nil
}

// errorOfFailure is the error behind a failure on the wire.
func errorOfFailure(resp *raftpb.ProposeResponse) error {
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
