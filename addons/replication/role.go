package replication

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/replication"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// PromoteVolume returns once the site has the role and nobody at the other one can write beside it (S42). Its
// FAILED_PRECONDITION is answered with force by orchestrators, so that rpcerr.Promote has the last word on it (S40).
func (s *Server) PromoteVolume(ctx context.Context, req *spec.PromoteVolumeRequest) (*spec.PromoteVolumeResponse, error) {
	c, err := s.begin(ctx, "promote", req, req.GetParameters())
	if err == nil {
		err = s.promote(ctx, c, req.GetForce())
	}
	if err != nil {
		return nil, rpcerr.Promote(err)
	}
	return &spec.PromoteVolumeResponse{}, nil
}

func (s *Server) promote(ctx context.Context, c *call, force bool) error {
	role, err := s.readRole(ctx, c)
	if err != nil {
		return err
	}
	err = s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{
		Source: c.source, ReplicationId: c.replicationID, Role: role, Force: force,
	}}})
	if err != nil {
		return err
	}
	return s.await(ctx, c, func(state *fsm.State) (bool, string, *fsm.Rejection) { return state.PromoteHolds(c.source, s.site()) })
}

// DemoteVolume returns once no host of the site is primary (S46). With force it does the same: nothing that is in use is
// cut off.
func (s *Server) DemoteVolume(ctx context.Context, req *spec.DemoteVolumeRequest) (*spec.DemoteVolumeResponse, error) {
	c, err := s.begin(ctx, "demote", req, req.GetParameters())
	if err == nil {
		err = s.demote(ctx, c)
	}
	if err != nil {
		return nil, answer(err)
	}
	return &spec.DemoteVolumeResponse{}, nil
}

func (s *Server) demote(ctx context.Context, c *call) error {
	role, err := s.readRole(ctx, c)
	if err != nil {
		return err
	}
	err = s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{
		Source: c.source, ReplicationId: c.replicationID, Role: role,
	}}})
	if err != nil {
		return err
	}
	return s.await(ctx, c, func(state *fsm.State) (bool, string, *fsm.Rejection) { return state.DemoteHolds(c.source, s.site()) })
}

// ResyncVolume answers at once whether both sites have the same (S51); hosts go on meanwhile. With the parameter
// keep=false it discards also what cannot be kept first (S48).
func (s *Server) ResyncVolume(ctx context.Context, req *spec.ResyncVolumeRequest) (*spec.ResyncVolumeResponse, error) {
	c, err := s.begin(ctx, "resync", req, req.GetParameters())
	resp := &spec.ResyncVolumeResponse{}
	if err == nil {
		resp.Ready, err = s.resync(ctx, c, req.GetForce())
	}
	if err != nil {
		return nil, answer(err)
	}
	return resp, nil
}

func (s *Server) resync(ctx context.Context, c *call, force bool) (ready bool, err error) {
	role, err := s.readRole(ctx, c)
	if err != nil {
		return false, err
	}
	err = s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_ResyncReplication{ResyncReplication: &fsmpb.ResyncReplication{
		Source: c.source, ReplicationId: c.replicationID, Role: role, Force: force, DiscardUnkept: c.parameters.discardUnkept,
	}}})
	if err != nil {
		return false, err
	}
	err = s.client.ReadState(ctx, func(state *fsm.State) error {
		done, _, rej := state.ResyncReady(c.source, s.site())
		if rej != nil {
			return rej
		}
		ready = done
		return nil
	})
	return ready, err
}
