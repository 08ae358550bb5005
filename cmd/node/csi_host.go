package node

import (
	"context"

	csinode "github.com/holdfast-storage/holdfast/csi/node"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
)

// csiHost adapts the agent to CSI's node service.
type csiHost struct{ executor *agent.Agent }

var (
	_ csinode.Host     = csiHost{}
	_ csinode.Expander = csiHost{}
)

// Stage stages a volume.
func (h csiHost) Stage(ctx context.Context, r csinode.StageRequest) error {
	return h.executor.Stage(ctx, executor.StageRequest{
		Volume: r.Volume, Epoch: r.Epoch, Path: r.Path, Capability: r.Capability, Flags: r.Flags,
	})
}

// Unstage unstages a volume, also without a quorum (S28).
func (h csiHost) Unstage(ctx context.Context, volume fsm.VolumeID, path string) error {
	return h.executor.Unstage(ctx, volume, path)
}

// PublishTarget binds a staged volume to a target.
func (h csiHost) PublishTarget(ctx context.Context, r csinode.PublishTargetRequest) error {
	return h.executor.PublishTarget(ctx, executor.PublishTargetRequest{
		Volume: r.Volume, Epoch: r.Epoch, StagingPath: r.StagingPath, TargetPath: r.TargetPath,
		ReadOnly: r.ReadOnly, Capability: r.Capability, Flags: r.Flags, MountGroup: r.MountGroup, Fingerprint: r.Fingerprint,
	})
}

// UnpublishTarget removes a target, also without a quorum (S28).
func (h csiHost) UnpublishTarget(ctx context.Context, volume fsm.VolumeID, target string) error {
	return h.executor.UnpublishTarget(ctx, volume, target)
}

// Expand grows the filesystem to the size of the device.
func (h csiHost) Expand(ctx context.Context, r csinode.ExpandRequest) (int64, error) {
	size, err := h.executor.Expand(ctx, executor.ExpandRequest{
		Volume: r.Volume, Path: r.Path, Size: r.Required, Capability: r.Capability,
	})
	if err == nil && r.Limit > 0 && size > r.Limit {
		return 0, fsm.Reject(fsm.OutOfRange, "volume %s has %d bytes, above limit_bytes %d: volumes never shrink", r.Volume, size, r.Limit)
	}
	return size, err
}

// Stats reads the usage of a volume at the path where it is staged or bound.
func (h csiHost) Stats(ctx context.Context, volume fsm.VolumeID, path string) (csinode.Stats, error) {
	s, err := h.executor.VolumeStats(ctx, volume, path)
	if err != nil {
		return csinode.Stats{}, err
	}
	return csinode.Stats{
		BytesTotal: s.Bytes.Total, BytesUsed: s.Bytes.Used, BytesAvailable: s.Bytes.Available,
		InodesTotal: s.Inodes.Total, InodesUsed: s.Inodes.Used, InodesFree: s.Inodes.Available,
		Block: s.Block, Condition: s.Condition,
	}, nil
}
