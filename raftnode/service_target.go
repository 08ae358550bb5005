package raftnode

import (
	"context"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// checkCallTarget refuses calls on untargeted connections, except those by which a member
// joins (S68). A build of feature level 1 sends no targets.
func (s *service) checkCallTarget(ctx context.Context, method string) error {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "the call has no peer")
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return status.Error(codes.Unauthenticated, "the call came without TLS")
	}
	switch {
	case info.State.NegotiatedProtocol == protoMember,
		method == raftpb.Member_Join_FullMethodName, method == raftpb.Member_Status_FullMethodName:
		return nil
	case info.State.NegotiatedProtocol == protoJoin:
		return status.Errorf(codes.PermissionDenied, "%s is for connections that name their member", method)
	}
	if err := s.member.joiner.checkUntargeted(); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

func (s *service) unaryTargetCheck(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.checkCallTarget(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *service) streamTargetCheck(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := s.checkCallTarget(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}
