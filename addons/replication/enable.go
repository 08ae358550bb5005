package replication

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/replication"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// EnableVolumeReplication returns once the second replica of every volume was made and its synchronisation has begun.
// Where it is enabled already, the endpoint's site asks for it too from then on.
func (s *Server) EnableVolumeReplication(ctx context.Context, req *spec.EnableVolumeReplicationRequest) (*spec.EnableVolumeReplicationResponse, error) {
	c, err := s.begin(ctx, "enable replication of", req, req.GetParameters())
	if err == nil {
		err = s.enable(ctx, c)
	}
	if err != nil {
		return nil, answer(err)
	}
	return &spec.EnableVolumeReplicationResponse{}, nil
}

// begin checks that replication is served, and reads the request.
func (s *Server) begin(ctx context.Context, action string, req request, given map[string]string) (*call, error) {
	if err := s.checkServed(ctx); err != nil {
		return nil, err
	}
	return s.newCall(action, req, given)
}

func (s *Server) enable(ctx context.Context, c *call) error {
	p := &c.parameters
	if p.peerSite == "" {
		return fsm.Reject(fsm.Invalid, "parameter %s is required: the site of the second replicas", peerSiteKey)
	}
	err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{
		Source: c.source, ReplicationId: c.replicationID, PeerSite: p.peerSite, PeerNode: p.peerNode, Protocol: p.protocol,
		DiscardUnkept: p.discardUnkept, Separately: p.separately, FreezeIsolated: p.freezeIsolated,
	}}})
	if err != nil {
		return err
	}
	return s.await(ctx, c, func(state *fsm.State) (bool, string, *fsm.Rejection) { return state.EnableHolds(c.source) })
}
