package executor_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	mountCap = fsm.Capability{Mode: writer, FSType: "ext4"}
	blockCap = fsm.Capability{Mode: writer, Block: true}
)

// world is a cluster and one host with a pool in memory.
type world struct {
	*cluster
	dir   string
	pool  *backendtest.Fake
	mount *fakeMounter
	ice   *fakeFreezer
	limit *fakeThrottle
	e     *executor.Executor
	host  *executor.Host
	boot  string // another than the kernel's when it is set

	recheck, freezeMax, health time.Duration
	change                     func(*executor.Config)
}

func newWorld(t testing.TB) *world {
	w := newStoppedWorld(t)
	w.start(nil)
	return w
}

// start is the node process starting: a new executor on the same folder and kernel.
func (w *world) start(faults executor.Faults) *executor.Executor {
	w.t.Helper()
	w.build(faults, w.cluster)
	w.e.Start()
	w.attach(w.e)
	return w.e
}

func (w *world) build(faults executor.Faults, log executor.Log) {
	w.t.Helper()
	host, err := executor.OpenHost(w.dir)
	require.NoError(w.t, err)
	if w.boot != "" {
		host.Boot = w.boot
	}
	w.host = host
	cfg := executor.Config{
		Node: "n1", Host: host, Pools: []executor.Backend{w.pool}, Mounter: w.mount, Log: log, Faults: faults,
		Freezer: w.ice, Grower: w.mount, Throttle: w.limit, FreezeMax: w.freezeMax, HealthEvery: w.health,
		RecheckEvery: w.recheck, Patience: 300 * time.Millisecond, FeatureLevel: fsm.MaxFeatureLevel, OvercommitPercent: 2000, Logger: testLogger(w.t),
	}
	if w.change != nil {
		w.change(&cfg)
	}
	e, err := executor.New(cfg)
	require.NoError(w.t, err)
	w.e = e
	w.t.Cleanup(func() {
		if f, ok := faults.(*freezer); ok && f.isDead() {
			return // it cannot stop any more
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.Shutdown(ctx)
	})
}

// restart stops the executor as a SIGTERM does, and starts another.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start(nil)
}

func (w *world) stop() {
	w.t.Helper()
	w.detach()
	require.NoError(w.t, w.e.Shutdown(w.t.Context()))
}

func testLogger(t testing.TB) *slog.Logger {
	if os.Getenv("HOLDFAST_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("test", t.Name())
}

const (
	stagingPath = "/kubelet/staging"
	targetPath  = "/kubelet/pod/target"
)

func (w *world) stageRequest(id fsm.VolumeID, epoch fsm.Epoch, capability fsm.Capability) executor.StageRequest {
	return executor.StageRequest{Volume: id, Epoch: epoch, Path: stagingPath, Capability: capability}
}

func (w *world) publishRequest(id fsm.VolumeID, epoch fsm.Epoch, capability fsm.Capability) executor.PublishRequest {
	return executor.PublishRequest{
		Volume: id, Epoch: epoch, StagingPath: stagingPath, TargetPath: targetPath, Capability: capability, Fingerprint: "abcd",
	}
}

// staged is a volume that is created, published and staged.
func (w *world) staged(capability fsm.Capability) (fsm.VolumeID, fsm.Epoch) {
	w.t.Helper()
	id := backendtest.NewID()
	w.create(id, capability)
	epoch := w.publishVolume(id, capability)
	require.NoError(w.t, w.e.Stage(w.t.Context(), w.stageRequest(id, epoch, capability)))
	return id, epoch
}

// nothingIsLeft: no image, no device, no mount, no path that was made, no record.
func (w *world) nothingIsLeft() {
	w.t.Helper()
	w.eventually(func() bool { return w.pool.Images() == 0 && w.pool.Attached() == 0 }, "no image and no device is left")
	mounts, paths := w.mount.left()
	require.Empty(w.t, mounts)
	require.Empty(w.t, paths)
	w.eventually(func() bool { return len(w.records()) == 0 }, "no record is left")
	w.eventually(func() bool { return w.pool.Snapshots() == 0 }, "no snapshot is left")
	require.Zero(w.t, w.ice.count(), "nothing is frozen")
	require.Empty(w.t, w.limit.all(), "no limit is left on a device")
}

func (w *world) records() []string {
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
