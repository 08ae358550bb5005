package backendtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	_ executor.FilesystemTools = (*filesystemTools)(nil)
	_ executor.Throttle        = (*throttleTools)(nil)
	_ executor.Freezer         = (*freezeTools)(nil)
	_ executor.Freeze          = (*activeFreeze)(nil)
)

// filesystemTools change filesystems on a process's host.
type filesystemTools struct{ process *Process }

func (t *filesystemTools) ExpandFilesystem(ctx context.Context, device executor.Device, _, _ string) error {
	return t.rewrite(ctx, "expand", device, func(fsType, uuid string, _ int64, d target) *[BlockBytes]byte {
		return superblockText(fsType, uuid, d.size())
	})
}

func (t *filesystemTools) ChangeUUID(ctx context.Context, device executor.Device, format executor.Filesystem) error {
	return t.rewrite(ctx, "change-uuid", device, func(_, _ string, size int64, _ target) *[BlockBytes]byte {
		return superblockText(format.Type, format.UUID, size)
	})
}

// rewrite replaces the superblock of the filesystem on a device.
func (t *filesystemTools) rewrite(ctx context.Context, name string, device executor.Device, fresh func(fsType, uuid string, size int64, d target) *[BlockBytes]byte) error {
	h := t.process.host
	return t.process.do(ctx, effect{part: "filesystem", name: name, volume: h.ownerOf(device.Path), detail: device.Path}, func() error {
		d, err := h.find(device.Path)
		if err != nil {
			return err
		}
		content, err := d.content()
		if err != nil {
			return err
		}
		fsType, uuid, size, ok := parseSuperblock(content)
		if !ok {
			return fmt.Errorf("there is no filesystem on %s", device.Path)
		}
		if err := d.write(superblock, fresh(fsType, uuid, size, d)); err != nil {
			return err
		}
		return d.flush()
	})
}

func (t *filesystemTools) FilesystemSize(ctx context.Context, device executor.Device, _ string) (size int64, err error) {
	h := t.process.host
	err = t.process.read(ctx, effect{part: "filesystem", name: "size", volume: h.ownerOf(device.Path)}, func() error {
		d, err := h.find(device.Path)
		if err != nil {
			return err
		}
		content, err := d.content()
		if err != nil {
			return err
		}
		if _, _, size, _ = parseSuperblock(content); size == 0 {
			return fmt.Errorf("there is no filesystem on %s", device.Path)
		}
		return nil
	})
	return size, err
}

// Trim discards nothing, since a filesystem of this world uses all that was written. A trim of what is
// frozen is a violation (S61).
func (t *filesystemTools) Trim(ctx context.Context, device executor.Device, o executor.TrimOptions) error {
	h := t.process.host
	if err := o.Before(ctx, o.From); err != nil {
		return err
	}
	return t.process.do(ctx, effect{part: "filesystem", name: "trim", volume: h.ownerOf(device.Path), detail: o.Path}, func() error {
		d, err := h.find(device.Path)
		if err != nil {
			return err
		}
		if o.Path == "" {
			return h.trimUnmounted(d, o.FSType)
		}
		m := h.topMount(realPath(o.Path))
		switch {
		case m == nil || m.filesystem == nil || m.target.number != d.number:
			return fsm.Reject(fsm.Precondition, "%s is not mounted on %s", device.Path, o.Path)
		case m.filesystem.frozen():
			h.world.violate("S61: %s was trimmed while it was frozen", d.volume)
		}
		return m.filesystem.sync()
	})
}

// trimUnmounted mounts a filesystem meanwhile. The lock is held.
func (h *Host) trimUnmounted(d target, fsType string) error {
	if h.isOpen(d.number) {
		h.world.violate("S61: %s was trimmed by a private mount beside another use", d.volume)
	}
	_, err := h.openFilesystem(d, fsType, false)
	return err
}

// ownerOf returns the volume whose device has a path now.
func (h *Host) ownerOf(path string) fsm.VolumeID {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	d, _ := h.find(path)
	return d.volume
}

// throttleTools limit devices of a process's host.
type throttleTools struct{ process *Process }

func (t *throttleTools) Apply(ctx context.Context, device executor.Device, limits fsm.Limits) error {
	h := t.process.host
	return t.process.do(ctx, effect{part: "throttle", name: "apply", volume: h.ownerOf(device.Path), detail: device.Path}, func() error {
		d, err := h.find(device.Path)
		if err != nil {
			return err
		}
		if limits == (fsm.Limits{}) {
			delete(h.limits, device.Path)
			return nil
		}
		h.limits[device.Path] = d.volume
		return nil
	})
}

// freeze is a filesystem's freeze, which ends at the deadline by itself.
type freeze struct{ until time.Time }

// freezeTools freeze filesystems of a process's host.
type freezeTools struct{ process *Process }

// activeFreeze is a freeze that a process holds.
type activeFreeze struct {
	process    *Process
	volume     fsm.VolumeID
	filesystem *filesystem
	freeze     *freeze
	began      time.Time
}

func (t *freezeTools) Freeze(ctx context.Context, id fsm.VolumeID, path string, until time.Time) (executor.Freeze, error) {
	h, a := t.process.host, &activeFreeze{process: t.process, volume: id, freeze: &freeze{until}}
	err := t.process.do(ctx, effect{part: "freeze", name: "freeze", volume: id, detail: path}, func() error {
		m := h.topMount(realPath(path))
		switch {
		case m == nil || m.filesystem == nil:
			return fmt.Errorf("no filesystem is mounted on %s", path)
		case m.filesystem.frozen():
			return fsm.Reject(fsm.Busy, "%s is frozen", id)
		}
		if err := m.filesystem.sync(); err != nil {
			return err
		}
		a.filesystem, a.began = m.filesystem, time.Now()
		m.filesystem.freeze = a.freeze
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (t *freezeTools) Frozen(id fsm.VolumeID) bool {
	h := t.process.host
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	for _, m := range h.mounts {
		if m.target.volume == id && m.filesystem != nil && m.filesystem.frozen() {
			return true
		}
	}
	return false
}

func (t *freezeTools) Recover(ctx context.Context) error {
	return t.process.do(ctx, effect{part: "freeze", name: "recover"}, func() error {
		for _, m := range t.process.host.mounts {
			if m.filesystem != nil {
				m.filesystem.freeze = nil
			}
		}
		return nil
	})
}

// holds is called under the lock.
func (a *activeFreeze) holds() bool {
	return a.filesystem != nil && a.filesystem.freeze == a.freeze && a.filesystem.frozen()
}

func (a *activeFreeze) check() error {
	return a.process.act(func() error {
		if !a.holds() {
			return errors.New("the freeze has ended")
		}
		return nil
	})
}

func (a *activeFreeze) Run(ctx context.Context, take func(context.Context) error) error {
	if err := a.check(); err != nil {
		return err
	}
	if err := take(ctx); err != nil {
		return err
	}
	return a.check()
}

func (a *activeFreeze) Thaw(ctx context.Context) error {
	return a.process.do(ctx, effect{part: "freeze", name: "thaw", volume: a.volume}, func() error {
		if a.filesystem != nil && a.filesystem.freeze == a.freeze {
			a.filesystem.freeze = nil
		}
		return nil
	})
}

func (a *activeFreeze) Elapsed() time.Duration { return time.Since(a.began) }
