package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fakeMounter is a host's mounts in memory. Like a kernel, it outlives Agents.
type fakeMounter struct {
	pool     *backendtest.FakeBackend
	replicas *backendtest.FakeReplicator // nil without replicated volumes
	peer     *fakeMounter                // of the host that has the same content
	// fail, when set, is called before each effect and may fail or delay it.
	fail func(effect, path string) error

	mu          sync.Mutex
	contents    map[fsm.VolumeID]executor.Content
	sizes       map[fsm.VolumeID]int64 // of filesystems
	mounts      []fakeMount
	targets     map[string]bool // target paths that exist
	foreign     map[string]bool // paths that hold something that the host did not make
	busy        map[string]bool
	condition   fsm.Condition // what Stats returns
	statsErr    error
	effects     map[string]int
	mountGroups []string // the group of each bind
	trimmed     []int64  // where each step of a trim began
	writers     []executor.Process
	killed      map[int]bool // by PID
}

type fakeMount struct {
	executor.Mount
	id fsm.VolumeID
}

var _ executor.Mounter = (*fakeMounter)(nil)

func newFakeMounter(pool *backendtest.FakeBackend) *fakeMounter {
	return &fakeMounter{pool: pool, contents: map[fsm.VolumeID]executor.Content{}, sizes: map[fsm.VolumeID]int64{}, targets: map[string]bool{}, foreign: map[string]bool{}, busy: map[string]bool{}, effects: map[string]int{}, killed: map[int]bool{}}
}

func (m *fakeMounter) setFail(fail func(effect, path string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

func (m *fakeMounter) effect(name, path string) error {
	m.mu.Lock()
	fail := m.fail
	m.mu.Unlock()
	if fail != nil {
		if err := fail(name, path); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.effects[name]++
	return nil
}

func (m *fakeMounter) count(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.effects[name]
}

func (m *fakeMounter) setBusy(path string, busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy[path] = busy
}

func (m *fakeMounter) setContent(id fsm.VolumeID, c executor.Content) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contents[id] = c
}

// leftovers lists what is mounted, and the paths that were made and still exist.
func (m *fakeMounter) leftovers() (mounts, paths []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.mounts {
		mounts = append(mounts, l.Path)
	}
	for path := range m.targets {
		paths = append(paths, path)
	}
	slices.Sort(mounts)
	return mounts, paths
}

func (m *fakeMounter) reboot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mounts = nil
}

func (m *fakeMounter) CheckMount(path, _ string, flags []string) error {
	if !strings.HasPrefix(path, "/") || slices.Contains(flags, "bad") {
		return fsm.Reject(fsm.Invalid, "the path or a flag is not allowed")
	}
	return nil
}

func (m *fakeMounter) RealPath(path string) (string, error) {
	return "/real" + strings.TrimRight(path, "/"), nil
}

func (m *fakeMounter) owner(device string) (fsm.VolumeID, error) {
	if id, ok := strings.CutPrefix(device, fakeMappingPrefix); ok {
		return fsm.VolumeID(id), nil
	}
	id, ok := m.pool.Owner(device)
	if m.replicas != nil && !ok {
		id, ok = m.replicas.Owner(device)
	}
	if !ok {
		return "", errors.New(device + " is no device")
	}
	return id, nil
}

func (m *fakeMounter) Probe(_ context.Context, device string, _ int64) (executor.Content, error) {
	if err := m.effect("probe", device); err != nil {
		return executor.Content{}, err
	}
	id, err := m.owner(device)
	if err != nil {
		return executor.Content{}, err
	}
	c, ok := m.contentOf(id)
	if !ok && m.peer != nil {
		c, ok = m.peer.contentOf(id)
	}
	if !ok {
		return executor.Content{Read: true, Empty: true}, nil
	}
	return c, nil
}

func (m *fakeMounter) contentOf(id fsm.VolumeID) (executor.Content, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.contents[id]
	return c, ok
}

func (m *fakeMounter) Format(_ context.Context, device string, fs executor.Filesystem, again bool) error {
	id, err := m.owner(device)
	if err != nil {
		return err
	}
	m.mu.Lock()
	_, full := m.contents[id]
	m.contents[id] = executor.Content{Read: true} // an unfinished format that no probe recognises
	m.mu.Unlock()
	if full && !again {
		return errors.New("mkfs: there is something on " + device)
	}
	if err := m.effect("mkfs", device); err != nil {
		return err
	}
	m.setContent(id, executor.Content{Read: true, Found: fs})
	return nil
}

func (m *fakeMounter) Mounts(_ context.Context, device executor.Device) ([]executor.Mount, error) {
	if !device.Active() {
		return nil, nil
	}
	id, err := m.owner(device.Path)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []executor.Mount
	for _, l := range m.mounts {
		if l.id == id {
			found = append(found, l.Mount)
		}
	}
	return found, nil
}

func (m *fakeMounter) add(effect string, device executor.Device, mount executor.Mount) error {
	id, err := m.owner(device.Path)
	if err != nil {
		return err
	}
	path := mount.Path
	mount.Path, _ = m.RealPath(path)
	m.mu.Lock()
	for _, l := range m.mounts {
		if l.Path == mount.Path {
			m.mu.Unlock()
			if l.id != id {
				return fsm.Reject(fsm.Precondition, "something else is mounted on %s", path)
			}
			return nil
		}
	}
	m.mu.Unlock()
	if err := m.effect(effect, path); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mounts = append(m.mounts, fakeMount{mount, id})
	return nil
}

// groups are the groups that were given everything, bind by bind.
func (m *fakeMounter) groups() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mountGroups)
}

