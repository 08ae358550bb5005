package admin

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CancelOperation proposes the cancellation of an operation.
func (s *Server) CancelOperation(ctx context.Context, req *adminpb.OperationRequest) (*adminpb.ChangeResponse, error) {
	cmd := &fsmpb.Command{Body: &fsmpb.Command_CancelOperation{
		CancelOperation: &fsmpb.CancelOperation{OperationId: req.GetId()}}}
	return s.change(ctx, req.GetReason(), cmd, fmt.Sprintf("%s is cancelled", fsm.OperationID(req.GetId())))
}

// RetryOperation proposes that a failed or cancelled operation starts again.
func (s *Server) RetryOperation(ctx context.Context, req *adminpb.OperationRequest) (*adminpb.ChangeResponse, error) {
	cmd := &fsmpb.Command{Body: &fsmpb.Command_RetryOperation{
		RetryOperation: &fsmpb.RetryOperation{OperationId: req.GetId()}}}
	return s.change(ctx, req.GetReason(), cmd, fmt.Sprintf("%s is tried again", fsm.OperationID(req.GetId())))
}

// AdoptNode lets a host in adoption mode act for the cluster's incarnation (S1). It serves the
// command line of builds of feature level 1.
func (s *Server) AdoptNode(ctx context.Context, req *adminpb.AdoptNodeRequest) (*adminpb.ChangeResponse, error) {
	incarnation, err := s.adoptionTarget(ctx, req.GetNode(), req.GetHostId())
	if err != nil {
		return nil, err
	}
	cmd := &fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{
		NodeId: req.GetNode(), HostId: req.GetHostId(), Incarnation: incarnation}}}
	return s.change(ctx, "", cmd, fmt.Sprintf("node %s (host %s) may act for incarnation %d", req.GetNode(), req.GetHostId(), incarnation))
}

// adoptionTarget returns the incarnation for which the node's host would act. The request must name
// the host, so that a retry cannot hit another one that registered under the node's id later (S71).
func (s *Server) adoptionTarget(ctx context.Context, node, hostID string) (incarnation uint64, err error) {
	var named fsm.HostID
	err = s.read(ctx, func(st *fsm.State) error {
		incarnation = st.Cluster().Incarnation
		n, ok := st.Node(fsm.NodeID(node))
		if !ok {
			return fsm.Reject(fsm.NotFound, "no node is registered as %q", node)
		}
		named = n.Host
		return nil
	})
	if err == nil && hostID == "" {
		err = status.Errorf(codes.InvalidArgument, "change node %s: name the host that is meant by its host id; %s has the name now", node, named)
	}
	return incarnation, err
}

// change proposes a command with the caller, as TLS verified it, as its actor.
func (s *Server) change(ctx context.Context, reason string, cmd *fsmpb.Command, message string) (*adminpb.ChangeResponse, error) {
	c, err := s.newKeptCall(ctx, reason)
	if err != nil {
		return nil, err
	}
	out, err := s.Cluster.Propose(ctx, c.stamp(cmd))
	if err != nil {
		return nil, s.Error(err)
	}
	return &adminpb.ChangeResponse{Index: out.GetIndex(), Message: message}, nil
}
