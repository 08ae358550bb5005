package session

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// RebootSafe answers whether the calling host may stop now. It is asked of the state after the claim was decided, so that
// what the host is told counts the hosts that claimed before it.
func (s *Server) RebootSafe(ctx context.Context, req *sessionpb.RebootSafeRequest) (*sessionpb.RebootSafeResponse, error) {
	node, err := callingNode(ctx)
	switch {
	case err != nil:
		return nil, err
	case req.GetClaim() && req.GetRelease():
		return nil, status.Error(codes.InvalidArgument, "either a claim or its release is asked for")
	}
	if err := s.proposalLimits.wait(ctx, node); err != nil {
		return nil, err
	}
	refused := ""
	if req.GetClaim() || req.GetRelease() {
		if refused, err = s.claimMaintenance(ctx, node, req); err != nil {
			return nil, err
		}
	}
	answer, err := s.mayStop(ctx, node, req.GetAllowUnused())
	if err != nil {
		return nil, err
	}
	if refused != "" && answer.Safe { // it became safe meanwhile, and is not recorded
		answer.Safe, answer.Reasons = false, []string{refused}
	}
	return &sessionpb.RebootSafeResponse{
		Index: answer.Index, Safe: answer.Safe, Reasons: answer.Reasons, InMaintenance: answer.InMaintenance, Claimed: answer.Claimed,
	}, nil
}

// claimMaintenance proposes the host's claim, or its end. refused is why the claim was not granted.
func (s *Server) claimMaintenance(ctx context.Context, node fsm.NodeID, req *sessionpb.RebootSafeRequest) (refused string, err error) {
	host := ""
	if _, err := s.member.Read(ctx, func(st *fsm.State) error {
		if n, ok := st.Node(node); ok {
			host = string(n.Host)
		}
		return nil
	}); err != nil {
		return "", status.Errorf(codes.Unavailable, "read the state: %v", err)
	}
	out, err := s.propose(ctx, node, &fsmpb.Command{Body: &fsmpb.Command_ClaimMaintenance{ClaimMaintenance: &fsmpb.ClaimMaintenance{
		NodeId: string(node), HostId: host, Release: req.GetRelease(), AllowUnused: req.GetAllowUnused(),
	}}})
	switch rej := out.GetRejection(); {
	case err != nil:
		return "", err
	case rej == nil:
		return "", nil
	case fsm.Reason(rej.GetReason()) == fsm.Precondition:
		return rej.GetMessage(), nil
	default:
		return "", status.Error(codes.FailedPrecondition, rej.GetMessage())
	}
}

// mayStop asks a copy of the state after a linearizable read: nothing waits for how long that takes.
func (s *Server) mayStop(ctx context.Context, node fsm.NodeID, allowUnused bool) (fsm.StopAnswer, error) {
	if _, err := s.member.Read(ctx, func(*fsm.State) error { return nil }); err != nil {
		return fsm.StopAnswer{}, status.Errorf(codes.Unavailable, "read the state: %v", err)
	}
	fork, err := s.member.Fork()
	if err != nil {
		return fsm.StopAnswer{}, status.Errorf(codes.Unavailable, "read the state: %v", err)
	}
	answer, rej := fork.MayStop(node, allowUnused)
	if rej != nil {
		return fsm.StopAnswer{}, status.Error(codes.FailedPrecondition, (error)(rej).Error())
	}
	return answer, nil
}
