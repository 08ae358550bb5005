package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// service is the Member service. The listener admits controllers only; calls that change
// the cluster check the caller again.
type service struct {
	raftpb.UnimplementedMemberServer
	member *Member
}

// authorise is the leader's own check of the forwarding member (the lesson of CVE-2023-1782).
func (s *service) authorise(ctx context.Context) error {
	id, err := pki.Peer(ctx)
	if err != nil {
		return err
	}
	if own := s.member.cfg.Credentials.Identity(); id.Role != pki.Controller || id.Cluster != own.Cluster {
		return status.Errorf(codes.PermissionDenied, "%s is no controller of this cluster", id)
	}
	return nil
}

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

// ReadIndex is the leader's index for a follower's read.
func (s *service) ReadIndex(ctx context.Context, _ *raftpb.ReadIndexRequest) (*raftpb.ReadIndexResponse, error) {
	m := s.member
	if !m.tracker.current().leading || m.machine.halted.Load() {
		return nil, status.Error(codes.FailedPrecondition, "this member does not lead")
	}
	index, err := m.reader.leaderReads.wait(ctx)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &raftpb.ReadIndexResponse{Index: index}, nil
}

// forwardedKey marks a call that was forwarded to the leader already.
const forwardedKey = "holdfast-passed-on"

// forwardToLeader forwards a call to the leader, once. It returns false when this member leads.
func (s *service) forwardToLeader(ctx context.Context, call func(context.Context, raftpb.MemberClient) error) (bool, error) {
	v := s.member.tracker.current()
	if v.leading {
		return false, nil
	}
	if in, _ := metadata.FromIncomingContext(ctx); v.addr == "" || len(in.Get(forwardedKey)) > 0 {
		return true, status.Error(codes.Unavailable, "no leader is known here")
	}
	conn, err := s.member.peers.dial(v.id, v.addr)
	if err != nil {
		return true, status.Error(codes.Unavailable, err.Error())
	}
	return true, call(metadata.AppendToOutgoingContext(ctx, forwardedKey, "1"), raftpb.NewMemberClient(conn))
}

// Join adds a member, or corrects its address.
func (s *service) Join(ctx context.Context, req *raftpb.JoinRequest) (resp *raftpb.JoinResponse, err error) {
	if err := s.authorise(ctx); err != nil {
		return nil, err
	}
	forwarded, err := s.forwardToLeader(ctx, func(ctx context.Context, leader raftpb.MemberClient) (err error) {
		resp, err = leader.Join(ctx, req)
		return err
	})
	if forwarded {
		return resp, err
	}
	resp, err = s.member.membership.acceptJoin(ctx, req)
	return resp, membershipStatus(err)
}

// membershipStatus is FAILED_PRECONDITION for what a retry does not repair, else UNAVAILABLE.
func membershipStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRefused):
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// Remove removes a member.
func (s *service) Remove(ctx context.Context, req *raftpb.RemoveRequest) (*raftpb.RemoveResponse, error) {
	if err := s.authorise(ctx); err != nil {
		return nil, err
	}
	if !s.member.tracker.current().leading {
		return nil, status.Error(codes.Unavailable, "this member does not lead")
	}
	if err := s.member.membership.removeMember(ctx, req.GetMemberId()); err != nil {
		return nil, membershipStatus(err)
	}
	return &raftpb.RemoveResponse{}, nil
}

// responseMargin is kept of the caller's deadline for the way back.
const responseMargin = 50 * time.Millisecond

// Status waits for the hash that is asked for up to the caller's deadline, and
// then answers without it.
func (s *service) Status(ctx context.Context, req *raftpb.StatusRequest) (*raftpb.StatusResponse, error) {
	m := s.member
	if at := req.GetDisagreementAt(); at != 0 {
		m.checkpoints.hashDispute.set(at, 5*m.cfg.probeInterval())
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-responseMargin))
		defer cancel()
	}
	return m.Status(ctx, req.GetHashAt())
}

// serverLimits are the limits of the Member service's listener.
func serverLimits() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.MaxRecvMsgSize(2 * maxForwardBytes), grpc.ConnectionTimeout(handshakeTimeout)}
}
