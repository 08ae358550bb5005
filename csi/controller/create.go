package controller

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CreateVolume returns once the volume's host created the device. It says ABORTED just
// before the caller's deadline; the retry joins the same volume by name.
func (s *Server) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME); err != nil {
		return nil, err
	}
	if err := s.enabled.checkCreateEnabled(req); err != nil {
		return nil, rpcerr.From(err)
	}
	cmd, err := createCommand(req)
	if err == nil {
		err = s.enabled.checkMountFlags(cmd.GetCapabilities()[0].GetFsType(), req.GetVolumeCapabilities()...)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	id, err := s.create(ctx, cmd)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	volume, err := s.progress.awaitReady(ctx, id)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

// create is the id of the volume that has the name from now on.
func (s *Server) create(ctx context.Context, cmd *fsmpb.CreateVolume) (fsm.VolumeID, error) {
	if !s.client.AtFeatureLevel(fsm.Level2) {
		cmd.Claim = nil
	}
	out, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: cmd}})
	if err != nil {
		return "", err
	}
	return fsm.VolumeID(out.GetVolumeId()), nil
}

// awaitReady waits until the volume's device is there.
func (w *progress) awaitReady(ctx context.Context, id fsm.VolumeID) (created *csi.Volume, err error) {
	err = w.await(ctx, id, "create", func(state *fsm.State) (bool, error) {
		if op := state.CreateFailure(string(id)); op != nil {
			return false, cluster.OperationError("create volume "+string(id), op)
		}
		v, ok := state.Volume(id)
		if !ok {
			return false, deletedConcurrently(id)
		}
		switch phase := v.Phase.(type) {
		case fsm.Creating:
			return false, nil
		case fsm.Ready:
			created = nodeViewOf(state, v).volume(v)
			return true, nil
		case fsm.Deleting:
			return false, deletedConcurrently(id)
		case fsm.Failed:
			return false, createFailure(v, phase)
		}
		return false, fmt.Errorf("volume %s is in an unknown phase", id)
	})
	return created, err
}

func deletedConcurrently(id fsm.VolumeID) error {
	return fsm.Reject(fsm.Busy, "create volume %s: it was deleted meanwhile; retry", id)
}

// createFailure says why a volume could not be created. The next call with its name
// places a new one.
func createFailure(v *fsm.Volume, phase fsm.Failed) error {
	switch {
	case phase.NoSpace:
		return fsm.Reject(fsm.NoCapacity, "create volume %q: %s", v.Name, phase.Reason)
	case v.Operation != nil && v.Operation.State == fsm.OpCancelled:
		return fsm.Reject(fsm.Busy, "create volume %q: %s; retry", v.Name, phase.Reason)
	case v.Operation != nil && v.Operation.Reason != 0:
		return fsm.Reject(v.Operation.Reason, "create volume %q: %s", v.Name, phase.Reason)
	}
	return fmt.Errorf("create volume %q: %s", v.Name, phase.Reason)
}
