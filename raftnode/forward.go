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
	// forwardTime bounds one attempt at another member, so that a leader that takes
	// commands and does not commit them is asked anew.
	forwardTime = 10 * time.Second
	// largestForward is how many commands go in one message, and largestMessage
	// how many bytes of them; a member accepts messages of twice that size.
	largestForward = 256
	largestMessage = 4 << 20
)

// forwarded is one command on its way to the leader.
type forwarded struct {
	ctx  context.Context
	data []byte
	done chan applied // never blocks
}

// forward has the leader take a command, in one message with others that wait.
// Whatever the connection says, the command may have got through.
func (m *Member) forward(ctx context.Context, cmd *fsmpb.Command) (answer, error) {
	data, err := marshal(cmd)
	if err != nil {
		return answer{}, err
	}
	f := &forwarded{ctx: ctx, data: data, done: make(chan applied, 1)}
	select {
	case m.forwards.waiting <- f:
	default:
		return answer{}, errTooMany
	}
	return awaitApplied(ctx, m.closing, f.done)
}

// sendForwards takes a group to whoever leads now.
func (m *Member) sendForwards(group []*forwarded, ended func()) {
	go func() {
		defer ended()
		group = slices.DeleteFunc(group, func(f *forwarded) bool { return f.ctx.Err() != nil }) // nobody waits
		for len(group) > 0 {
			n := fitting(group)
			m.forwardAll(group[:n])
			group = group[n:]
		}
	}()
}

// fitting is how many of the group's first commands fit in one message.
func fitting(group []*forwarded) int {
	size := 0
	for i, f := range group {
		if size += len(f.data); size > largestMessage && i > 0 {
			return i
		}
	}
	return len(group)
}

func (m *Member) forwardAll(group []*forwarded) {
	v := m.lead.now()
	ctx, cancel := context.WithTimeout(v.over, forwardTime)
	defer cancel()
	stop := context.AfterFunc(m.closing, cancel)
	defer stop()
	answers, err := m.proposeAll(ctx, v, group)
	for i, f := range group {
		switch {
		case err != nil:
			f.done <- applied{err: err}
		case failureOf(answers[i]) != nil:
			f.done <- applied{err: fmt.Errorf("%w: the leader at %s: %s", failureOf(answers[i]), v.addr, answers[i].GetMessage())}
		default:
			f.done <- applied{answer: answer{outcome: answers[i].GetOutcome(), index: answers[i].GetIndex()}}
		}
	}
}

func (m *Member) proposeAll(ctx context.Context, v *view, group []*forwarded) ([]*raftpb.ProposeResponse, error) {
	if v.addr == "" || v.leading {
		return nil, fmt.Errorf("%w: the leader has changed", ErrNotLeader)
	}
	conn, err := m.peers.dial(v.id, v.addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	req := &raftpb.ProposeAllRequest{Commands: make([][]byte, len(group))}
	for i, f := range group {
		req.Commands[i] = f.data
	}
	resp, err := raftpb.NewMemberClient(conn).ProposeAll(ctx, req, grpc.WaitForReady(true))
	if err == nil && len(resp.GetAnswers()) != len(group) {
		err = fmt.Errorf("%d answers to %d commands", len(resp.GetAnswers()), len(group))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: forward to the leader at %s: %w", ErrOutcomeUnknown, v.addr, err)
	}
	return resp.GetAnswers(), nil
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
