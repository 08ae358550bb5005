package raftnode

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// Propose appends on this leader; it is never forwarded.
func (s *service) Propose(ctx context.Context, req *raftpb.ProposeRequest) (*raftpb.ProposeResponse, error) {
	if err := s.authorise(ctx); err != nil {
		return nil, err
	}
	return s.propose(ctx, []*fsmpb.Command{req.GetCommand()})[0], nil
}

// ProposeAll appends all before it waits for any.
func (s *service) ProposeAll(ctx context.Context, req *raftpb.ProposeAllRequest) (*raftpb.ProposeAllResponse, error) {
	if err := s.authorise(ctx); err != nil {
		return nil, err
	}
	commands := make([]*fsmpb.Command, len(req.GetCommands()))
	for i, data := range req.GetCommands() {
		commands[i] = new(fsmpb.Command)
		if err := proto.Unmarshal(data, commands[i]); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "command %d of the message: %v", i, err)
		}
	}
	return &raftpb.ProposeAllResponse{Answers: s.propose(ctx, commands)}, nil
}

func (s *service) propose(ctx context.Context, commands []*fsmpb.Command) []*raftpb.ProposeResponse {
	m := s.member
	pending := make([]*proposal, len(commands))
	answers := make([]*raftpb.ProposeResponse, len(commands))
	for i, cmd := range commands {
		var err error
		var immediate *fsmpb.Outcome
		switch pending[i], immediate, err = s.startProposal(ctx, cmd); {
		case err != nil:
			answers[i] = failureResponse(err)
		case immediate != nil:
			answers[i] = &raftpb.ProposeResponse{Outcome: immediate, Index: immediate.GetIndex()}
		}
	}
	for i, p := range pending {
		if p == nil {
			continue
		}
		a, err := awaitResult(ctx, m.lifetime, p.done)
		if err != nil {
			answers[i] = failureResponse(err)
		} else {
			answers[i] = &raftpb.ProposeResponse{Outcome: a.outcome, Index: a.index}
		}
	}
	return answers
}

// startProposal enqueues a command, or returns the immediate outcome of gateFeatureLevel.
func (s *service) startProposal(ctx context.Context, cmd *fsmpb.Command) (*proposal, *fsmpb.Outcome, error) {
	m := s.member
	if len(cmd.GetRequestId()) == 0 || cmd.GetBody() == nil && len(cmd.ProtoReflect().GetUnknown()) == 0 {
		return nil, nil, fmt.Errorf("%w: a forwarded command needs a body and a request id", ErrNotLeader)
	}
	if !m.tracker.current().leading {
		return nil, nil, fmt.Errorf("%w: this member does not lead", ErrNotLeader)
	}
	if immediate, err := m.proposer.gateFeatureLevel(ctx, cmd); immediate != nil || err != nil {
		return nil, immediate, err
	}
	data, err := m.proposer.encodeProposal(cmd)
	if err != nil {
		return nil, nil, err
	}
	p, err := m.proposer.proposals.enqueue(data)
	return p, nil, err
}

func failureResponse(err error) *raftpb.ProposeResponse {
	resp := &raftpb.ProposeResponse{Failure: raftpb.Failure_FAILURE_UNKNOWN, Message: err.Error()}
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
	case errors.Is(err, ErrDiskFull):
		resp.Failure = raftpb.Failure_FAILURE_DISK_FULL
	case errors.Is(err, ErrDiverged):
		resp.Failure = raftpb.Failure_FAILURE_DIVERGED
	case errors.Is(err, ErrNotLeader), errors.Is(err, ErrShutdown):
		resp.Failure = raftpb.Failure_FAILURE_NOT_LEADER
	}
	return resp
}
