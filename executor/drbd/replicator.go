package drbd

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	_ executor.Replicator = (*Replicator)(nil)
	_ executor.SyncReader = (*Replicator)(nil)
)

// Replicator implements executor.Replicator for one host. It is safe for concurrent use.
type Replicator struct {
	config        *Config
	resizeTimeout time.Duration

	kernel   *kernelState
	metadata *metadataReader
	files    *resourceFiles
	observer *observer
	check    *hostCheck
	steps    *stepRunner
}

// New returns the replicator of this host. It reads and changes nothing yet.
func New(c Config) *Replicator {
	config := c.withDefaults()
	kernel := newKernelState(&config)
	metadata := &metadataReader{config: &config, kernel: kernel}
	files := &resourceFiles{config: &config}
	return &Replicator{
		config: &config, resizeTimeout: resizeTimeout, kernel: kernel, metadata: metadata, files: files,
		observer: &observer{config: &config, kernel: kernel, metadata: metadata, files: files},
		check:    &hostCheck{config: &config, kernel: kernel},
		steps:    &stepRunner{config: &config, kernel: kernel, files: files, slots: newCommandSlots()},
	}
}

// Check returns why this host cannot hold replicated volumes; nil when it can. It loads the module
// when it is not loaded.
func (r *Replicator) Check(ctx context.Context) error { return r.check.run(ctx) }

// maxReplicas is how many replicas a volume can have: DRBD 8.4 supports one peer, and
// executor.ResourceConfig, from which the file of DRBD 9 is written, has one peer too.
const maxReplicas = 2

// Version returns the version of the loaded kernel module, empty while it is not loaded, and how
// many replicas of one volume it supports.
func (r *Replicator) Version() (version string, count uint32) {
	if version = r.kernel.version(); version == "" {
		return "", 0
	}
	return version, maxReplicas
}

// Observe reads the resource's state from the kernel, and the metadata from the backing device
// when it is not attached. It uses only interfaces that answer while another command hangs.
func (r *Replicator) Observe(ctx context.Context, id fsm.VolumeID, minor uint32, backing string) (executor.ResourceStatus, error) {
	return r.observer.observe(ctx, id, minor, backing)
}

// ListSuspended returns the volumes whose I/O is suspended now. It reads files only, so it answers
// while a command hangs.
func (r *Replicator) ListSuspended(context.Context) ([]fsm.VolumeID, error) {
	return r.observer.listSuspended()
}

// ListSync returns how much the replicas of each volume differ. It reads files only, so it answers while a command hangs.
func (r *Replicator) ListSync(context.Context) (map[fsm.VolumeID]executor.SyncStatus, error) {
	return r.observer.listSync()
}

// ListResources returns the volumes that are configured in the kernel or in files.
func (r *Replicator) ListResources(ctx context.Context) ([]fsm.VolumeID, error) {
	return r.observer.listResources(ctx)
}
