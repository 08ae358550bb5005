package drbd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// observer reads the state of resources: from the kernel, from files and from backing devices. It
// has no part in the steps, so that it answers while a step's command hangs (S6).
type observer struct {
	config   *Config
	kernel   *kernelState
	metadata *metadataReader
	files    *resourceFiles
}

// observe reads the state from the kernel, and the metadata from the backing device when it is not
// attached.
func (o *observer) observe(ctx context.Context, id fsm.VolumeID, minor uint32, backing string) (executor.ResourceStatus, error) {
	m := executor.ResourceStatus{SyncPercent: -1}
	_, configured, err := o.files.minor(id)
	if err != nil {
		return m, err
	}
	m.HasConfig = configured
	t, err := o.kernel.readProc()
	if errors.Is(err, fs.ErrNotExist) { // the module is not loaded: the kernel has no resource
		return m, nil
	} else if err != nil {
		return m, err
	}
	d, inKernel, err := o.kernel.findDevice(ctx, t, id, minor)
	if err != nil {
		return m, fmt.Errorf("observe %s: %w", id, err)
	}
	if inKernel {
		o.fillStatus(d, &m)
		m.Frozen = d.suspended && o.kernel.isFrozen(ctx, id)
	}
	if err := o.fillMetadata(ctx, d, inKernel, backing, &m); err != nil {
		return m, fmt.Errorf("observe %s: %w", id, err)
	}
	return m, nil
}

func (o *observer) fillStatus(d procDevice, m *executor.ResourceStatus) {
	m.InKernel = true
	m.Primary, m.PeerRole = d.primary(), d.peerRole
	m.Disk, m.PeerDisk, m.Connection = diskState(d), diskStates[d.peerDisk], connectionState(d)
	m.Suspended, m.SyncPercent, m.OutOfSync = d.suspended, d.percent, d.outOfSync
	m.Requests, m.Transferred = d.requests, d.transferred
	m.Path, m.Number = devicePath(d.minor), unix.Mkdev(drbdMajor, d.minor)
	if d.connection != csUnconfigured {
		m.Size = o.kernel.deviceSize(d.minor)
	}
}

// fillMetadata fills in the metadata. If those of a detached backing device cannot be read, they
// are unknown, which is no error: the rest of the observation is valid.
func (o *observer) fillMetadata(ctx context.Context, d procDevice, inKernel bool, backing string, m *executor.ResourceStatus) error {
	var md diskMetadata
	var err error
	switch {
	case inKernel && d.attached():
		if md, err = o.metadata.attached(ctx, d.minor); err != nil {
			return ignoreDetached(err)
		}
	case backing == "":
		return nil
	default:
		if md, err = o.metadata.stored(ctx, d.minor, backing); err != nil {
			o.config.Log.Debug("the metadata cannot be read", "device", backing, "error", err)
			return ctx.Err()
		}
	}
	m.HasMetadata, m.JustCreated, m.UUID, m.BitmapUUID = md.found, md.fresh, md.uuid, md.bitmap
	return nil
}

// ignoreDetached drops an error that says that a disk was detached between two queries.
func ignoreDetached(err error) error {
	var failed *Error
	if errors.As(err, &failed) && failed.Code == noMetadata { // "Device has no disk"
		return nil
	}
	return err
}

// listSuspended returns the volumes whose I/O is suspended now. It reads files only, so it answers
// while a command hangs.
func (o *observer) listSuspended() ([]fsm.VolumeID, error) {
	t, err := o.kernel.readProc()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var frozen []fsm.VolumeID
	var configured map[uint32]fsm.VolumeID
	for minor, d := range t.devices {
		if !d.suspended {
			continue
		}
		if configured == nil {
			if configured, err = o.files.volumes(); err != nil {
				return nil, err
			}
		}
		if id, ours := configured[minor]; ours {
			frozen = append(frozen, id)
		}
	}
	slices.Sort(frozen)
	return frozen, nil
}

// listSync returns how much the replicas of each resource differ. It reads files only, like listSuspended.
func (o *observer) listSync() (map[fsm.VolumeID]executor.SyncStatus, error) {
	t, err := o.kernel.readProc()
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(t.devices) == 0 {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	configured, err := o.files.volumes()
	if err != nil {
		return nil, err
	}
	all := map[fsm.VolumeID]executor.SyncStatus{}
	for minor, d := range t.devices {
		if id, ours := configured[minor]; ours && d.connection != csUnconfigured {
			all[id] = executor.SyncStatus{Connection: connectionState(d), OutOfSync: d.outOfSync, Percent: d.percent, Suspended: d.suspended}
		}
	}
	return all, nil
}

// listResources returns the volumes that are configured in the kernel or in files.
func (o *observer) listResources(ctx context.Context) ([]fsm.VolumeID, error) {
	configured, err := o.files.volumes()
	if err != nil {
		return nil, err
	}
	var volumes []fsm.VolumeID
	for _, id := range configured {
		volumes = append(volumes, id)
	}
	loaded, err := o.kernel.volumes(ctx)
	if err != nil {
		return nil, err
	}
	volumes = append(volumes, loaded...)
	slices.Sort(volumes)
	return slices.Compact(volumes), nil
}
