package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// cryptBackend presents a pool to an encrypted volume that is not replicated: the image is larger by the
// LUKS header, and every size is the volume's. A replicated volume's replicaBackend does the same.
type cryptBackend struct {
	executor.Backend
	executor.SnapshotBackend
}

// withoutHeader is what a device of that size has room for behind the header.
func withoutHeader(size int64) int64 { return max(0, size-executor.LUKSHeaderBytes) }

// Observe reports the size behind the header.
func (c *cryptBackend) Observe(ctx context.Context, id fsm.VolumeID) (executor.Device, error) {
	device, err := c.Backend.Observe(ctx, id)
	device.Size = withoutHeader(device.Size)
	return device, err
}

// Create makes the image with room for the header.
func (c *cryptBackend) Create(ctx context.Context, id fsm.VolumeID, size int64) error {
	return c.Backend.Create(ctx, id, size+executor.LUKSHeaderBytes)
}

// Activate returns the device with the size behind the header.
func (c *cryptBackend) Activate(ctx context.Context, id fsm.VolumeID, readOnly bool) (executor.Device, error) {
	device, err := c.Backend.Activate(ctx, id, readOnly)
	device.Size = withoutHeader(device.Size)
	return device, err
}

// Expand grows the image.
func (c *cryptBackend) Expand(ctx context.Context, id fsm.VolumeID, size int64) error {
	return c.SnapshotBackend.Expand(ctx, id, size+executor.LUKSHeaderBytes)
}

// Shrink keeps the header and so much content. Revert is the pool's: a snapshot has the header.
func (c *cryptBackend) Shrink(ctx context.Context, id fsm.VolumeID, size int64) error {
	return c.SnapshotBackend.Shrink(ctx, id, size+executor.LUKSHeaderBytes)
}

// CreateFrom copies the header and so much content.
func (c *cryptBackend) CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress executor.Progress) error {
	if content > 0 {
		content += executor.LUKSHeaderBytes
	}
	return c.SnapshotBackend.CreateFrom(ctx, id, size+executor.LUKSHeaderBytes, source, content, progress)
}

// ObserveSnapshot reports the size behind the header.
func (c *cryptBackend) ObserveSnapshot(ctx context.Context, id fsm.SnapshotID) (executor.Device, error) {
	device, err := c.SnapshotBackend.ObserveSnapshot(ctx, id)
	device.Size = withoutHeader(device.Size)
	return device, err
}

// newCryptBackend is the view of a pool for an encrypted volume.
func newCryptBackend(pool executor.Backend) (executor.Backend, error) {
	snapshots, ok := pool.(executor.SnapshotBackend)
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "pool %s cannot keep encrypted volumes", pool.ID())
	}
	return &cryptBackend{Backend: pool, SnapshotBackend: snapshots}, nil
}

// headerBytes is how many bytes the header of a volume takes: 0 for one in clear. The caller holds table.mu.
func (v *volume) headerBytes() int64 {
	if v.desired != nil && v.desired.Encrypted || v.recordCopy.Encrypted {
		return executor.LUKSHeaderBytes
	}
	return 0
}

// isEncrypted reports whether there is a LUKS header on the volume's device, by the log or by the record.
func (t *table) isEncrypted(v *volume) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.headerBytes() > 0
}

func (t *table) headerBytesOf(v *volume) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.headerBytes()
}

// mayBeEncrypted is isEncrypted, and also true before the log's word about the volume has come.
func (t *table) mayBeEncrypted(v *volume) bool {
	level2 := t.atLevel2()
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.headerBytes() > 0 || level2 && v.desired == nil
}