func (m *fakeMounter) Mount(_ context.Context, device executor.Device, o executor.MountOptions) error {
	return m.add("mount", device, executor.Mount{Path: o.Path, ReadOnly: o.ReadOnly})
}

// setForeign puts something at a path that the host did not make.
func (m *fakeMounter) setForeign(path string, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.foreign[path] = there
}

// isMounted reports whether the volume is mounted at the path.
func (m *fakeMounter) isMounted(id fsm.VolumeID, path string) bool {
	realPath, _ := m.RealPath(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.mounts, func(l fakeMount) bool { return l.id == id && l.Path == realPath })
}

func (m *fakeMounter) CheckTarget(path string, _ bool) error {
	realPath, _ := m.RealPath(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.foreign[path] || slices.ContainsFunc(m.mounts, func(l fakeMount) bool { return l.Path == realPath }) {
		return fsm.Reject(fsm.Precondition, "the path %s holds something else", path)
	}
	return nil
}

func (m *fakeMounter) Bind(_ context.Context, device executor.Device, b executor.BindOptions) error {
	if err := m.effect("check", b.Path); err != nil {
		return err
	}
	m.mu.Lock()
	if m.foreign[b.Path] {
		m.mu.Unlock()
		return fsm.Reject(fsm.Precondition, "the path %s holds something else", b.Path)
	}
	m.targets[b.Path] = true
	if !slices.ContainsFunc(m.mounts, func(l fakeMount) bool { return l.Path == b.Path }) {
		m.mountGroups = append(m.mountGroups, b.MountGroup)
	}
	m.mu.Unlock()
	return m.add("bind", device, executor.Mount{Path: b.Path, DeviceNode: b.DeviceNode, ReadOnly: b.ReadOnly})
}

func (m *fakeMounter) Unmount(_ context.Context, device executor.Device, path string) error {
	id, err := m.owner(device.Path)
	if err != nil {
		return err
	}
	if err := m.effect("unmount", path); err != nil {
		return err
	}
	realPath, _ := m.RealPath(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[path] {
		return fsm.Reject(fsm.Busy, "the mount on %s is in use", path)
	}
	m.mounts = slices.DeleteFunc(m.mounts, func(l fakeMount) bool { return l.id == id && (l.Path == realPath || l.Path == path) })
	return nil
}

func (m *fakeMounter) Shutdown(_ context.Context, device executor.Device) error {
	return m.effect("shutdown", device.Path)
}

func (m *fakeMounter) setWriters(writers ...executor.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writers = writers
}

// Writers answers those that a test made. A killed one needs a moment until it runs no more.
func (m *fakeMounter) Writers(_ context.Context, device executor.Device) ([]executor.Process, error) {
	if err := m.effect("writers", device.Path); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	answer := slices.Clone(m.writers)
	for i, p := range m.writers {
		m.writers[i].Dying = p.Dying || m.killed[p.PID]
	}
	return answer, nil
}

func (m *fakeMounter) Kill(_ context.Context, p executor.Process) error {
	if err := m.effect("kill", p.Name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killed[p.PID] = true
	return nil
}

func (m *fakeMounter) RemoveTarget(_ context.Context, path string) error {
	if err := m.effect("rmdir", path); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.foreign[path] {
		return fsm.Reject(fsm.Precondition, "the path %s holds something else", path)
	}
	delete(m.targets, path)
	return nil
}

func (m *fakeMounter) Stats(_ context.Context, device executor.Device, _ string, block bool) (executor.VolumeStats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.condition.Abnormal || m.statsErr != nil {
		return executor.VolumeStats{Condition: m.condition}, m.statsErr
	}
	return executor.VolumeStats{Block: block, Bytes: executor.Usage{Total: device.Size}, Condition: fsm.Condition{Message: "mounted"}}, nil
}
