package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DeleteVolume returns once every reachable host reported the device gone; on an
// unreachable one the removal stays pending (S18). What is unknown is deleted. Through the
// secondary of a replicated volume it ends what that site asked for: it returns once
// nothing of the volume is used there, and its data stay (S37).
func (s *Server) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME); err != nil {
		return nil, err
	}
	id := fsm.VolumeID(req.GetVolumeId())
	if id == "" {
		return nil, rpcerr.Invalid("volume_id is required")
	}
	if !id.Valid() {
		return &csi.DeleteVolumeResponse{}, nil
	}
	cmd := &fsmpb.DeleteVolume{VolumeId: string(id)}
	_, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: cmd}})
	if err == nil {
		err = s.awaitDeletion(ctx, id)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (s *Server) awaitDeletion(ctx context.Context, id fsm.VolumeID) error {
	waitsFor := ""
	err := s.progress.await(ctx, id, "delete", func(state *fsm.State) (done bool, rej *fsm.Rejection) {
		if !state.KeptByRelation(id, s.client.Site()) {
			return state.VolumeRemoval(id)
		}
		done, waitsFor, rej = state.ClaimEndHolds(&fsmpb.ReplicationSource{VolumeId: string(id)}, fsm.SiteFrom(s.client.Site()))
		return done, rej
	})
	if err != nil && waitsFor != "" {
		return fsm.Reject(fsm.Busy, "delete volume %s: %s; the retry joins", id, waitsFor)
	}
	return err
}
