package node

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// NodeGetVolumeStats measures a volume where it is staged or published. No volume can be
// at a relative path: NOT_FOUND.
func (s *Server) NodeGetVolumeStats(ctx context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	statsOff, conditionOff := s.checkEnabled(csi.NodeServiceCapability_RPC_GET_VOLUME_STATS), s.checkEnabled(csi.NodeServiceCapability_RPC_VOLUME_CONDITION)
	if statsOff != nil && conditionOff != nil { // either is enough to serve the call
		return nil, statsOff
	}
	id := fsm.VolumeID(req.GetVolumeId())
	if err := checkStats(id, req); err != nil {
		return nil, rpcerr.From(err)
	}
	stats, err := s.host.VolumeStats(ctx, id, req.GetVolumePath())
	if err != nil {
		return nil, rpcerr.From(err)
	}
	resp := &csi.NodeGetVolumeStatsResponse{}
	if statsOff == nil {
		resp.Usage = usage(&stats)
	}
	if conditionOff == nil {
		resp.VolumeCondition = csiconv.Condition(stats.Condition)
	}
	return resp, nil
}

func checkStats(id fsm.VolumeID, req *csi.NodeGetVolumeStatsRequest) error {
	path := req.GetVolumePath()
	if err := checkPaths(id, path, req.GetStagingTargetPath()); err != nil {
		return err
	}
	return checkLocation(id, path)
}

// usage is never negative: filesystems reserve blocks.
func usage(s *executor.VolumeStats) []*csi.VolumeUsage {
	bytes := &csi.VolumeUsage{Unit: csi.VolumeUsage_BYTES, Total: max(s.Bytes.Total, 0)}
	if s.Block {
		return []*csi.VolumeUsage{bytes}
	}
	bytes.Used, bytes.Available = max(s.Bytes.Used, 0), max(s.Bytes.Available, 0)
	return []*csi.VolumeUsage{bytes, {
		Unit: csi.VolumeUsage_INODES, Total: max(s.Inodes.Total, 0), Used: max(s.Inodes.Used, 0), Available: max(s.Inodes.Available, 0),
	}}
}
