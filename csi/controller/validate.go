package controller

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ValidateVolumeCapabilities confirms that a volume can be used with all the
// capabilities. That it cannot is a response, not an error.
func (s *Server) ValidateVolumeCapabilities(ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	requested, err := parseRequestedCapabilities(req)
	if err == nil {
		err = s.enabled.checkMutableEnabled(req.GetMutableParameters())
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	v, err := s.state.readKnownVolume(ctx, fsm.VolumeID(req.GetVolumeId()))
	if err != nil {
		return nil, rpcerr.From(err)
	}
	mismatch := checkMatches(s.client.Site(), v, req, requested)
	if mismatch == nil {
		mismatch = s.enabled.checkMountFlags(v.FSType(), req.GetVolumeCapabilities()...)
	}
	if mismatch != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: csiconv.Message(mismatch.Error())}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      req.GetVolumeContext(),
		VolumeCapabilities: req.GetVolumeCapabilities(),
		Parameters:         req.GetParameters(),
		MutableParameters:  req.GetMutableParameters(),
	}}, nil
}

func parseRequestedCapabilities(req *csi.ValidateVolumeCapabilitiesRequest) ([]fsm.Capability, error) {
	if req.GetVolumeId() == "" {
		return nil, fsm.Reject(fsm.Invalid, "volume_id is required")
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, fsm.Reject(fsm.Invalid, "volume_capabilities are required")
	}
	var requested []fsm.Capability
	for _, given := range req.GetVolumeCapabilities() {
		c, err := csiconv.DecodeCapability(given)
		if err != nil {
			return nil, err
		}
		requested = append(requested, c)
	}
	return requested, nil
}

// checkMatches says why the volume is not what the caller describes.
func checkMatches(site string, v *fsm.Volume, req *csi.ValidateVolumeCapabilitiesRequest, requested []fsm.Capability) error {
	if err := csiconv.CheckVolumeContext(req.GetVolumeContext()); err != nil {
		return err
	}
	p, err := parseParameters(site, req.GetParameters())
	if err != nil {
		return err
	}
	if err := p.limits.merge(req.GetMutableParameters()); err != nil {
		return err
	}
	if err := checkReplicationMatches(v, req.GetParameters(), &p); err != nil {
		return err
	}
	for _, c := range requested {
		if err := errors.Join(csiconv.CheckFSType(c.FSType), csiconv.CheckAccessMode(c.Mode, fsm.Invalid)); err != nil {
			return err
		}
		if p.fsType != "" && !c.Block && c.FSType == "" {
			c.FSType = p.fsType
		}
		if rejection := v.CheckSupports(c); rejection != nil {
			return rejection
		}
	}
	return nil
}

// checkReplicationMatches says why the volume is not replicated as the parameters describe it.
// Those that are not given describe nothing.
func checkReplicationMatches(v *fsm.Volume, given map[string]string, p *parameters) error {
	replicas, protocol := p.replicas, p.protocol
	if given[replicasKey] == "" {
		replicas = 0
	}
	if given[protocolKey] == "" {
		protocol = fsmpb.Protocol_PROTOCOL_UNKNOWN
	}
	if rejection := v.CheckReplicatedAs(replicas, protocol); rejection != nil {
		return rejection
	}
	if len(p.sites) > 0 && !slices.Equal(v.Sites, p.sitesOf()) {
		return fsm.Reject(fsm.Invalid, "volume %s has not one replica at each of the sites %s", v.ID, strings.Join(p.sites, " and "))
	}
	return nil
}
