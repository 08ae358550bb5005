package controller

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DeleteVolume returns once every reachable host reported the device gone; on an
// unreachable one the removal stays pending (S18). What is unknown is deleted.
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
		err = s.progress.await(ctx, id, "delete", func(state *fsm.State) (bool, error) { return volumeRemoved(state, id) })
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// volumeRemoved tells whether no reachable host has the device any more (S18).
func volumeRemoved(state *fsm.State, id fsm.VolumeID) (bool, error) {
	v, ok := state.Volume(id)
	if !ok {
		return true, nil
	}
	if _, isDeleting := v.Phase.(fsm.Deleting); !isDeleting {
		return false, nil
	}
	for i := range v.Replicas {
		r := &v.Replicas[i]
		n, known := state.Node(r.Node)
		removalPending := r.State != fsm.ReplicaGone && known && n.Host == r.Host && n.State == fsm.NodeReachable
		switch {
		case removalPending && v.Operation != nil && v.Operation.State == fsm.OpFailed:
			return false, fmt.Errorf("delete volume %s: node %s failed to remove it: %s; retry %s once this is mended",
				id, r.Node, v.Operation.LastError, v.Operation.ID)
		case removalPending:
			return false, nil
		}
	}
	return true, nil
}
