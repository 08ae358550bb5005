package backendtest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.Mounter = (*mountTools)(nil)

// mountTools mount on a process's host.
type mountTools struct{ process *Process }

func (t *mountTools) host() *Host { return t.process.host }

// onDevice does an effect on the device that has a path.
func (t *mountTools) onDevice(ctx context.Context, name, device, detail string, act func(d target) error) error {
	return t.process.do(ctx, t.effectOn(name, device, detail), func() error {
		d, err := t.host().find(device)
		if err != nil {
			return err
		}
		return act(d)
	})
}

func (t *mountTools) effectOn(name, device, detail string) effect {
	t.process.world.mu.Lock()
	defer t.process.world.mu.Unlock()
	d, _ := t.host().find(device)
	return effect{part: "mount", name: name, volume: d.volume, detail: detail}
}

func (t *mountTools) CheckMount(path, _ string, flags []string) error {
	if !strings.HasPrefix(path, "/") || slices.Contains(flags, "bad") {
		return fsm.Reject(fsm.Invalid, "the path or a flag is not allowed")
	}
	return nil
}

func (t *mountTools) RealPath(path string) (string, error) { return realPath(path), nil }

func (t *mountTools) CheckTarget(path string, node bool) error {
	return t.process.act(func() error { return t.host().checkTarget(realPath(path), node) })
}

func (h *Host) checkTarget(path string, node bool) error {
	file, there := h.targets[path]
	if h.foreign[path] || h.topMount(path) != nil || there && file != node {
		return fsm.Reject(fsm.Precondition, "the path %s holds something else", path)
	}
	return nil
}

// probedBytes is how much of each end of a device Probe reads.
const probedBytes = 1 << 20

func (t *mountTools) Probe(ctx context.Context, device string, size int64) (c executor.Content, err error) {
	err = t.process.read(ctx, t.effectOn("probe", device, device), func() error {
		d, err := t.host().find(device)
		if err != nil {
			return err
		}
		content, err := d.content()
		if err != nil {
			return err
		}
		c = probe(content, size)
		return nil
	})
	return c, err
}

func probe(content blocks, size int64) executor.Content {
	if fsType, uuid, _, ok := parseSuperblock(content); ok {
		return executor.Content{Read: true, Found: executor.Filesystem{Type: fsType, UUID: uuid}}
	}
	for _, number := range inOrder(content) {
		at := number * BlockBytes
		if (at < probedBytes || at+BlockBytes > size-probedBytes) && !isZero(content[number][:]) {
			return executor.Content{Read: true}
		}
	}
	return executor.Content{Read: true, Empty: true}
}

func (t *mountTools) Format(ctx context.Context, device string, format executor.Filesystem, again bool) error {
	checked := false // what it writes itself may be on the device when it is tried again
	err := t.onDevice(ctx, "format-begin", device, device, func(d target) error {
		if !checked {
			if err := d.checkFormat(again); err != nil {
				return err
			}
			checked = true
		}
		return d.write(superblock, unfinishedFormat())
	})
	if err != nil {
		return err
	}
	return t.onDevice(ctx, "format", device, device, func(d target) error {
		if err := d.write(superblock, superblockText(format.Type, format.UUID, d.size())); err != nil {
			return err
		}
		return d.flush()
	})
}

// checkFormat is why no filesystem may be made on a device. The lock is held.
func (t target) checkFormat(again bool) error {
	content, err := t.content()
	if err != nil {
		return err
	}
	if len(content) > 0 && !again {
		return fsm.Reject(fsm.Precondition, "mkfs: there is something on the device of %s", t.volume)
	}
	if found := stampsIn(content); len(found) > 0 && len(t.host.world.ledger.of(t.volume).acknowledged) > 0 {
		t.host.world.violate("%s: %s is formatted over %s", t.host.node, t.volume, found[0])
	}
	return nil
}

func (t *mountTools) Mounts(ctx context.Context, device executor.Device) (found []executor.Mount, err error) {
	if !device.Active() {
		return nil, nil
	}
	err = t.process.read(ctx, t.effectOn("mounts", device.Path, device.Path), func() error {
		for _, m := range t.host().mounts {
			if m.target.number == device.Number {
				found = append(found, executor.Mount{Path: m.path, DeviceNode: m.filesystem == nil, ReadOnly: m.readOnly})
			}
		}
		return nil
	})
	return found, err
}

