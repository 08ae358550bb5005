package session

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Propose applies one of the host's own commands. A rejection is no error: it is in the
// outcome.
func (s *Server) Propose(ctx context.Context, req *sessionpb.ProposeRequest) (*sessionpb.ProposeResponse, error) {
	node, err := callingNode(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkProposal(node, req.GetCommand()); err != nil {
		return nil, err
	}
	if err := s.proposalLimits.wait(ctx, node); err != nil {
		return nil, err
	}
	outcome, err := s.propose(ctx, node, req.GetCommand())
	if err != nil {
		return nil, err
	}
	return &sessionpb.ProposeResponse{Outcome: outcome}, nil
}

// checkProposal refuses all but the commands of a host about itself (S20), and commands
// at which members would stop because they do not understand them.
func checkProposal(node fsm.NodeID, cmd *fsmpb.Command) error {
	subject, ok := proposingNode(cmd)
	switch {
	case !ok:
		return status.Errorf(codes.PermissionDenied, "node %s may propose what it does itself only: StageVolume, PublishTarget, Report, AttachReplica, SetPrimary, Outdate, KeepReplica and BeginKeyRotation (S20)", node)
	case subject != string(node):
		return status.Errorf(codes.PermissionDenied, "node %s may not speak for node %q (S20)", node, subject)
	case len(cmd.GetRequestId()) != 0 && len(cmd.GetRequestId()) != fsm.RequestIDLen:
		return status.Errorf(codes.InvalidArgument, "a request id has %d bytes, not %d", fsm.RequestIDLen, len(cmd.GetRequestId()))
	case cmd.GetSchemaVersion() > fsm.MaxFeatureLevel:
		return status.Errorf(codes.FailedPrecondition, "the command needs feature level %d, this controller understands %d; update the controllers first", cmd.GetSchemaVersion(), fsm.MaxFeatureLevel)
	}
	return nil
}

// proposingNode is the host that a command is about, false when hosts may not propose it.
func proposingNode(cmd *fsmpb.Command) (string, bool) {
	switch body := cmd.GetBody().(type) {
	case *fsmpb.Command_StageVolume:
		return body.StageVolume.GetNodeId(), true
	case *fsmpb.Command_PublishTarget:
		return body.PublishTarget.GetNodeId(), true
	case *fsmpb.Command_Report:
		return body.Report.GetNodeId(), true
	case *fsmpb.Command_AttachReplica:
		return body.AttachReplica.GetNodeId(), true
	case *fsmpb.Command_SetPrimary:
		return body.SetPrimary.GetNodeId(), true
	case *fsmpb.Command_Outdate:
		return body.Outdate.GetNodeId(), true
	case *fsmpb.Command_KeepReplica:
		return body.KeepReplica.GetNodeId(), true
	case *fsmpb.Command_BeginKeyRotation:
		return body.BeginKeyRotation.GetNodeId(), true
	}
	return "", false
}

// propose proposes with the verified host as the actor. The error is a gRPC status.
func (s *Server) propose(ctx context.Context, node fsm.NodeID, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	cmd.Actor, cmd.Call = "node/"+string(node), nil // no operator asks through a host
	cmd.ProposedAt = 0                              // the leader sets it
	outcome, err := s.member.Propose(ctx, cmd)
	var rejection *fsm.Rejection
	switch {
	case err == nil:
		return outcome, nil
	case errors.As(err, &rejection):
		if outcome.GetRejection() == nil {
			outcome = &fsmpb.Outcome{Rejection: &fsmpb.Rejection{Reason: uint32(rejection.Reason), Message: rejection.Message}}
		}
		return outcome, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return nil, status.Errorf(codes.Unavailable, "propose for node %s: %v", node, err)
}
