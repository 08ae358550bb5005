package backendtest

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// filesystem is a mounted filesystem: what a kernel knows of it, and its dirty pages. It may have
// several mounts.
type filesystem struct {
	target   target
	format   executor.Filesystem
	readOnly bool
	failed   bool // it was shut down, or stopped at an error: nothing is written any more
	dirty    []dirtyPage
	freeze   *freeze
}

// dirtyPage is a stamp that is not on the device yet.
type dirtyPage struct {
	stamp  Stamp
	number int64 // of its block
}

// mountEntry is a line of a kernel's mount table.
type mountEntry struct {
	path       string // as the kernel names it
	target     target
	readOnly   bool
	filesystem *filesystem // nil: the device node is bound
}

func (h *Host) topMount(path string) *mountEntry {
	for i := len(h.mounts) - 1; i >= 0; i-- {
		if h.mounts[i].path == path {
			return h.mounts[i]
		}
	}
	return nil
}

// filesystemOn returns the mounted filesystem of a device, nil when it is not mounted. The lock is
// held.
func (h *Host) filesystemOn(number uint64) *filesystem {
	for _, m := range h.mounts {
		if m.filesystem != nil && m.target.number == number {
			return m.filesystem
		}
	}
	return nil
}

func (f *filesystem) frozen() bool {
	return f.freeze != nil && time.Now().Before(f.freeze.until)
}

// writeBack writes the oldest dirty page to the device. An error loses it, and stops the
// filesystem as errors=remount-ro does. The lock is held.
func (f *filesystem) writeBack() error {
	page := f.dirty[0]
	err := f.target.write(page.number, stampBlock(page.stamp))
	if errors.Is(err, errHangs) {
		return err
	}
	f.dirty = slices.Delete(f.dirty, 0, 1)
	if err != nil {
		f.fail()
	}
	return err
}

// sync makes all that was written durable. The lock is held.
func (f *filesystem) sync() error {
	if f.failed {
		return errIO
	}
	for len(f.dirty) > 0 {
		if err := f.writeBack(); err != nil {
			return err
		}
	}
	err := f.target.flush()
	if err != nil && !errors.Is(err, errHangs) {
		f.fail()
	}
	return err
}

// fail stops the filesystem: its dirty pages are lost.
func (f *filesystem) fail() { f.failed, f.dirty = true, nil }

// mount mounts a device at a path. The lock is held.
func (h *Host) mount(t target, path, fsType string, readOnly bool) error {
	if m := h.topMount(path); m != nil {
		return sameMount(m, t, false, readOnly)
	}
	f := h.filesystemOn(t.number)
	if f == nil {
		var err error
		if f, err = h.openFilesystem(t, fsType, readOnly); err != nil {
			return err
		}
	}
	h.mounts = append(h.mounts, &mountEntry{path: path, target: t, readOnly: readOnly, filesystem: f})
	return nil
}

// sameMount accepts what is mounted already as asked.
func sameMount(m *mountEntry, t target, node, readOnly bool) error {
	switch {
	case m.target.number != t.number || (m.filesystem == nil) != node:
		return fsm.Reject(fsm.Precondition, "something else is mounted on %s", m.path)
	case m.readOnly != readOnly:
		return fsm.Reject(fsm.Incompatible, "%s is mounted with read-only %v, not %v", m.path, m.readOnly, readOnly)
	}
	return nil
}

// openFilesystem reads the superblock. The lock is held.
func (h *Host) openFilesystem(t target, fsType string, readOnly bool) (*filesystem, error) {
	content, err := t.content()
	if err != nil {
		return nil, err
	}
	found, uuid, _, ok := parseSuperblock(content)
	if !ok || found != fsType {
		return nil, errors.New("mount: wrong fs type, bad superblock")
	}
	for _, other := range h.mounts {
		if fsType == "xfs" && other.filesystem != nil && other.filesystem.format.UUID == uuid {
			return nil, errors.New("mount: a filesystem with this UUID is mounted already")
		}
	}
	h.world.checkShown(t)
	return &filesystem{target: t, format: executor.Filesystem{Type: found, UUID: uuid}, readOnly: readOnly}, nil
}

// unmount ends the topmost mount of a device at a path. The last mount of a filesystem writes its
// dirty pages. The lock is held.
func (h *Host) unmount(t target, path string) error {
	i := slices.IndexFunc(h.mounts, func(m *mountEntry) bool { return m.path == path && m.target.number == t.number })
	if i < 0 {
		return nil
	}
	m := h.mounts[i]
	switch {
	case h.topMount(path) != m:
		return fsm.Reject(fsm.Busy, "something else is mounted over the volume on %s", path)
	case h.busy[path] || h.hasWriter(path):
		return fsm.Reject(fsm.Busy, "the mount on %s is in use", path)
	}
	if f := m.filesystem; f != nil && h.mountsOf(f) == 1 {
		if f.frozen() {
			return fsm.Reject(fsm.Busy, "the filesystem on %s is frozen", path)
		}
		if err := f.sync(); errors.Is(err, errHangs) {
			return err
		}
	}
	h.mounts = slices.Delete(h.mounts, i, i+1)
	return nil
}

func (h *Host) mountsOf(f *filesystem) (n int) {
	for _, m := range h.mounts {
		if m.filesystem == f {
			n++
		}
	}
	return n
}

func (h *Host) hasWriter(path string) bool {
	return slices.ContainsFunc(h.writers, func(w *Writer) bool { return !w.gone && w.path == path })
}
