package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Backend keeps the devices of one pool. Everything it makes is named after the
// volume's id: what a crash left between making it and reporting it is adopted and
// not made twice. Methods may be called concurrently for different volumes; for one
// volume the agent holds a lock. executor/backendtest is the contract as tests.
//
// Refusals are *fsm.Rejection; any other error may be retried.
type Backend interface {
	// ID is the pool's identity, also while the pool is absent (S12).
	ID() fsm.PoolID
	// Kind is the backend's name in RegisterNode.
	Kind() string
	// Facts measures the pool.
	Facts(ctx context.Context) PoolFacts
	// Observe reports one volume's image and block device. It changes nothing.
	Observe(ctx context.Context, id fsm.VolumeID) (Device, error)
	// Create makes the volume's image of size bytes, all of which read as zero. An image
	// of the same size is adopted; one of another size is Incompatible.
	Create(ctx context.Context, id fsm.VolumeID, size int64) error
	// Remove deletes the image and what an interrupted Create left. It is InUse while
	// the image is active. Nothing there is success.
	Remove(ctx context.Context, id fsm.VolumeID) error
	// Activate makes the image exactly one block device and returns it. A device that
	// exists already is adopted when its readOnly is as asked, else Busy. Without an
	// image it is Precondition.
	Activate(ctx context.Context, id fsm.VolumeID, readOnly bool) (Device, error)
	// Deactivate removes the block device, also when the image is gone. It is Busy while
	// the device is open. Not active is success.
	Deactivate(ctx context.Context, id fsm.VolumeID) error
	// Inventory lists everything in the pool's storage, and the kernel's devices of it.
	Inventory(ctx context.Context) ([]InventoryItem, error)
}

// MetadataMeasurer is a Backend whose pool keeps its maps in a space of their own. When that is full nothing can be
// written that needs a new block, however much room for data is left.
type MetadataMeasurer interface {
	// MetadataRatio is the used share of that space, 0 to 1. It is not known while the pool is absent.
	MetadataRatio() (ratio float64, known bool)
}

// Device is what was observed of one volume's image and block device.
type Device struct {
	Absent     bool   // the pool is absent: the image is not known, the rest is (S12)
	Exists     bool   // the image is there and complete
	Unfinished bool   // an interrupted Create left something
	Size       int64  // bytes of the image
	Path       string // of the block device; empty when not active
	Number     uint64 // of the block device, as in stat's st_rdev
	ReadOnly   bool   // the block device refuses writes
	// StablePath is a path of the block device that never becomes another volume's, for
	// configuration that is written to disk; empty where the backend has none. Path may be
	// another volume's after a deactivation or a boot. StablePath may be a symbolic link.
	StablePath string
}

// Active reports whether the image is a block device now.
func (d Device) Active() bool { return d.Path != "" }
