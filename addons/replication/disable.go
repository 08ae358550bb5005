package replication

import (
	"context"
	"errors"

	spec "github.com/csi-addons/spec/lib/go/replication"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DisableVolumeReplication ends the relation through the primary, and through the other site what that one asked for
// (S37). The local data stay. What is not replicated is disabled already.
func (s *Server) DisableVolumeReplication(ctx context.Context, req *spec.DisableVolumeReplicationRequest) (*spec.DisableVolumeReplicationResponse, error) {
	c, err := s.begin(ctx, "disable replication of", req, req.GetParameters())
	if err == nil {
		err = s.disable(ctx, c)
	}
	if err != nil && !isNotReplicated(err) {
		return nil, answer(err)
	}
	return &spec.DisableVolumeReplicationResponse{}, nil
}

func (s *Server) disable(ctx context.Context, c *call) error {
	role, err := s.readRole(ctx, c)
	if err != nil {
		return err
	}
	err = s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_DisableReplication{DisableReplication: &fsmpb.DisableReplication{
		Source: c.source, ReplicationId: c.replicationID, Role: role,
	}}})
	if err != nil {
		return err
	}
	return s.await(ctx, c, func(state *fsm.State) (bool, string, *fsm.Rejection) { return state.ClaimEndHolds(c.source, s.site()) })
}

func isNotReplicated(err error) bool {
	var rejection *fsm.Rejection
	return errors.As(err, &rejection) && rejection.Reason == fsm.NotReplicated
}
