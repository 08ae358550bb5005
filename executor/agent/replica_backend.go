package agent

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// replicaBackend presents a replicated volume as one of a pool: its image is the backing device,
// which is larger by DRBD's metadata, and it is active while it is primary. So mounts, staging
// and snapshots are decided as for any volume.
type replicaBackend struct {
	executor.Backend // the pool
	replicator       executor.Replicator
	volume           fsm.VolumeID
	minor            uint32
	size             int64 // bytes that are desired; 0: not known
	header           int64 // bytes of the LUKS header, which is part of what DRBD replicates; 0: the volume is in clear
}

// maxRoundUp is how many bytes a pool may add to a device when it rounds its size up.
const maxRoundUp = 64 << 20

// observe observes the backing device and the resource above it.
func (r *replicaBackend) observe(ctx context.Context) (*plan.ObservedReplica, error) {
	backing, err := r.Backend.Observe(ctx, r.volume)
	if err != nil {
		return nil, fmt.Errorf("look at the backing device of volume %s: %w", r.volume, err)
	}
	status, err := r.replicator.Observe(ctx, r.volume, r.minor, backingPath(backing))
	if err != nil {
		return nil, fmt.Errorf("look at the replica of volume %s: %w", r.volume, err)
	}
	status.Size = max(0, status.Size-r.header)
	return &plan.ObservedReplica{ResourceStatus: status, Backing: backing, BackingCapacity: r.backingCapacity(backing)}, nil
}

// backingCapacity is the size in bytes of the largest volume that the backing device can hold. A
// device that the pool rounded up counts with the size that was asked for.
func (r *replicaBackend) backingCapacity(backing executor.Device) int64 {
	if !backing.Exists {
		return 0
	}
	capacity := max(0, r.replicator.BackingCapacity(backing.Size)-r.header)
	if r.size > 0 && capacity > r.size && capacity-r.size <= maxRoundUp {
		return r.size
	}
	return capacity
}

// backingPath is the backing device's path for the resource's file.
func backingPath(backing executor.Device) string {
	if backing.StablePath != "" && backing.Active() {
		return backing.StablePath
	}
	return backing.Path
}

// Observe reports the replicated volume's device and size.
func (r *replicaBackend) Observe(ctx context.Context, _ fsm.VolumeID) (executor.Device, error) {
	have, err := r.observe(ctx)
	if err != nil {
		return executor.Device{}, err
	}
	return have.Device(), nil
}

// Create makes the backing device's image.
func (r *replicaBackend) Create(ctx context.Context, id fsm.VolumeID, size int64) error {
	return r.Backend.Create(ctx, id, r.replicator.BackingSize(size+r.header))
}

// Remove removes the backing device's image, when no resource is above it any more.
func (r *replicaBackend) Remove(ctx context.Context, id fsm.VolumeID) error {
	if err := r.checkDown(ctx); err != nil {
		return err
	}
	return r.Backend.Remove(ctx, id)
}

// checkDown refuses while the resource is in the kernel.
func (r *replicaBackend) checkDown(ctx context.Context) error {
	have, err := r.observe(ctx)
	if err != nil {
		return err
	}
	if have.InKernel {
		return fsm.Reject(fsm.InUse, "the replica of volume %s is still in the kernel", r.volume)
	}
	return nil
}

// Activate is refused: becoming primary needs a grant (S2).
func (r *replicaBackend) Activate(context.Context, fsm.VolumeID, bool) (executor.Device, error) {
	return executor.Device{}, fsm.Reject(fsm.Precondition, "volume %s becomes primary under a grant only", r.volume)
}

// Deactivate makes the replica secondary; its disk stays attached and it stays connected.
func (r *replicaBackend) Deactivate(ctx context.Context, id fsm.VolumeID) error {
	return r.replicator.SetSecondary(ctx, id)
}

func (r *replicaBackend) snapshotPool() (executor.SnapshotBackend, error) {
	if b, ok := r.Backend.(executor.SnapshotBackend); ok {
		return b, nil
	}
	return nil, fsm.Reject(fsm.Precondition, "the pool of volume %s can neither copy nor grow volumes", r.volume)
}

// checkSnapshotPool is nil when the pool can take snapshots.
func (r *replicaBackend) checkSnapshotPool() error {
	_, err := r.snapshotPool()
	return err
}

// SharesBlocks reports whether the pool takes snapshots without copying.
func (r *replicaBackend) SharesBlocks() bool {
	b, err := r.snapshotPool()
	return err == nil && b.SharesBlocks()
}

// CopyRate is the pool's, in bytes a second.
func (r *replicaBackend) CopyRate(ctx context.Context) (int64, error) {
	b, err := r.snapshotPool()
	if err != nil {
		return 0, err
	}
	return b.CopyRate(ctx)
}

// ObserveSnapshot reports the size that the volume had, without the metadata.
func (r *replicaBackend) ObserveSnapshot(ctx context.Context, id fsm.SnapshotID) (executor.Device, error) {
	b, err := r.snapshotPool()
	if err != nil {
		return executor.Device{}, err
	}
	have, err := b.ObserveSnapshot(ctx, id)
	have.Size = r.backingCapacity(have)
	return have, err
}

// Allocated is that of the backing device, in bytes.
func (r *replicaBackend) Allocated(ctx context.Context, id fsm.VolumeID) (int64, error) {
	b, err := r.snapshotPool()
	if err != nil {
		return 0, err
	}
	return b.Allocated(ctx, id)
}

// TakeSnapshot takes a snapshot of the backing device.
func (r *replicaBackend) TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress executor.Progress) error {
	b, err := r.snapshotPool()
	if err != nil {
		return err
	}
	return b.TakeSnapshot(ctx, source, id, progress)
}

// RemoveSnapshot removes the pool's snapshot.
func (r *replicaBackend) RemoveSnapshot(ctx context.Context, id fsm.SnapshotID) error {
	b, err := r.snapshotPool()
	if err != nil {
		return err
	}
	return b.RemoveSnapshot(ctx, id)
}

// CreateFrom makes the backing device's image from a source.
func (r *replicaBackend) CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress executor.Progress) error {
	b, err := r.snapshotPool()
	if err != nil {
		return err
	}
	if content > 0 {
		content += r.header
	}
	return b.CreateFrom(ctx, id, r.replicator.BackingSize(size+r.header), source, content, progress)
}

// Expand grows the backing device. The volume grows when its peer's has grown as well.
func (r *replicaBackend) Expand(ctx context.Context, id fsm.VolumeID, size int64) error {
	b, err := r.snapshotPool()
	if err != nil {
		return err
	}
	return b.Expand(ctx, id, r.replicator.BackingSize(size+r.header))
}

// Map yields what the pool's snapshot allocates.
func (r *replicaBackend) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	b, err := r.snapshotPool()
	if err != nil {
		return err
	}
	return b.Map(ctx, target, from, yield)
}

// Delta yields what differs between two snapshots of the pool.
func (r *replicaBackend) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	b, err := r.snapshotPool()
	if err != nil {
		return err
	}
	return b.Delta(ctx, base, target, from, yield)
}
