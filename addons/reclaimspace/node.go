// Package reclaimspace serves ReclaimSpace of CSI-Addons: what filesystems do not use is discarded, so that
// pools have it back (S61). Usage is what a pool says that it allocates, never an estimate.
package reclaimspace

import (
	"context"
	"path/filepath"

	spec "github.com/csi-addons/spec/lib/go/reclaimspace"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Host is the executor of this node.
type Host interface {
	ReclaimSpace(ctx context.Context, req executor.ReclaimRequest) (executor.SpaceUsage, error)
}

// NodeServer serves reclaimspace.ReclaimSpaceNode.
type NodeServer struct {
	spec.UnimplementedReclaimSpaceNodeServer
	host Host
}

var _ spec.ReclaimSpaceNodeServer = (*NodeServer)(nil)

// NewNode makes the service of a node.
func NewNode(host Host) *NodeServer { return &NodeServer{host: host} }

// NodeReclaimSpace trims the filesystem of a volume that is staged here. A raw volume is measured only.
func (s *NodeServer) NodeReclaimSpace(ctx context.Context, req *spec.NodeReclaimSpaceRequest) (*spec.NodeReclaimSpaceResponse, error) {
	reclaim, err := nodeRequest(req)
	if err != nil {
		return nil, rpcerr.OrUnknown(err)
	}
	usage, err := s.host.ReclaimSpace(ctx, reclaim)
	if err != nil {
		return nil, rpcerr.OrUnknown(err)
	}
	resp := &spec.NodeReclaimSpaceResponse{}
	if usage.Known {
		resp.PreUsage, resp.PostUsage = consumption(usage.Before), consumption(usage.After)
	}
	return resp, nil
}

// nodeRequest takes the staging path where there is no volume_path: the client of Kubernetes sends only
// that, although the specification requires the other.
func nodeRequest(req *spec.NodeReclaimSpaceRequest) (executor.ReclaimRequest, error) {
	path, staging := req.GetVolumePath(), req.GetStagingTargetPath()
	r := executor.ReclaimRequest{Volume: fsm.VolumeID(req.GetVolumeId()), Path: path}
	switch {
	case r.Volume == "":
		return r, fsm.Reject(fsm.Invalid, "volume_id is required")
	case path == "" && staging == "":
		return r, fsm.Reject(fsm.Invalid, "volume_path or staging_target_path is required")
	case staging != "" && !filepath.IsAbs(staging):
		return r, fsm.Reject(fsm.Invalid, "staging_target_path is not absolute")
	case path == "":
		r.Path = staging
	}
	if c := req.GetVolumeCapability(); c != nil {
		var err error
		if r.Capability, err = csiconv.ParseCapability(c); err != nil {
			return r, err
		}
	}
	switch {
	case !r.Volume.Valid():
		return r, fsm.UnknownVolume(r.Volume)
	case !filepath.IsAbs(r.Path):
		return r, fsm.Reject(fsm.NotFound, "volume %s is not at that volume_path", r.Volume)
	}
	return r, nil
}

// consumption is what the specification calls a usage; it is never negative.
func consumption(bytes int64) *spec.StorageConsumption {
	return &spec.StorageConsumption{UsageBytes: max(bytes, 0)}
}
