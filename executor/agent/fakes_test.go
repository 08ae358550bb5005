package agent_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	_ executor.FilesystemTools = (*fakeMounter)(nil)
	_ executor.Freezer         = (*fakeFreezer)(nil)
	_ executor.Throttle        = (*fakeThrottle)(nil)
)

// fakeFreezer is the frozen filesystems of a kernel. It outlives Agents.
type fakeFreezer struct {
	mu       sync.Mutex
	frozen   map[string]*fakeFreeze
	freezes  int
	onFreeze func()                // called after a freeze
	left     map[fsm.VolumeID]bool // an earlier process left them frozen
}

func newFakeFreezer() *fakeFreezer {
	return &fakeFreezer{frozen: map[string]*fakeFreeze{}, left: map[fsm.VolumeID]bool{}}
}

type fakeFreeze struct {
	freezer *fakeFreezer
	path    string
	until   time.Time
	began   time.Time
}

func (f *fakeFreezer) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.frozen)
}

// isFrozen reports whether the filesystem at the path is frozen.
func (f *fakeFreezer) isFrozen(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen[path] != nil
}

func (f *fakeFreezer) Frozen(id fsm.VolumeID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left[id]
}

func (f *fakeFreezer) Freeze(_ context.Context, _ fsm.VolumeID, path string, until time.Time) (executor.Freeze, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onFreeze != nil {
		defer f.onFreeze()
	}
	if f.frozen[path] != nil {
		return nil, errors.New(path + " is frozen already")
	}
	f.freezes++
	z := &fakeFreeze{freezer: f, path: path, until: until, began: time.Now()}
	f.frozen[path] = z
	return z, nil
}

func (f *fakeFreezer) Recover(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.frozen)
	return nil
}

func (z *fakeFreeze) holds() bool {
	z.freezer.mu.Lock()
	defer z.freezer.mu.Unlock()
	return z.freezer.frozen[z.path] == z && time.Now().Before(z.until)
}

func (z *fakeFreeze) Run(ctx context.Context, taken func(context.Context) error) error {
	if !z.holds() {
		return errors.New("the freeze has ended")
	}
	if err := taken(ctx); err != nil {
		return err
	}
	if !z.holds() {
		return errors.New("the freeze ended during the cut")
	}
	return nil
}

func (z *fakeFreeze) Thaw(context.Context) error {
	z.freezer.mu.Lock()
	defer z.freezer.mu.Unlock()
	if z.freezer.frozen[z.path] == z {
		delete(z.freezer.frozen, z.path)
	}
	return nil
}

func (z *fakeFreeze) Elapsed() time.Duration { return time.Since(z.began) }

// fakeThrottle is a host's limits, by device.
type fakeThrottle struct {
	mu      sync.Mutex
	limits  map[string]fsm.Limits
	applied int
	fail    error
}

func newFakeThrottle() *fakeThrottle { return &fakeThrottle{limits: map[string]fsm.Limits{}} }

func (f *fakeThrottle) Apply(_ context.Context, device executor.Device, limits fsm.Limits) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	f.applied++
	if limits == (fsm.Limits{}) {
		delete(f.limits, device.Path)
		return nil
	}
	f.limits[device.Path] = limits
	return nil
}

func (f *fakeThrottle) all() []fsm.Limits {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []fsm.Limits
	for _, l := range f.limits {
		all = append(all, l)
	}
	return all
}

// copyContent makes a clone's device hold what its source's did.
func (m *fakeMounter) copyContent(from, to fsm.VolumeID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contents[to], m.sizes[to] = m.contents[from], m.sizes[from]
}

func (m *fakeMounter) ExpandFilesystem(_ context.Context, device executor.Device, _, path string) error {
	if err := m.effect("grow-filesystem", path); err != nil {
		return err
	}
	id, err := m.owner(device.Path)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sizes[id] = device.Size
	return nil
}

func (m *fakeMounter) ChangeUUID(_ context.Context, device executor.Device, format executor.Filesystem) error {
	if err := m.effect("identity", device.Path); err != nil {
		return err
	}
	id, err := m.owner(device.Path)
	if err != nil {
		return err
	}
	m.setContent(id, executor.Content{Read: true, Found: format})
	return nil
}

// trimSteps is how many steps a trim of a filesystem in memory has.
const trimSteps = 3

func (m *fakeMounter) Trim(ctx context.Context, device executor.Device, t executor.TrimOptions) error {
	id, err := m.owner(device.Path)
	if err != nil {
		return err
	}
	if realPath, _ := m.RealPath(t.Path); t.Path != "" && !m.isMounted(id, t.Path) {
		return fsm.Reject(fsm.Precondition, "%s is not mounted on %s", id, realPath)
	}
	for at := t.From; at < trimSteps*t.Step; at += t.Step {
		if err := t.Before(ctx, at); err != nil {
			return err
		}
		if err := m.effect("trim", t.Path); err != nil {
			return err
		}
		m.mu.Lock()
		m.trimmed = append(m.trimmed, at)
		m.mu.Unlock()
	}
	m.pool.DiscardZeros(id)
	return nil
}

// trims lists the offsets of the steps that were trimmed.
func (m *fakeMounter) trims() []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.trimmed)
}

func (m *fakeMounter) FilesystemSize(_ context.Context, device executor.Device, _ string) (int64, error) {
	id, err := m.owner(device.Path)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if size := m.sizes[id]; size != 0 {
		return size, nil
	}
	return testSize - 4096, nil // filesystems round down
}
