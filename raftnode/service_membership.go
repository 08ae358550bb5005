package raftnode

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

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

// Demote makes a voter a non-voter.
func (s *service) Demote(ctx context.Context, req *raftpb.DemoteRequest) (*raftpb.DemoteResponse, error) {
	if err := s.authoriseLeader(ctx); err != nil {
		return nil, err
	}
	return &raftpb.DemoteResponse{}, membershipStatus(s.member.membership.demoteMember(ctx, req.GetMemberId()))
}

// Transfer hands leadership to a voter.
func (s *service) Transfer(ctx context.Context, req *raftpb.TransferRequest) (*raftpb.TransferResponse, error) {
	if err := s.authoriseLeader(ctx); err != nil {
		return nil, err
	}
	return &raftpb.TransferResponse{}, membershipStatus(s.member.membership.transferLeadership(ctx, req.GetMemberId()))
}

// authoriseLeader checks the caller, and that this member leads.
func (s *service) authoriseLeader(ctx context.Context) error {
	if err := s.authorise(ctx); err != nil {
		return err
	}
	if !s.member.tracker.current().leading {
		return status.Error(codes.Unavailable, "this member does not lead")
	}
	return nil
}

// Remove removes a member.
func (s *service) Remove(ctx context.Context, req *raftpb.RemoveRequest) (*raftpb.RemoveResponse, error) {
	if err := s.authoriseLeader(ctx); err != nil {
		return nil, err
	}
	if err := s.member.membership.removeMember(ctx, req.GetMemberId()); err != nil {
		return nil, membershipStatus(err)
	}
	return &raftpb.RemoveResponse{}, nil
}
