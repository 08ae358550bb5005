package drbd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// drbdMajor is the major number of DRBD's block devices (LANANA).
const drbdMajor = 147

// Observe reads the resource's state from the kernel, and the metadata from the backing device
// when it is not attached. It uses only interfaces that answer while another command hangs.
func (r *Replicator) Observe(ctx context.Context, id fsm.VolumeID, minor uint32, backing string) (executor.ResourceStatus, error) {
	m := executor.ResourceStatus{SyncPercent: -1}
	_, configured, err := r.configuredMinor(id)
	if err != nil {
		return m, err
	}
	m.HasConfig = configured
	t, err := r.readProc()
	if errors.Is(err, fs.ErrNotExist) { // the module is not loaded: the kernel has no resource
		return m, nil
	} else if err != nil {
		return m, err
	}
	d, inKernel, err := r.findDevice(ctx, t, id, minor)
	if err != nil {
		return m, fmt.Errorf("observe %s: %w", id, err)
	}
	if inKernel {
		r.fillStatus(d, &m)
	}
	if err := r.fillMetadata(ctx, d, inKernel, backing, &m); err != nil {
		return m, fmt.Errorf("observe %s: %w", id, err)
	}
	return m, nil
}

func (r *Replicator) fillStatus(d procDevice, m *executor.ResourceStatus) {
	m.InKernel = true
	m.Primary, m.PeerRole = d.primary(), d.peerRole
	m.Disk, m.PeerDisk, m.Connection = diskState(d), diskStates[d.peerDisk], connectionState(d)
	m.Suspended, m.SyncPercent, m.OutOfSync = d.suspended, d.percent, d.outOfSync
	m.Path, m.Number = devicePath(d.minor), unix.Mkdev(drbdMajor, d.minor)
	if d.connection != csUnconfigured {
		m.Size = r.deviceSize(d.minor)
	}
}

// fillMetadata fills in the metadata. If those of a detached backing device cannot be read, they
// are unknown, which is no error: the rest of the observation is valid.
func (r *Replicator) fillMetadata(ctx context.Context, d procDevice, inKernel bool, backing string, m *executor.ResourceStatus) error {
	var md diskMetadata
	var err error
	switch {
	case inKernel && d.attached():
		if md, err = r.attachedMetadata(ctx, d.minor); err != nil {
			return r.ignoreDetached(err)
		}
	case backing == "":
		return nil
	default:
		if md, err = r.storedMetadata(ctx, d.minor, backing); err != nil {
			r.config.Log.Debug("the metadata cannot be read", "device", backing, "error", err)
			return ctx.Err()
		}
	}
	m.HasMetadata, m.JustCreated, m.UUID = md.found, md.fresh, md.uuid
	return nil
}

// findDevice returns the minor's line of /proc/drbd, when the kernel has it for this volume.
func (r *Replicator) findDevice(ctx context.Context, t procTable, id fsm.VolumeID, minor uint32) (procDevice, bool, error) {
	d, found := t.devices[minor]
	if !found {
		r.forgetOwner(minor)
		return procDevice{minor: minor}, false, nil
	}
	owner, err := r.minorOwner(ctx, minor)
	switch {
	case err != nil:
		return procDevice{}, false, err
	case owner != id:
		return procDevice{}, false, fsm.Reject(fsm.InUse, "minor %d belongs to %s", minor, owner)
	}
	return d, true, nil
}

// minorOwner returns the volume that a minor belongs to. The result of events2 is cached: a minor
// keeps its owner until it was found unused. A minor that was found unused while events2 ran is
// queried again, as it may have another owner by now.
func (r *Replicator) minorOwner(ctx context.Context, minor uint32) (fsm.VolumeID, error) {
	for {
		r.mu.Lock()
		id, found := r.minorOwners[minor]
		before := maps.Clone(r.freeCounts)
		r.mu.Unlock()
		if found {
			return id, nil
		}
		out, err := r.query(ctx, "drbdsetup", "events2", "--now")
		if err != nil {
			return "", fmt.Errorf("ask the kernel whose minor %d is: %w", minor, err)
		}
		if id, current := r.recordOwners(parseMinors(string(out)), before, minor); current {
			return id, nil
		}
	}
}