func (t *mountTools) Mount(ctx context.Context, device executor.Device, o executor.MountOptions) error {
	return t.onDevice(ctx, "mount", device.Path, o.Path, func(d target) error {
		if d.number != device.Number {
			return errors.New(device.Path + " is not the device that it was")
		}
		return t.host().mount(d, realPath(o.Path), o.FSType, o.ReadOnly)
	})
}

func (t *mountTools) Bind(ctx context.Context, device executor.Device, b executor.BindOptions) error {
	return t.onDevice(ctx, "bind", device.Path, b.Path, func(d target) error {
		if d.number != device.Number {
			return errors.New(device.Path + " is not the device that it was")
		}
		return t.host().bind(d, b)
	})
}

// bind binds a staged filesystem or a device node. The lock is held.
func (h *Host) bind(d target, b executor.BindOptions) error {
	path := realPath(b.Path)
	if m := h.topMount(path); m != nil {
		return sameMount(m, d, b.DeviceNode, b.ReadOnly)
	}
	if err := h.checkTarget(path, b.DeviceNode); err != nil {
		return err
	}
	entry := &mountEntry{path: path, target: d, readOnly: b.ReadOnly}
	if !b.DeviceNode {
		staged := h.topMount(realPath(b.StagingPath))
		if staged == nil || staged.target.number != d.number || staged.filesystem == nil {
			return fsm.Reject(fsm.Precondition, "the volume is not staged at %s", b.StagingPath)
		}
		entry.filesystem = staged.filesystem
	} else {
		for _, m := range h.mounts {
			if m.target.number == d.number && m.filesystem == nil && m.readOnly != b.ReadOnly {
				return fsm.Reject(fsm.Precondition, "a raw volume is read-only at all of its targets or at none")
			}
		}
		h.world.checkShown(d)
	}
	h.targets[path] = b.DeviceNode
	h.mounts = append(h.mounts, entry)
	return nil
}

func (t *mountTools) Unmount(ctx context.Context, device executor.Device, path string) error {
	e := t.effectOn("unmount", device.Path, path)
	return t.process.do(ctx, e, func() error {
		return t.host().unmount(target{number: device.Number}, realPath(path))
	})
}

func (t *mountTools) Shutdown(ctx context.Context, device executor.Device) error {
	return t.process.do(ctx, t.effectOn("shutdown", device.Path, device.Path), func() error {
		if f := t.host().filesystemOn(device.Number); f != nil {
			f.fail()
		}
		return nil
	})
}

// Writers lists the users that have the volume of a device open for writing, each of them a process.
func (t *mountTools) Writers(_ context.Context, device executor.Device) (all []executor.Process, err error) {
	err = t.process.act(func() error {
		d, err := t.host().find(device.Path)
		for _, w := range t.host().writers {
			if err == nil && w.target.volume == d.volume && !w.readOnly {
				all = append(all, executor.Process{PID: w.pid, Name: w.path, Dying: w.gone})
			}
		}
		return err
	})
	return all, err
}

func (t *mountTools) Kill(_ context.Context, p executor.Process) error {
	return t.process.act(func() error {
		for _, w := range t.host().writers {
			w.gone = w.gone || w.pid == p.PID
		}
		return nil
	})
}

func (t *mountTools) RemoveTarget(ctx context.Context, path string) error {
	h := t.host()
	return t.process.do(ctx, effect{part: "mount", name: "remove-target", detail: path}, func() error {
		path := realPath(path)
		if h.foreign[path] || h.topMount(path) != nil {
			return fsm.Reject(fsm.Precondition, "the path %s holds something else, so it is not removed", path)
		}
		delete(h.targets, path)
		return nil
	})
}

func (t *mountTools) Stats(ctx context.Context, device executor.Device, path string, block bool) (stats executor.VolumeStats, err error) {
	err = t.process.read(ctx, t.effectOn("stats", device.Path, path), func() error {
		m := t.host().topMount(realPath(path))
		if m == nil || m.target.number != device.Number {
			return fsm.Reject(fsm.NotFound, "the volume is not at %s", path)
		}
		stats = executor.VolumeStats{Block: block, Bytes: executor.Usage{Total: device.Size}, Condition: fsm.Condition{Message: "mounted"}}
		if m.filesystem != nil && m.filesystem.failed {
			stats.Condition = fsm.Condition{Abnormal: true, Message: "the filesystem was shut down"}
		}
		return nil
	})
	return stats, err
}
