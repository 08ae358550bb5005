package agent_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	importDevice = "nnggwi-ABJk-wXdF"
	importFSUUID = "0f3b8c1a-0000-4000-8000-00000000000a"
	importSize   = 64 << 20
)

// importPool is a pool with one device of others. It makes and removes nothing else.
type importPool struct {
	*backendtest.FakeBackend
	t                testing.TB
	open             atomic.Bool // somebody has the device open
	imports, returns atomic.Int64
}

var _ executor.ImportBackend = (*importPool)(nil)

func (p *importPool) Kind() string { return "lvm" }

func (p *importPool) Create(context.Context, fsm.VolumeID, int64) error {
	p.t.Error("what is imported is not made")
	return nil
}

func (p *importPool) Remove(context.Context, fsm.VolumeID) error {
	p.t.Error("what was imported is not removed")
	return nil
}

func (p *importPool) Candidates(context.Context) ([]executor.ImportCandidate, error) {
	return []executor.ImportCandidate{{Device: importDevice, Name: "data_00000", Size: importSize, Detail: "it is not active"}}, nil
}

func (p *importPool) Locate(context.Context, string) (executor.Device, error) {
	return executor.Device{Exists: true, Size: importSize, Path: "/dev/mapper/data_00000"}, nil
}

func (p *importPool) Import(ctx context.Context, id fsm.VolumeID, size int64, device string) error {
	if device != importDevice {
		return fsm.Reject(fsm.Precondition, "there is no %s", device)
	}
	if p.open.Load() {
		return fsm.Reject(fsm.InUse, "it is open")
	}
	p.imports.Add(1)
	return p.FakeBackend.Create(ctx, id, size)
}

func (p *importPool) GiveBack(ctx context.Context, id fsm.VolumeID, device string) error {
	require.Equal(p.t, importDevice, device)
	p.returns.Add(1)
	return p.FakeBackend.Remove(ctx, id)
}

func newImportHost(t testing.TB) (*testHost, *importPool) {
	w := newStoppedHost(t)
	pool := &importPool{FakeBackend: w.pool, t: t}
	w.configure = func(cfg *agent.Config) { cfg.Pools = []executor.Backend{pool} }
	return w, pool
}

func (w *testHost) startImport(id fsm.VolumeID, device string) {
	w.t.Helper()
	n := w.node()
	w.mounter.setContent(id, executor.Content{Read: true, Found: executor.Filesystem{Type: "ext4", UUID: importFSUUID}})
	w.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_ImportVolume{ImportVolume: &fsmpb.ImportVolume{
		VolumeId: string(id), Name: "imported", NodeId: string(n.ID), HostId: string(n.Host), PoolId: string(n.Pools[0].ID), DeviceId: device, DeviceName: "data_00000",
		SizeBytes: importSize, FsType: "ext4", FsUuid: importFSUUID,
	}}})
}

func (w *testHost) node() fsm.Node {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.state.Node("n1")
	require.True(w.t, ok)
	return *n
}

// S14, S15: killed at any point, a host takes the device in once, mounts what is on it, and gives it back. It never makes,
// removes or formats anything.
func TestS15_AnImportGoesOnWhereItsHostWasKilled(t *testing.T) {
	points := append(slices.Clone(agent.ImportFaultPoints), "", "report.before", "report.after", "attach.before", "probe.after", "record.before", "mount.before", "save-record.after")
	for _, point := range points {
		t.Run("at "+point, func(t *testing.T) {
			w, pool := newImportHost(t)
			f := stopAt(point, 0)
			o := &orchestrator{crashHost: w, t: t, f: f}
			o.e = w.start(f)
			id := backendtest.NewID()
			w.startImport(id, importDevice)
			o.await("it is imported", func() bool { return w.isReady(id) })
			epoch := w.publishVolume(id, mountCap)
			o.retry("stage", func(ctx context.Context, e *agent.Agent) error {
				return e.Stage(ctx, w.stageRequest(id, epoch, mountCap))
			})
			o.retry("unstage", func(ctx context.Context, e *agent.Agent) error { return e.Unstage(ctx, id, stagingPath) })
			o.await("the log knows that it is unstaged", func() bool { return w.publication(id).Staging == nil })
			require.NoError(t, w.unpublishVolume(id))
			w.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_ForgetImport{ForgetImport: &fsmpb.ForgetImport{VolumeId: string(id), DeviceId: importDevice}}})
			o.await("it was given back", func() bool { _, known := w.volume(id); return !known })
			require.Zero(t, w.mounter.count("mkfs"))
			require.Equal(t, 1, w.pool.Effects("create", id))
			require.Positive(t, pool.imports.Load())
			require.Positive(t, pool.returns.Load())
			if point != "" {
				f.mu.Lock()
				defer f.mu.Unlock()
				require.True(t, f.hits[point], point)
			}
		})
	}
}

// What is in use is waited for, and the operation says so; what is not there is given up at once.
func TestAnImportThatItsHostRefuses(t *testing.T) {
	w, pool := newImportHost(t)
	w.start(nil)
	pool.open.Store(true)
	id := backendtest.NewID()
	w.startImport(id, importDevice)
	w.eventually(func() bool { v, _ := w.volume(id); return v.Operation != nil && v.Operation.LastError != "" }, "the operation says why it waits")
	require.False(t, w.isReady(id))
	pool.open.Store(false)
	w.eventually(func() bool { return w.isReady(id) }, "it goes on by itself")

	missing, pool := newImportHost(t)
	missing.start(nil)
	id = backendtest.NewID()
	missing.startImport(id, "replaced")
	missing.eventually(func() bool { _, known := missing.volume(id); return !known }, "it is given up")
	require.Zero(t, pool.imports.Load())
}

func TestCandidatesSayWhatIsNotKnown(t *testing.T) {
	w, _ := newImportHost(t)
	w.start(nil)
	for range 2 {
		found, err := w.e.Candidates(t.Context())
		require.NoError(t, err)
		require.True(t, found.Candidates)
		require.Len(t, found.Items, 1)
		require.Equal(t, executor.KindCandidate, found.Items[0].Kind)
		require.Contains(t, found.Items[0].Candidate, "it is not active")
	}
	plain := newTestHost(t)
	found, err := plain.e.Candidates(t.Context())
	require.NoError(t, err)
	require.Empty(t, found.Items)
	require.True(t, found.Candidates, "it understood the question")
}
