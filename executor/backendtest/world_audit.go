package backendtest

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Audit lists everything that a host has of volumes, sorted.
type Audit struct {
	Images, Unfinished []fsm.VolumeID
	Snapshots          []fsm.SnapshotID // finished or not
	Devices            []fsm.VolumeID   // active images
	Mappings           []fsm.VolumeID   // of encrypted volumes that are open
	Resources          []fsm.VolumeID   // in the kernel
	Configs            []fsm.VolumeID   // resource files
	Primaries          []fsm.VolumeID
	Suspended          []fsm.VolumeID
	Mounts             []string // "path device volume"
	Targets            []string // paths that were made to bind to
	Frozen             []fsm.VolumeID
	Limits             []string // devices with limits
	problems           []string
}

// Audit looks at everything on the host.
func (h *Host) Audit() (a Audit) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	for _, p := range h.pools {
		a.Images = append(a.Images, sortedKeys(p.images)...)
		a.Unfinished = append(a.Unfinished, sortedKeys(p.unfinished)...)
		a.Snapshots = append(append(a.Snapshots, sortedKeys(p.snapshots)...), sortedKeys(p.unfinishedSnapshots)...)
	}
	slices.Sort(a.Images)
	slices.Sort(a.Unfinished)
	slices.Sort(a.Snapshots)
	a.Snapshots = slices.Compact(a.Snapshots)
	a.Mappings = sortedKeys(h.mappings)
	a.Devices, a.Configs, a.Targets, a.Limits = sortedKeys(h.devices), sortedKeys(h.configs), sortedKeys(h.targets), sortedKeys(h.limits)
	a.auditMounts(h)
	a.auditResources(h)
	a.auditDevices(h)
	return a
}

func (a *Audit) auditMounts(h *Host) {
	for _, m := range h.mounts {
		a.Mounts = append(a.Mounts, fmt.Sprintf("%s %d %s", m.path, m.target.number, m.target.volume))
		if m.filesystem != nil && m.filesystem.frozen() {
			a.Frozen = append(a.Frozen, m.target.volume)
		}
		if !m.target.exists() {
			a.problem("the device of %s is gone, and is mounted on %s", m.target.volume, m.path)
		}
	}
	slices.Sort(a.Mounts)
	slices.Sort(a.Frozen)
	a.Frozen = slices.Compact(a.Frozen)
}

func (a *Audit) auditResources(h *Host) {
	h.world.eachReplica(h, func(r *resource, b *bond, side int) {
		s := b.pair.Observe(side)
		if !s.InKernel {
			return
		}
		a.Resources = append(a.Resources, r.id)
		if s.Primary {
			a.Primaries = append(a.Primaries, r.id)
		}
		if s.Suspended {
			a.Suspended = append(a.Suspended, r.id)
		}
		if _, file := h.configs[r.id]; !file {
			a.problem("%s is in the kernel without a file", r.id)
		}
		if s.Disk > diskless && h.devices[r.id] == nil {
			a.problem("the disk of %s is attached and not active", r.id)
		}
	})
}

func (a *Audit) auditDevices(h *Host) {
	for _, id := range a.Devices {
		if h.image(id) == nil && !h.devices[id].pool.absent {
			a.problem("the device of %s has no image", id)
		}
	}
	for _, id := range a.Mappings {
		if !h.mappings[id].below.exists() {
			a.problem("the mapping of %s is above nothing", id)
		}
	}
	for _, path := range a.Limits {
		if d, err := h.find(path); err != nil || d.volume != h.limits[path] {
			a.problem("%s has limits that are those of %s", path, h.limits[path])
		}
	}
}

func (a *Audit) problem(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// Problems lists what does not fit together: mounts without a device, devices without an image,
// limits of a device that is another volume's by now.
func (a Audit) Problems() []string { return a.problems }

// Volumes lists the volumes that anything but a mount, a target or a limit is named after.
func (a Audit) Volumes() (all []fsm.VolumeID) {
	for _, ids := range [][]fsm.VolumeID{a.Images, a.Unfinished, a.Devices, a.Mappings, a.Resources, a.Configs} {
		all = append(all, ids...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Empty reports whether nothing of any volume or snapshot is left.
func (a Audit) Empty() bool {
	return len(a.Volumes())+len(a.Snapshots)+len(a.Mounts)+len(a.Targets)+len(a.Limits) == 0
}
