package controller

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// createCommand reads a CreateVolume request. The rejection is fsm.Invalid, or
// fsm.OutOfRange for a size that is not served.
func createCommand(site string, req *csi.CreateVolumeRequest) (*fsmpb.CreateVolume, error) {
	if req.GetName() == "" {
		return nil, fsm.Reject(fsm.Invalid, "name is required")
	}
	p, err := parseParameters(site, req.GetParameters())
	if err != nil {
		return nil, err
	}
	if err := p.limits.merge(req.GetMutableParameters()); err != nil {
		return nil, err
	}
	source, err := csiconv.ParseSource(req.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	p.hasSource = source != nil
	capabilities, err := parseCreateCapabilities(req.GetVolumeCapabilities(), &p)
	if err != nil {
		return nil, err
	}
	cmd, err := buildCreateVolume(req, &p, capabilities)
	if err != nil {
		return nil, err
	}
	cmd.Source, cmd.Claim = source, csiconv.Claim(req.GetParameters(), req.GetMutableParameters())
	return cmd, checkSourceIDs(source)
}

func buildCreateVolume(req *csi.CreateVolumeRequest, p *parameters, capabilities []fsm.Capability) (*fsmpb.CreateVolume, error) {
	capacityRange := req.GetCapacityRange()
	if err := checkCapacityRange(capacityRange, capabilities); err != nil {
		return nil, err
	}
	cmd := &fsmpb.CreateVolume{
		Name: req.GetName(), Fingerprint: []byte(p.fingerprint), Replicas: p.replicas, Protocol: p.protocol, Sites: p.sites, VolumeGroup: p.volumeGroup,
		RequiredBytes: capacityRange.GetRequiredBytes(), LimitBytes: capacityRange.GetLimitBytes(), Limits: p.limits.values.Proto(),
		Encrypted: p.encrypted, EncryptionDiscards: p.discards,
	}
	for _, c := range capabilities {
		cmd.Capabilities = append(cmd.Capabilities, c.TextProto())
	}
	if err := csiconv.AddTopology(cmd, req.GetAccessibilityRequirements()); err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make an id for volume %q: %w", req.GetName(), err)
	}
	cmd.VolumeId = string(fsm.VolumeIDFrom(id))
	return cmd, nil
}

// parseCreateCapabilities reads the capabilities of a volume to be created. It can be
// used with each of them.
func parseCreateCapabilities(requested []*csi.VolumeCapability, p *parameters) ([]fsm.Capability, error) {
	if len(requested) == 0 {
		return nil, fsm.Reject(fsm.Invalid, "volume_capabilities are required")
	}
	var all []fsm.Capability
	for _, a := range requested {
		c, err := csiconv.ParseCapability(a)
		if err != nil {
			return nil, err
		}
		if err := csiconv.CheckAccessMode(c.Mode, fsm.Invalid); err != nil {
			return nil, err
		}
		if c, err = p.withFSType(c); err != nil {
			return nil, err
		}
		if len(all) > 0 && !all[0].Combines(c) {
			return nil, fsm.Reject(fsm.Invalid, "one volume cannot be used with all of the volume_capabilities: it has one filesystem, or none")
		}
		all = append(all, c)
	}
	return all, nil
}

// checkCapacityRange: a range that is given has a bound, and a size that is served is in
// it.
func checkCapacityRange(r *csi.CapacityRange, capabilities []fsm.Capability) error {
	if r != nil && r.GetRequiredBytes() == 0 && r.GetLimitBytes() == 0 {
		return fsm.Reject(fsm.Invalid, "capacity_range must have required_bytes, limit_bytes or both")
	}
	if _, rejection := fsm.SizeFor(r.GetRequiredBytes(), r.GetLimitBytes(), capabilities); rejection != nil {
		return rejection
	}
	return nil
}

// checkSourceIDs is fsm.NotFound for an id of another form than ours.
func checkSourceIDs(source *fsmpb.Source) error {
	snapshot, volume := fsm.SnapshotID(source.GetSnapshotId()), fsm.VolumeID(source.GetVolumeId())
	switch {
	case snapshot != "" && !snapshot.Valid():
		return fsm.UnknownSnapshot(snapshot)
	case volume != "" && !volume.Valid():
		return fsm.UnknownVolume(volume)
	}
	return nil
}
