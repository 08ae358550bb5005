package raftnode

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// service is the Member service. The listener admits controllers only; calls that change
// the cluster check the caller again.
type service struct {
	raftpb.UnimplementedMemberServer
	member *Member
}

// authorise checks the caller on the member that acts: that another member forwarded the call
// proves nothing (CVE-2023-1782 came of such trust).
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
