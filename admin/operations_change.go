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

// CancelOperation has an operation cancelled.
func (s *Server) CancelOperation(ctx context.Context, req *adminpb.OperationRequest) (*adminpb.ChangeResponse, error) {
	cmd := &fsmpb.Command{Body: &fsmpb.Command_CancelOperation{
		CancelOperation: &fsmpb.CancelOperation{OperationId: req.GetId()}}}
	return s.change(ctx, cmd, fmt.Sprintf("%s is cancelled", fsm.OperationID(req.GetId())))
}

// RetryOperation has a failed or cancelled operation begun again.
func (s *Server) RetryOperation(ctx context.Context, req *adminpb.OperationRequest) (*adminpb.ChangeResponse, error) {
	cmd := &fsmpb.Command{Body: &fsmpb.Command_RetryOperation{
		RetryOperation: &fsmpb.RetryOperation{OperationId: req.GetId()}}}
	return s.change(ctx, cmd, fmt.Sprintf("%s is tried again", fsm.OperationID(req.GetId())))
}

// LoseNode records an attestation that a host and its data are gone: its
// obligations and publications end (S17).
func (s *Server) LoseNode(ctx context.Context, req *adminpb.LoseNodeRequest) (*adminpb.ChangeResponse, error) {
	return s.proposeLose(ctx, req, "is recorded as lost")
}

// ReplaceNode records the same for a host that another one replaces: the next
// host that registers under the name takes its place (S17).
func (s *Server) ReplaceNode(ctx context.Context, req *adminpb.LoseNodeRequest) (*adminpb.ChangeResponse, error) {
	return s.proposeLose(ctx, req, "is recorded as replaced: another host may register under its name")
}

func (s *Server) proposeLose(ctx context.Context, req *adminpb.LoseNodeRequest, outcome string) (*adminpb.ChangeResponse, error) {
	n, _, err := s.targetNode(ctx, req.GetNode(), req.GetHostId())
	if err != nil {
		return nil, err
	}
	if string(n.Host) == req.GetHostId() && n.State == fsm.NodeReachable && !req.GetEvenIfReachable() {
		return nil, s.Error(fsm.Reject(fsm.Precondition, "host %s of node %s can be reached now: stop it first, or say that it is lost all the same", n.Host, n.ID))
	}
	cmd := &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{
		NodeId: req.GetNode(), HostId: req.GetHostId(), Reason: req.GetReason()}}}
	return s.change(ctx, cmd, fmt.Sprintf("node %s (host %s) %s", req.GetNode(), req.GetHostId(), outcome))
}

// AdoptNode lets a host in adoption mode act for the cluster's incarnation (S1).
func (s *Server) AdoptNode(ctx context.Context, req *adminpb.AdoptNodeRequest) (*adminpb.ChangeResponse, error) {
	_, incarnation, err := s.targetNode(ctx, req.GetNode(), req.GetHostId())
	if err != nil {
		return nil, err
	}
	cmd := &fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{
		NodeId: req.GetNode(), HostId: req.GetHostId(), Incarnation: incarnation}}}
	return s.change(ctx, cmd, fmt.Sprintf("node %s (host %s) may act for incarnation %d", req.GetNode(), req.GetHostId(), incarnation))
}

// host is the node that a change is about. The change names the host that is meant, so
// that a retry cannot hit the host's successor (S71).
func (s *Server) targetNode(ctx context.Context, node, hostID string) (host fsm.Node, incarnation uint64, err error) {
	err = s.read(ctx, func(st *fsm.State) error {
		incarnation = st.Cluster().Incarnation
		n, ok := st.Node(fsm.NodeID(node))
		if !ok {
			return fsm.Reject(fsm.NotFound, "no node is registered as %q", node)
		}
		host = *n
		return nil
	})
	if err == nil && hostID == "" {
		err = status.Errorf(codes.InvalidArgument, "change node %s: name the host that is meant by its host id; %s has the name now", node, host.Host)
	}
	return host, incarnation, err
}

// change proposes a command in the name of the caller whom TLS verified.
func (s *Server) change(ctx context.Context, cmd *fsmpb.Command, message string) (*adminpb.ChangeResponse, error) {
	actor, err := s.Actor(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	cmd.Actor = actor
	out, err := s.Cluster.Propose(ctx, cmd)
	if err != nil {
		return nil, s.Error(err)
	}
	return &adminpb.ChangeResponse{Index: out.GetIndex(), Message: message}, nil
}
