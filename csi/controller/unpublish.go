package controller

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ControllerUnpublishVolume ends a node's publication, or all of them without a
// node id. What is not known or not published is unpublished. A host that can be
// asked takes down within the call what it has staged, and never by force what is in
// use: a single replica is unpublished then and its host keeps the obligation, a
// replicated volume stays published. From a host that cannot be asked a replicated volume
// is taken away first (S31, S8).
func (s *Server) ControllerUnpublishVolume(ctx context.Context, req *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := s.serves(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME); err != nil {
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
	var held []fsm.Publication
	err := s.read(ctx, func(state *fsm.State) error {
		held = publicationsOn(state, id, node)
		return nil
	})
	if err != nil {
		return err
	}
	if len(held) == 0 { // perhaps by an earlier call, which did not see the end of it
		return s.awaitSevered(ctx, id, node)
	}
	s.awaitUnstaged(ctx, id, node)
	if err := s.end(ctx, id, node, held); err != nil {
		return err
	}
	asked, err := s.asked(ctx, id, node)
	if err != nil {
		return err
	}
	if asked { // its host was asked to take it down
		s.awaitEnded(ctx, id, node)
		if err := s.end(ctx, id, node, held); err != nil {
			return err
		}
	}
	s.awaitTornDown(ctx, id, node)
	return s.awaitSevered(ctx, id, node)
}

// end has the publications ended, or their hosts asked to take them down.
func (s *Server) end(ctx context.Context, id fsm.VolumeID, node fsm.NodeID, held []fsm.Publication) error {
	cmd := &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(node)}
	if len(held) == 1 { // names what it ends: a later publication is not meant (S4)
		cmd.NodeId, cmd.Epoch = string(held[0].Node), held[0].Epoch.Proto()
	}
	_, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: cmd}})
	if expired(err) {
		return s.unpublished(ctx, id, node, held)
	}
	return err
}

// asked tells whether a host was asked to take the volume down, which stays published
// until it did.
func (s *Server) asked(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) (asked bool, err error) {
	err = s.read(ctx, func(state *fsm.State) error {
		asked = len(publicationsOn(state, id, node)) > 0
		return nil
	})
	return asked, err
}

// publicationsOn are the volume's on that node, or all when node is empty.
func publicationsOn(state *fsm.State, id fsm.VolumeID, node fsm.NodeID) []fsm.Publication {
	v, ok := state.Volume(id)
	if !ok {
		return nil
	}
	var held []fsm.Publication
	for _, p := range v.Publications() {
		if node == "" || p.Node == node {
			held = append(held, p)
		}
	}
	return held
}

// awaitUnstaged gives a report that is still on its way a little time; whether it
// came is for the state to judge.
func (s *Server) awaitUnstaged(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) {
	s.giveTime(ctx, id, func(state *fsm.State) bool {
		for _, p := range publicationsOn(state, id, node) {
			if p.Staging != nil && !p.Ending && reachable(state, p.Node, p.Host) {
				return false
			}
		}
		return true
	})
}

// awaitEnded gives the host that was asked time to take the volume down, or to say what
// keeps it from that.
func (s *Server) awaitEnded(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) {
	s.giveTime(ctx, id, func(state *fsm.State) bool {
		for _, p := range publicationsOn(state, id, node) {
			if p.Staging != nil && p.UsedBy == "" && reachable(state, p.Node, p.Host) {
				return false
			}
		}
		return true
	})
}

// awaitTornDown gives a host time to end what it owes of a single replica: it is
// unpublished already, and in use it stays the host's obligation (S31).
func (s *Server) awaitTornDown(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) {
	s.giveTime(ctx, id, func(state *fsm.State) bool {
		v, ok := state.Volume(id)
		if !ok || v.Replicated() {
			return true
		}
		for _, t := range v.Teardowns {
			if (node == "" || t.Node == node) && reachable(state, t.Node, t.Host) && !failing(v.OperationOf(fsm.OpTeardown)) {
				return false
			}
		}
		return true
	})
}

// failing tells whether a step of the operation failed.
func failing(op *fsm.Operation) bool { return op != nil && op.LastError != "" }

// giveTime waits until something is so, no longer than the caller can spare.
func (s *Server) giveTime(ctx context.Context, id fsm.VolumeID, so func(*fsm.State) bool) {
	patience := s.unstagePatience
	if end, limited := ctx.Deadline(); limited {
		patience = min(patience, time.Until(end)/2) // the proposal needs the rest
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = s.await(ctx, id, "unpublish", func(state *fsm.State) (bool, error) { return so(state), nil })
}

// unpublished answers from the state for a command that came too late (S4).
func (s *Server) unpublished(ctx context.Context, id fsm.VolumeID, node fsm.NodeID, meant []fsm.Publication) error {
	return s.read(ctx, func(state *fsm.State) error {
		for _, p := range publicationsOn(state, id, node) {
			for _, m := range meant {
				if p.Epoch == m.Epoch {
					return fsm.Reject(fsm.Busy, "unpublish volume %s: the command came too late and was not applied; retry", id)
				}
			}
		}
		return nil
	})
}
