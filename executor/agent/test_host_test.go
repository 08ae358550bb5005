package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	mountCap = fsm.Capability{Mode: writer, FSType: "ext4"}
	blockCap = fsm.Capability{Mode: writer, Block: true}
)

// testHost is a cluster and one host with a pool in memory.
type testHost struct {
	*testCluster
	dir      string
	pool     *backendtest.FakeBackend
	mounter  *fakeMounter
	freezer  *fakeFreezer
	throttle *fakeThrottle
	e        *agent.Agent
	host     *records.Host
	boot     string // replaces the kernel's when it is set

	resync, maxFreeze, health time.Duration
	configure                 func(*agent.Config)
}

// memoryDir is a new folder in memory, where there is one: the fake hosts lose processes, never
// what they wrote, so that their records prove nothing about a disk. The tests of real hosts and
// of package records are about that.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "holdfast-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newTestHost(t testing.TB) *testHost {
	w := newStoppedHost(t)
	w.start(nil)
	return w
}

// start starts the node process: a new Agent on the same data directory and kernel.
func (w *testHost) start(faults agent.Faults) *agent.Agent {
	w.t.Helper()
	w.build(faults, w.testCluster)
	w.e.Start()
	w.connectHost(w.e)
	return w.e
}

func (w *testHost) build(faults agent.Faults, log executor.Proposer) {
	w.t.Helper()
	host, err := records.OpenHost(w.dir)
	require.NoError(w.t, err)
	if w.boot != "" {
		host.BootID = w.boot
	}
	w.host = host
	cfg := agent.Config{
		Node: "n1", Host: host, Pools: []executor.Backend{w.pool}, Mounter: w.mounter, Proposer: log, Faults: faults,
		Freezer: w.freezer, FilesystemTools: w.mounter, Throttle: w.throttle, MaxFreeze: w.maxFreeze, HealthInterval: w.health,
		ResyncInterval: w.resync, CatchUpTimeout: 300 * time.Millisecond, FeatureLevel: fsm.MaxFeatureLevel, OvercommitPercent: 2000, Logger: testLogger(w.t),
	}
	if w.configure != nil {
		w.configure(&cfg)
	}
	e, err := agent.New(cfg)
	require.NoError(w.t, err)
	w.e = e
	w.t.Cleanup(func() {
		if f, ok := faults.(*stopAtPoint); ok && f.isStopped() {
			return // it cannot be stopped any more
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.Shutdown(ctx)
	})
}

// restart stops the Agent as a SIGTERM does, and starts another.
func (w *testHost) restart() {
	w.t.Helper()
	w.stop()
	w.start(nil)
}

func (w *testHost) stop() {
	w.t.Helper()
	w.disconnectHost()
	require.NoError(w.t, w.e.Shutdown(w.t.Context()))
}

const (
	stagingPath = "/kubelet/staging"
	targetPath  = "/kubelet/pod/target"
)

func (w *testHost) stageRequest(id fsm.VolumeID, epoch fsm.Epoch, capability fsm.Capability) executor.StageRequest {
	return executor.StageRequest{Volume: id, Epoch: epoch, Path: stagingPath, Capability: capability}
}

func (w *testHost) publishRequest(id fsm.VolumeID, epoch fsm.Epoch, capability fsm.Capability) executor.PublishTargetRequest {
	return executor.PublishTargetRequest{
		Volume: id, Epoch: epoch, StagingPath: stagingPath, TargetPath: targetPath, Capability: capability, Fingerprint: "abcd",
	}
}

// staged is a volume that is created, published and staged.
func (w *testHost) staged(capability fsm.Capability) (fsm.VolumeID, fsm.Epoch) {
	w.t.Helper()
	id := backendtest.NewID()
	w.create(id, capability)
	epoch := w.publishVolume(id, capability)
	require.NoError(w.t, w.e.Stage(w.t.Context(), w.stageRequest(id, epoch, capability)))
	return id, epoch
}

// hasSnapshot reports whether the pool has the snapshot.
func (w *testHost) hasSnapshot(id fsm.SnapshotID) bool {
	_, exists := w.pool.SnapshotContent(id)
	return exists
}

func (w *testHost) snapshotContains(id fsm.SnapshotID, text string) bool {
	content, _ := w.pool.SnapshotContent(id)
	return content.Contains(text)
}

// requireNothingLeft: no image, no device, no mount, no path that was made, no record.
func (w *testHost) requireNothingLeft() {
	w.t.Helper()
	w.eventually(func() bool { return w.pool.Images() == 0 && w.pool.ActiveDevices() == 0 }, "no image and no device is left")
	mounts, paths := w.mounter.leftovers()
	require.Empty(w.t, mounts)
	require.Empty(w.t, paths)
	w.eventually(func() bool { return len(w.records()) == 0 }, "no record is left")
	w.eventually(func() bool { return w.pool.Snapshots() == 0 }, "no snapshot is left")
	require.Zero(w.t, w.freezer.count(), "nothing is frozen")
	require.Empty(w.t, w.throttle.all(), "no limit is left on a device")
}

func (w *testHost) records() []string {
	var names []string
	for _, dir := range []string{"volumes", "snapshots"} {
		entries, err := os.ReadDir(filepath.Join(w.dir, dir))
		require.NoError(w.t, err)
		for _, e := range entries {
			names = append(names, strings.TrimSuffix(e.Name(), ".rec"))
		}
	}
	return names
}
