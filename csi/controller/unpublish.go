package controller

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ControllerUnpublishVolume ends a node's publication, or all of them without a node id.
// What is not known or not published is unpublished; so is, for an orchestrator, what an operator published. A reachable host tears down within
// the call what it has staged, but never by force what is in use. A volume in use that
// has a single replica is unpublished all the same, and its host has a pending teardown;
// a replicated one stays published. For a replicated volume on an unreachable host the
// call returns once the former primary is isolated (S31, S8).
func (s *Server) ControllerUnpublishVolume(ctx context.Context, req *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME); err != nil {
		return nil, err
	}
	id := fsm.VolumeID(req.GetVolumeId())
	if id == "" {
		return nil, rpcerr.Invalid("volume_id is required")
	}
	if !id.Valid() {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if err := s.unpublish(ctx, id, fsm.NodeID(req.GetNodeId())); err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (s *Server) unpublish(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) error {
	publications, err := s.state.publicationsHeld(ctx, id, node)
	if err != nil {
		return err
	}
	if len(publications) == 0 { // perhaps by an earlier call that timed out
		return s.progress.awaitFormerPrimaryIsolated(ctx, id, node)
	}
	s.progress.awaitUnstaged(ctx, id, node)
	if err := s.proposeUnpublish(ctx, id, node, publications); err != nil {
		return err
	}
	left, err := s.state.publicationsHeld(ctx, id, node)
	if err != nil {
		return err
	}
	if len(left) > 0 { // its host was requested to unstage it
		s.progress.awaitHostTeardown(ctx, id, node)
		if err := s.proposeUnpublish(ctx, id, node, publications); err != nil {
			return err
		}
	}
	s.progress.awaitPendingTeardowns(ctx, id, node)
	return s.progress.awaitFormerPrimaryIsolated(ctx, id, node)
}

// proposeUnpublish ends the publications, or requests their hosts to unstage.
func (s *Server) proposeUnpublish(ctx context.Context, id fsm.VolumeID, node fsm.NodeID, publications []fsm.Publication) error {
	cmd := &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(node)}
	if len(publications) == 1 { // with its epoch: a later publication is not meant (S4)
		cmd.NodeId, cmd.Epoch = string(publications[0].Node), publications[0].Epoch.Proto()
	}
	_, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: cmd}})
	return err
}

// awaitUnstaged waits briefly for a report that is still under way; whether it came is
// decided by fsm.
func (p *progress) awaitUnstaged(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) {
	p.awaitBriefly(ctx, id, node, func(u *fsm.UnpublishProgress) bool { return u.Unstaging })
}

// awaitHostTeardown gives a host that was requested to unstage the volume time to do so,
// or to report what uses it.
func (p *progress) awaitHostTeardown(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) {
	p.awaitBriefly(ctx, id, node, func(u *fsm.UnpublishProgress) bool { return u.Ending })
}

// awaitPendingTeardowns gives the host of a single replica time for its teardown: the
// volume is unpublished already, and while it is in use the teardown stays pending (S31).
func (p *progress) awaitPendingTeardowns(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) {
	p.awaitBriefly(ctx, id, node, func(u *fsm.UnpublishProgress) bool { return u.TearingDown })
}

// awaitBriefly waits while something is under way, no longer than the caller can spare.
func (p *progress) awaitBriefly(ctx context.Context, id fsm.VolumeID, node fsm.NodeID, underWay func(*fsm.UnpublishProgress) bool) {
	timeout := p.unstageTimeout
	if deadline, hasDeadline := ctx.Deadline(); hasDeadline {
		timeout = min(timeout, time.Until(deadline)/2) // the proposal needs the rest
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_ = p.await(ctx, id, "unpublish", func(state *fsm.State) (bool, *fsm.Rejection) {
		u := state.Through(p.client.Site()).UnpublishProgress(p.client.Actor(), id, node)
		return !underWay(&u), nil
	})
}
