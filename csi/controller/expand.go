package controller

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ControllerExpandVolume returns once the volume's host made the device larger, in use or
// not. A filesystem on it is then expanded by NodeExpandVolume.
func (s *Server) ControllerExpandVolume(ctx context.Context, req *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME); err != nil {
		return nil, err
	}
	cmd, err := expandCommand(req)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	v, err := s.expand(ctx, cmd)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: needsNodeExpansion(v, cmd)}, nil
}

func expandCommand(req *csi.ControllerExpandVolumeRequest) (*fsmpb.ExpandVolume, error) {
	id, capacityRange := fsm.VolumeID(req.GetVolumeId()), req.GetCapacityRange()
	switch {
	case id == "":
		return nil, fsm.Reject(fsm.Invalid, "volume_id is required")
	case capacityRange == nil:
		return nil, fsm.Reject(fsm.Invalid, "capacity_range is required")
	case capacityRange.GetRequiredBytes() == 0 && capacityRange.GetLimitBytes() == 0:
		return nil, fsm.Reject(fsm.Invalid, "capacity_range must have required_bytes, limit_bytes or both")
	}
	cmd := &fsmpb.ExpandVolume{VolumeId: string(id), RequiredBytes: capacityRange.GetRequiredBytes(), LimitBytes: capacityRange.GetLimitBytes()}
	if req.GetVolumeCapability() != nil {
		c, err := csiconv.ParseCapability(req.GetVolumeCapability())
		if err != nil {
			return nil, err
		}
		if err := csiconv.CheckAccessMode(c.Mode, fsm.Invalid); err != nil {
			return nil, err
		}
		cmd.Capability = csiconv.CapabilityProto(c)
	}
	if !id.Valid() {
		return nil, unknownVolume(id)
	}
	return cmd, nil
}

// expand is the volume once its device has the size. A failed expansion leaves the old
// size everywhere; the retry begins another.
func (s *Server) expand(ctx context.Context, cmd *fsmpb.ExpandVolume) (expanded *fsm.Volume, err error) {
	id := fsm.VolumeID(cmd.GetVolumeId())
	done := func(state *fsm.State) (bool, error) {
		expanded, err = readyVolume(state, id)
		if err != nil || sizeReached(expanded, cmd.GetRequiredBytes()) {
			return err == nil, err
		}
		return false, operationFailure(expanded, fsm.OpExpand, "expand volume "+string(id))
	}
	if _, err = s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: cmd}}); err != nil {
		return nil, err
	}
	err = s.progress.await(ctx, id, "expand", done)
	return expanded, err
}

// sizeReached tells whether the volume's devices have its size, and it is the requested
// one.
func sizeReached(v *fsm.Volume, required int64) bool {
	return v.Size >= required && !slices.ContainsFunc(v.Replicas, func(r fsm.Replica) bool {
		return isAccessible(&r) && r.Size < v.Size
	})
}

// operationFailure says why the volume's operation of this kind failed, nil when it did
// not.
func operationFailure(v *fsm.Volume, kind fsm.OperationKind, what string) error {
	op := v.OperationOf(kind)
	switch {
	case op == nil || op.State == fsm.OpRunning:
		return nil
	case op.State == fsm.OpCancelled:
		return fsm.Reject(fsm.Busy, "%s: it was cancelled; retry", what)
	}
	return cluster.OperationError(what, op)
}

// needsNodeExpansion tells whether the node must expand a filesystem: not where the
// volume is used raw.
func needsNodeExpansion(v *fsm.Volume, cmd *fsmpb.ExpandVolume) bool {
	if cmd.GetCapability() != nil {
		return !cmd.GetCapability().GetBlock()
	}
	return slices.ContainsFunc(v.Capabilities, func(c fsm.Capability) bool { return !c.Block })
}