// recordOwners caches what the kernel listed, and reports whether it is still current for one
// minor.
func (r *Replicator) recordOwners(listed map[uint32]fsm.VolumeID, before map[uint32]uint64, minor uint32) (id fsm.VolumeID, current bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, owner := range listed {
		if r.freeCounts[n] == before[n] {
			r.minorOwners[n] = owner
		}
	}
	return r.minorOwners[minor], r.freeCounts[minor] == before[minor]
}

func (r *Replicator) forgetOwner(minor uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.minorOwners, minor)
	r.freeCounts[minor]++
}

var (
	eventName  = regexp.MustCompile(` name:(\S+)`)
	eventMinor = regexp.MustCompile(` minor:(\d+)`)
)

// parseMinors reads from the output of events2 which resource has which minor.
func parseMinors(events string) map[uint32]fsm.VolumeID {
	minors := map[uint32]fsm.VolumeID{}
	for line := range strings.Lines(events) {
		name, minor := eventName.FindStringSubmatch(line), eventMinor.FindStringSubmatch(line)
		if name == nil || minor == nil {
			continue
		}
		if n, err := strconv.ParseUint(minor[1], 10, 32); err == nil {
			minors[uint32(n)] = fsm.VolumeID(name[1])
		}
	}
	return minors
}

// ListSuspended returns the volumes whose I/O is suspended now. It reads files only, so it answers
// while a command hangs.
func (r *Replicator) ListSuspended(context.Context) ([]fsm.VolumeID, error) {
	t, err := r.readProc()
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
			if configured, err = r.configuredVolumes(); err != nil {
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

// ListResources returns the volumes that are configured in the kernel or in files.
func (r *Replicator) ListResources(ctx context.Context) ([]fsm.VolumeID, error) {
	configured, err := r.configuredVolumes()
	if err != nil {
		return nil, err
	}
	var volumes []fsm.VolumeID
	for _, id := range configured {
		volumes = append(volumes, id)
	}
	loaded, err := r.kernelVolumes(ctx)
	if err != nil {
		return nil, err
	}
	volumes = append(volumes, loaded...)
	slices.Sort(volumes)
	return slices.Compact(volumes), nil
}

// kernelVolumes returns the volumes that the kernel has resources of.
func (r *Replicator) kernelVolumes(ctx context.Context) ([]fsm.VolumeID, error) {
	if _, err := os.Stat(filepath.Join(r.config.procDir, "drbd")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out, err := r.query(ctx, "drbdsetup", "events2", "--now")
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for its resources: %w", err)
	}
	return parseVolumes(string(out)), nil
}

func parseVolumes(events string) []fsm.VolumeID {
	var ids []fsm.VolumeID
	for line := range strings.Lines(events) {
		if m := eventName.FindStringSubmatch(line); m != nil && fsm.VolumeID(m[1]).Valid() && !slices.Contains(ids, fsm.VolumeID(m[1])) {
			ids = append(ids, fsm.VolumeID(m[1]))
		}
	}
	return ids
}

func devicePath(minor uint32) string { return "/dev/drbd" + minorString(minor) }

// deviceSize returns a DRBD device's size in bytes, 0 when the kernel does not tell it.
func (r *Replicator) deviceSize(minor uint32) int64 {
	text, err := os.ReadFile(filepath.Join(r.config.sysDir, "block", "drbd"+minorString(minor), "size"))
	if err != nil {
		return 0
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 54)
	if err != nil {
		return 0
	}
	return sectors * sectorBytes
}

// ignoreDetached drops an error that says that a disk was detached between two queries.
func (*Replicator) ignoreDetached(err error) error {
	var failed *Error
	if errors.As(err, &failed) && failed.Code == noMetadata { // "Device has no disk"
		return nil
	}
	return err
}
