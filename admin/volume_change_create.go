package admin

import (
	"cmp"
	"context"
	"maps"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/fsm"
)

// create makes the call of a new volume. Its size is exact: another size under the name is refused, not joined.
func (x *volumeChange) create() (err error) {
	if x.site, err = x.siteOfNew(); err != nil {
		return err
	}
	x.volume, _ = x.state.VolumeByName(fsm.SiteFrom(x.site), x.req.GetVolume())
	if v := x.volume; v != nil && v.MadeBy == "" && !x.req.GetEvenIfOrchestrated() {
		x.step.state, x.step.detail = stepBlocked, "a volume has this name, and "+orchestrated(v)+": choose another name; one that has failed is replaced with --even-if-orchestrated"
		return nil
	}
	source, size, err := x.source()
	if err != nil {
		return err
	}
	if x.req.GetBlock() && x.req.GetFsType() != "" {
		return fsm.Reject(fsm.Invalid, "it is used raw or has a filesystem, not both")
	}
	if size = cmp.Or(x.req.GetSizeBytes(), size); size <= 0 {
		return fsm.Reject(fsm.Invalid, "name its size")
	}
	capability := capabilityFor(x.req.GetFsType(), x.req.GetBlock(), csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
	req := &csi.CreateVolumeRequest{
		Name: x.req.GetVolume(), Parameters: x.req.GetParameters(), VolumeContentSource: source, AccessibilityRequirements: x.topology(),
		CapacityRange: &csi.CapacityRange{RequiredBytes: size, LimitBytes: roundUpSize(size)}, VolumeCapabilities: []*csi.VolumeCapability{capability},
	}
	x.step.detail = formatSize(size)
	x.request, x.call = req, func(ctx context.Context, c csi.ControllerServer) error {
		resp, err := c.CreateVolume(ctx, req)
		if id := resp.GetVolume().GetVolumeId(); id != "" {
			x.volume = &fsm.Volume{ID: fsm.VolumeID(id)}
		}
		return err
	}
	return nil
}

// roundUpSize is the size that a volume of so many bytes has.
func roundUpSize(size int64) int64 {
	return (size + fsm.VolumeSizeUnit - 1) / fsm.VolumeSizeUnit * fsm.VolumeSizeUnit
}

// siteOfNew is the site of a new volume. Names are unique at one site only, so where there are several one is named.
func (x *volumeChange) siteOfNew() (string, error) {
	if site := x.req.GetSite(); site != "" {
		if rej := fsm.CheckSite(site); rej != nil {
			return "", rej
		}
		return site, nil
	}
	if n, ok := x.state.Node(fsm.NodeID(x.req.GetNode())); ok {
		return fsm.Site(n.Site).String(), nil
	}
	found := map[string]bool{}
	for n := range x.state.Nodes() {
		found[fsm.Site(n.Site).String()] = true
	}
	if len(found) > 1 {
		return "", fsm.Reject(fsm.Invalid, "the cluster has %d sites, name one with --site", len(found))
	}
	for site := range found {
		return site, nil
	}
	return fsm.DefaultSite, nil
}

// source is what the volume is made from, and its size in bytes; nil: it is empty.
func (x *volumeChange) source() (*csi.VolumeContentSource, int64, error) {
	snapshot, volume := x.req.GetFromSnapshot(), x.req.GetFromVolume()
	switch {
	case snapshot != "" && volume != "":
		return nil, 0, fsm.Reject(fsm.Invalid, "it is made from a snapshot or from a volume, not from both")
	case snapshot != "":
		found := findSnapshot(x.state, snapshot)
		if found == nil {
			return nil, 0, fsm.Reject(fsm.NotFound, "no snapshot has the id or name %q", snapshot)
		}
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: string(found.ID)}}}, found.Size, nil
	case volume != "":
		found := findVolume(x.state, volume)
		if found == nil {
			return nil, 0, fsm.Reject(fsm.NotFound, "no volume has the id or name %q", volume)
		}
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: string(found.ID)}}}, found.Size, nil
	}
	return nil, 0, nil
}

// topology is where the volume has to be accessible from; nil: anywhere.
func (x *volumeChange) topology() *csi.TopologyRequirement {
	segments := maps.Clone(x.req.GetTopology())
	if node := x.req.GetNode(); node != "" {
		if segments == nil {
			segments = map[string]string{}
		}
		segments[fsm.TopologyKey] = node
	}
	if len(segments) == 0 {
		return nil
	}
	term := []*csi.Topology{{Segments: segments}}
	return &csi.TopologyRequirement{Requisite: term, Preferred: term}
}
