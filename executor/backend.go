package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Backend keeps the devices of one pool. Everything it makes is named by the
// volume's id, so that a crash between "made" and "reported" is adopted, not
// repeated. Its methods may be called at once for different volumes; for one
// volume the executor holds a lock. executor/backendtest says what must hold.
//
// Refusals are *fsm.Rejection; other errors may be tried again.
type Backend interface {
	// ID is the pool's identity, also while the pool is absent (S12).
	ID() fsm.PoolID
	// Kind is the backend's name in RegisterNode.
	Kind() string
	// Facts measures the pool.
	Facts(ctx context.Context) PoolFacts
	// Observe looks at one volume. It changes nothing.
	Observe(ctx context.Context, id fsm.VolumeID) (Device, error)
	// Create makes the volume's image, size bytes that read as zero. One of the
	// same size that is there already is adopted, one of another is Incompatible.
	Create(ctx context.Context, id fsm.VolumeID, size int64) error
	// Remove makes the image and what an interrupted Create left go away. It is
	// InUse while a device is attached. Nothing there: done.
	Remove(ctx context.Context, id fsm.VolumeID) error
	// Attach makes the image a block device, exactly one, and says which. One
	// that is attached already is adopted when it is as read-only as asked,
	// else Busy. It is Precondition when there is no image.
	Activate(ctx context.Context, id fsm.VolumeID, readOnly bool) (Device, error)
	// Detach ends the block device, also when the image is gone; Busy while
	// somebody has it open. Not attached: done.
	Deactivate(ctx context.Context, id fsm.VolumeID) error
	// Inventory lists everything below the pool and in the kernel for it.
	Inventory(ctx context.Context) ([]InventoryItem, error)
}

// Device is what was observed of one volume's image and block device.
type Device struct {
	Absent     bool   // the pool is absent: the image is not known, the rest is (S12)
	Exists     bool   // the image is there, whole
	Unfinished bool   // an interrupted Create left something
	Size       int64  // bytes of the image
	Path       string // of the block device; empty when not attached
	Number     uint64 // of the block device, as in stat's st_rdev
	ReadOnly   bool   // the block device refuses writes
	// StablePath is a path of the block device that is never another volume's, for what is
	// written down; empty where the backend has none. Path may be another's after a
	// detach or a boot. It may be a symbolic link.
	StablePath string
}

// Active tells whether the image is a block device now.
func (d Device) Active() bool { return d.Path != "" }
