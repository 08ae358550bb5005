package controller

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// enabledPolicy is what the configuration allows callers to use.
type enabledPolicy struct {
	disabled    map[csi.ControllerServiceCapability_RPC_Type]bool
	mountPolicy fsm.MountPolicy
}

// checkEnabled is UNIMPLEMENTED for a disabled capability.
func (e *enabledPolicy) checkEnabled(capability csi.ControllerServiceCapability_RPC_Type) error {
	if e.disabled[capability] {
		return rpcerr.From(fsm.Reject(fsm.Unsupported, "%s is turned off here", capability))
	}
	return nil
}

// checkCreateEnabled refuses what belongs to a disabled capability.
func (e *enabledPolicy) checkCreateEnabled(req *csi.CreateVolumeRequest) error {
	switch source := req.GetVolumeContentSource(); {
	case source.GetSnapshot() != nil && e.disabled[createDeleteSnapshot]:
		return fsm.Reject(fsm.Invalid, "volume_content_source: snapshots are turned off here")
	case source.GetVolume() != nil && e.disabled[csi.ControllerServiceCapability_RPC_CLONE_VOLUME]:
		return fsm.Reject(fsm.Invalid, "volume_content_source: clones are turned off here")
	}
	if err := e.checkModesEnabled(req.GetVolumeCapabilities()...); err != nil {
		return err
	}
	return e.checkMutableEnabled(req.GetMutableParameters())
}

// checkMutableEnabled refuses mutable parameters where they are disabled.
func (e *enabledPolicy) checkMutableEnabled(given map[string]string) error {
	if len(given) > 0 && e.disabled[modifyVolume] {
		return fsm.Reject(fsm.Invalid, "mutable_parameters are turned off here")
	}
	return nil
}

// checkPublishEnabled refuses uses that belong to a disabled capability.
func (e *enabledPolicy) checkPublishEnabled(req *csi.ControllerPublishVolumeRequest) error {
	if req.GetReadonly() && e.disabled[csi.ControllerServiceCapability_RPC_PUBLISH_READONLY] {
		return fsm.Reject(fsm.Invalid, "readonly: publishing for reading only is turned off here")
	}
	if err := e.checkMountFlags("", req.GetVolumeCapability()); err != nil {
		return err
	}
	return e.checkModesEnabled(req.GetVolumeCapability())
}

// checkModesEnabled refuses the access modes of a disabled capability.
func (e *enabledPolicy) checkModesEnabled(requested ...*csi.VolumeCapability) error {
	if !e.disabled[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER] {
		return nil
	}
	for _, c := range requested {
		switch mode := c.GetAccessMode().GetMode(); mode {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
			return fsm.Reject(fsm.Invalid, "access mode %s is turned off here", mode)
		}
	}
	return nil
}

// checkMountFlags refuses mount flags that no node would accept; fsType is for
// capabilities that leave it open.
func (e *enabledPolicy) checkMountFlags(fsType string, requested ...*csi.VolumeCapability) error {
	for _, c := range requested {
		own := c.GetMount().GetFsType()
		if own == "" {
			own = fsType
		}
		if rej := e.mountPolicy.Check(own, c.GetMount().GetMountFlags()); rej != nil {
			return rej
		}
	}
	return nil
}
