package admin

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// RebootSafe says whether a host may stop now; it changes nothing. A host that cannot be reached, so that nobody knows what
// it does, is Unavailable.
func (s *Server) RebootSafe(ctx context.Context, req *adminpb.RebootSafeRequest) (*adminpb.RebootSafeResponse, error) {
	if req.GetClaim() || req.GetRelease() {
		return nil, status.Error(codes.InvalidArgument, "a claim of maintenance and its end are changes: ClaimMaintenance makes them")
	}
	return s.rebootAnswer(ctx, req)
}

// ClaimMaintenance records that a host is in maintenance, where it may stop now, or ends that. The answer is of after that: a
// claim that is not granted is no error, and says why.
func (s *Server) ClaimMaintenance(ctx context.Context, req *adminpb.RebootSafeRequest) (*adminpb.RebootSafeResponse, error) {
	if req.GetClaim() == req.GetRelease() {
		return nil, status.Error(codes.InvalidArgument, "either claim maintenance or release it")
	}
	c, err := s.newKeptCall(ctx, req.GetReason())
	if err != nil {
		return nil, err
	}
	before, err := s.rebootAnswer(ctx, req) // names the host
	if status.Code(err) == codes.Unavailable && req.GetRelease() {
		before, err = s.hostOf(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	_, err = s.Cluster.Propose(ctx, c.stamp(&fsmpb.Command{Body: &fsmpb.Command_ClaimMaintenance{ClaimMaintenance: &fsmpb.ClaimMaintenance{
		NodeId: req.GetNode(), HostId: before.GetHostId(), Release: req.GetRelease(), AllowUnused: req.GetAllowUnused(),
	}}}))
	var refused *fsm.Rejection
	isRefusal := errors.As(err, &refused) && refused.Reason == fsm.Precondition
	if err != nil && !isRefusal {
		return nil, s.Error(err)
	}
	after, err := s.rebootAnswer(ctx, req)
	switch {
	case status.Code(err) == codes.Unavailable && req.GetRelease():
		return s.hostOf(ctx, req) // released, and away
	case err != nil:
		return nil, err
	case isRefusal && after.GetSafe(): // it became safe meanwhile, and is not recorded
		after.Safe, after.Reasons = false, []string{refused.Message}
	}
	return after, nil
}

// hostOf names the host of a node that cannot be asked.
func (s *Server) hostOf(ctx context.Context, req *adminpb.RebootSafeRequest) (*adminpb.RebootSafeResponse, error) {
	st, err := s.fork(ctx, false)
	if err != nil {
		return nil, err
	}
	n, ok := st.Node(fsm.NodeID(req.GetNode()))
	if !ok {
		return nil, status.Errorf(codes.NotFound, "node %s is not known", req.GetNode())
	}
	return &adminpb.RebootSafeResponse{Index: st.Cluster().Index, Node: req.GetNode(), HostId: string(n.Host), Claimed: n.Maintenance,
		Reasons: []string{"the node cannot be reached, and what it does is not known"}}, nil
}

// rebootAnswer asks a copy of the state, after a linearizable read.
func (s *Server) rebootAnswer(ctx context.Context, req *adminpb.RebootSafeRequest) (*adminpb.RebootSafeResponse, error) {
	st, err := s.fork(ctx, false)
	if err != nil {
		return nil, err
	}
	answer, rej := st.MayStop(fsm.NodeID(req.GetNode()), req.GetAllowUnused())
	switch {
	case rej.Why() == fsm.Unreachable:
		return nil, status.Error(codes.Unavailable, rej.Message)
	case rej != nil:
		return nil, s.Error(rej)
	case req.GetHostId() != "" && req.GetHostId() != string(answer.Host):
		return nil, status.Errorf(codes.FailedPrecondition, "node %s is host %s, not %s", answer.Node, answer.Host, req.GetHostId())
	}
	resp := &adminpb.RebootSafeResponse{
		Index: answer.Index, Node: string(answer.Node), HostId: string(answer.Host), Safe: answer.Safe, Reasons: answer.Reasons,
		InMaintenance: answer.InMaintenance, Claimed: answer.Claimed, More: uint64(answer.More), //nolint:gosec // a count
	}
	impact := st.IfStopped(fsm.Failure{Nodes: []fsm.NodeID{answer.Node}})
	resp.Publications = mapSlice(listed(impact.Publications, &resp.More), publicationRiskView)
	return resp, nil
}
