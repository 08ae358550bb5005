package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// replicaView is a replicated volume as if it were one of a pool: its image is the
// device below, which is larger by the metadata, and it is attached where it is
// primary. So what is mounted, staged and cut is decided as for any volume.
type replicaView struct {
	Backend    // the pool
	replicator Replicator
	volume     fsm.VolumeID
	minor      uint32
	size       int64 // bytes that the log wants; 0: not known
}

// roundsUp is by how much a pool may round a device up, in bytes.
const roundsUp = 64 << 20

// view is the volume as a replicated one.
func (e *Executor) view(v *volume) (*replicaView, error) {
	b, err := e.backend(v)
	if err != nil {
		return nil, err
	}
	r, ok := b.(*replicaView)
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "volume %s is not replicated", v.id)
	}
	return r, nil
}

// asReplica is the pool's backend, or a view of it for a replicated volume.
func (e *Executor) asReplica(v *volume, pool Backend) (Backend, error) {
	view, err := e.viewOf(v, pool)
	if err != nil {
		return nil, err
	}
	if view != nil {
		return view, nil
	}
	return pool, nil
}

// viewOf is the view of a replicated volume, else nil. Whether it is replicated is asked
// once: a wish may take the replica away at any moment.
func (e *Executor) viewOf(v *volume, pool Backend) (*replicaView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	minor, ok := v.replicated()
	if !ok {
		return nil, nil
	}
	if e.Replicator == nil {
		return nil, fsm.Reject(fsm.Precondition, "volume %s is replicated, and this host holds no replicas", v.id)
	}
	view := &replicaView{Backend: pool, replicator: e.Replicator, volume: v.id, minor: minor, size: v.shown.Size}
	if v.wish != nil {
		view.size = v.wish.Size
	}
	return view, nil
}

// look observes the device below and what is above it.
func (r *replicaView) look(ctx context.Context) (*replicaHave, error) {
	below, err := r.Backend.Observe(ctx, r.volume)
	if err != nil {
		return nil, fmt.Errorf("look at the device below volume %s: %w", r.volume, err)
	}
	mirror, err := r.replicator.Observe(ctx, r.volume, r.minor, backingPath(below))
	if err != nil {
		return nil, fmt.Errorf("look at the replica of volume %s: %w", r.volume, err)
	}
	return &replicaHave{Mirror: mirror, below: below, room: r.room(below)}, nil
}

// room is the volume's size that the device below has room for. A pool that rounds up
// gave no more than was asked for.
func (r *replicaView) room(below Device) int64 {
	if !below.Exists {
		return 0
	}
	room := r.replicator.Room(below.Size)
	if r.size > 0 && room > r.size && room-r.size <= roundsUp {
		return r.size
	}
	return room
}

// backingPath is the device's, as it is written down.
func backingPath(below Device) string {
	if below.Named != "" && below.Attached() {
		return below.Named
	}
	return below.Path
}

// device is the volume as next sees it: attached where it is primary.
func (h *replicaHave) device() Device {
	d := Device{Absent: h.below.Absent, Exists: h.below.Exists, Unfinished: h.below.Unfinished, Size: h.room}
	if h.Primary {
		d.Path, d.Number, d.Named = h.Path, h.Number, h.Path
	}
	return d
}

// Observe looks at the volume.
func (r *replicaView) Observe(ctx context.Context, _ fsm.VolumeID) (Device, error) {
	have, err := r.look(ctx)
	if err != nil {
		return Device{}, err
	}
	return have.device(), nil
}

// Create makes the device below.
func (r *replicaView) Create(ctx context.Context, id fsm.VolumeID, size int64) error {
	return r.Backend.Create(ctx, id, r.replicator.Backing(size))
}

// Remove removes it, when nothing is above it any more.
func (r *replicaView) Remove(ctx context.Context, id fsm.VolumeID) error {
	have, err := r.look(ctx)
	if err != nil {
		return err
	}
	if have.InKernel {
		return fsm.Reject(fsm.InUse, "the replica of volume %s is still in the kernel", id)
	}
	return r.Backend.Remove(ctx, id)
}

// Attach is refused: to become primary takes a grant (S2).
func (r *replicaView) Attach(context.Context, fsm.VolumeID, bool) (Device, error) {
	return Device{}, fsm.Reject(fsm.Precondition, "volume %s becomes primary under a grant only", r.volume)
}

// Detach makes the replica secondary; it stays attached and connected.
func (r *replicaView) Detach(ctx context.Context, id fsm.VolumeID) error {
	return r.replicator.SetSecondary(ctx, id)
}

func (r *replicaView) pool() (SnapshotBackend, error) {
	if b, ok := r.Backend.(SnapshotBackend); ok {
		return b, nil
	}
	return nil, fsm.Reject(fsm.Precondition, "the pool of volume %s cannot copy nor grow", r.volume)
}

// canCopy is nil when the pool can.
func (r *replicaView) canCopy() error {
	_, err := r.pool()
	return err
}

// Shares tells whether the pool cuts without copying.
func (r *replicaView) Shares() bool {
	b, err := r.pool()
	return err == nil && b.Shares()
}

// CopyRate is the pool's.
func (r *replicaView) CopyRate(ctx context.Context) (int64, error) {
	b, err := r.pool()
	if err != nil {
		return 0, err
	}
	return b.CopyRate(ctx)
}

// ObserveSnapshot says the size that the volume had, without the metadata.
func (r *replicaView) ObserveSnapshot(ctx context.Context, id fsm.SnapshotID) (Device, error) {
	b, err := r.pool()
	if err != nil {
		return Device{}, err
	}
	have, err := b.ObserveSnapshot(ctx, id)
	have.Size = r.room(have)
	return have, err
}

// Allocated is of the device below.
func (r *replicaView) Allocated(ctx context.Context, id fsm.VolumeID) (int64, error) {
	b, err := r.pool()
	if err != nil {
		return 0, err
	}
	return b.Allocated(ctx, id)
}

// Cut cuts the device below.
func (r *replicaView) Cut(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress Progress) error {
	b, err := r.pool()
	if err != nil {
		return err
	}
	return b.Cut(ctx, source, id, progress)
}

// RemoveSnapshot is the pool's.
func (r *replicaView) RemoveSnapshot(ctx context.Context, id fsm.SnapshotID) error {
	b, err := r.pool()
	if err != nil {
		return err
	}
	return b.RemoveSnapshot(ctx, id)
}

// CreateFrom makes the device below from a source.
func (r *replicaView) CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress Progress) error {
	b, err := r.pool()
	if err != nil {
		return err
	}
	return b.CreateFrom(ctx, id, r.replicator.Backing(size), source, content, progress)
}

// Grow makes the device below larger. The volume follows when its peer's has grown too.
func (r *replicaView) Grow(ctx context.Context, id fsm.VolumeID, size int64) error {
	b, err := r.pool()
	if err != nil {
		return err
	}
	return b.Grow(ctx, id, r.replicator.Backing(size))
}

// Map is the pool's.
func (r *replicaView) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(Extent) bool) error {
	b, err := r.pool()
	if err != nil {
		return err
	}
	return b.Map(ctx, target, from, yield)
}

// Delta is the pool's.
func (r *replicaView) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(Extent) bool) error {
	b, err := r.pool()
	if err != nil {
		return err
	}
	return b.Delta(ctx, base, target, from, yield)
}

// attached tells whether the kernel has the disk.
func (h *replicaHave) attached() bool {
	return h.InKernel && h.Disk > diskDiskless
}
