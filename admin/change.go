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
	return s.lose(ctx, req, "is recorded as lost")
}

// ReplaceNode records the same for a host that another one replaces: the next
// host that registers under the name takes its place (S17).
func (s *Server) ReplaceNode(ctx context.Context, req *adminpb.LoseNodeRequest) (*adminpb.ChangeResponse, error) {
	return s.lose(ctx, req, "is recorded as replaced: another host may register under its name")
}

func (s *Server) lose(ctx context.Context, req *adminpb.LoseNodeRequest, done string) (*adminpb.ChangeResponse, error) {
	host, _, err := s.host(ctx, req.GetNode(), req.GetHostId())
	if err != nil {
		return nil, err
	}
	cmd := &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{
		NodeId: req.GetNode(), HostId: host, Reason: req.GetReason()}}}
	return s.change(ctx, cmd, fmt.Sprintf("node %s (host %s) %s", req.GetNode(), host, done))
}

// AdoptNode lets a host in adoption mode act for the cluster's incarnation (S1).
func (s *Server) AdoptNode(ctx context.Context, req *adminpb.AdoptNodeRequest) (*adminpb.ChangeResponse, error) {
	host, incarnation, err := s.host(ctx, req.GetNode(), req.GetHostId())
	if err != nil {
		return nil, err
	}
	cmd := &fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{
		NodeId: req.GetNode(), HostId: host, Incarnation: incarnation}}}
	return s.change(ctx, cmd, fmt.Sprintf("node %s (host %s) may act for incarnation %d", req.GetNode(), host, incarnation))
}

// host is the host id that a change of a node names: the one given, else the
// one that has the name now, so that a retry cannot hit the host's successor.
func (s *Server) host(ctx context.Context, node, given string) (host string, incarnation uint64, err error) {
	err = s.read(ctx, func(st *fsm.State) error {
		incarnation = st.Cluster().Incarnation
		n, ok := st.Node(fsm.NodeID(node))
		if !ok {
			return fsm.Reject(fsm.NotFound, "no node is registered as %q", node)
		}
		host = string(n.Host)
		return nil
	})
	if given != "" {
		host = given
	}
	return host, incarnation, err
}

// change proposes a command in the name of the caller whom TLS verified.
func (s *Server) change(ctx context.Context, cmd *fsmpb.Command, done string) (*adminpb.ChangeResponse, error) {
	actor, err := s.Actor(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	cmd.Actor = actor
	out, err := s.Cluster.Propose(ctx, cmd)
	if err != nil {
		return nil, s.Error(err)
	}
	return &adminpb.ChangeResponse{Index: out.GetIndex(), Message: done}, nil
}
