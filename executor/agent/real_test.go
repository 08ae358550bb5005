package agent_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/freeze"
	"github.com/holdfast-storage/holdfast/executor/loopfile"
	"github.com/holdfast-storage/holdfast/executor/mount"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// TestMain also lets this program be the process that thaws (S19).
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "thaw" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := freeze.Thaw(ctx, os.Args[2], os.Stdout)
		stop()
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // they wait more than they compute; -parallel overrides this
		panic(err)
	}
	os.Exit(m.Run())
}

// realHost is a host with loop devices, filesystems and mounts.
type realHost struct {
	*testCluster
	dir  string // everything of the host but its pool is below it
	pool string // but the pool
	e    *agent.Agent
	// faults stop e, nil when nothing does.
	faults *stopAtPoint
}

func newRealHost(t testing.TB) *realHost {
	return newRealHostOn(t, "")
}

// newRealHostOn has its pool in the named directory, if one is named.
func newRealHostOn(t testing.TB, pool string) *realHost {
	if os.Geteuid() != 0 {
		t.Skip("loop devices and mounts need root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("no loop devices on this machine: %v", err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	h := &realHost{testCluster: newTestCluster(t), dir: dir, pool: pool}
	if pool == "" {
		h.pool = filepath.Join(dir, "pool")
	}
	_, err = loopfile.Init(h.poolDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "kubelet", "staging"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "kubelet", "pod"), 0o755))
	t.Cleanup(h.clean)
	return h
}

func (h *realHost) poolDir() string { return h.pool }

func (h *realHost) build(faults agent.Faults, log executor.Proposer) *agent.Agent {
	h.t.Helper()
	host, err := records.OpenHost(filepath.Join(h.dir, "data"))
	require.NoError(h.t, err)
	pool, err := loopfile.Open(loopfile.Config{Dir: h.poolDir(), KnownID: host.PoolAt(h.poolDir())})
	require.NoError(h.t, err)
	require.NoError(h.t, host.RememberPool(h.poolDir(), pool.ID()))
	mounter, err := mount.New(mount.Config{Roots: []string{h.dir}, Runner: run.New()})
	require.NoError(h.t, err)
	freezer, err := freeze.New(freeze.Config{Dir: filepath.Join(h.dir, "data", "frozen"), Program: []string{"/proc/self/exe", "thaw"}})
	require.NoError(h.t, err)
	e, err := agent.New(agent.Config{
		Node: "n1", Host: host, Pools: []executor.Backend{pool}, Mounter: mounter, Proposer: log, Faults: faults,
		Freezer: freezer, FilesystemTools: mounter,
		FeatureLevel: fsm.MaxFeatureLevel, OvercommitPercent: 2000, Logger: testLogger(h.t),
	})
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		if f, ok := faults.(*stopAtPoint); ok && f.isStopped() {
			return // a process with a freeze still holds it
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = e.Shutdown(ctx)
		_ = mounter.Close()
	})
	return e
}

func (h *realHost) start(faults agent.Faults) *agent.Agent {
	h.t.Helper()
	h.faults, _ = faults.(*stopAtPoint)
	h.e = h.build(faults, h.testCluster)
	h.e.Start()
	h.connectHost(h.e)
	return h.e
}

// shutdownTimeout is how long the process is waited for: what it still does must not meet what cleans
// up after it. One that was killed at a point never ends.
func (h *realHost) shutdownTimeout() time.Duration {
	if h.faults != nil && h.faults.isStopped() {
		return 100 * time.Millisecond
	}
	return time.Minute
}

// clean takes down whatever a test left, and fails the test when that is impossible.
func (h *realHost) clean() {
	h.disconnectHost()
	if h.e != nil {
		ctx, cancel := context.WithTimeout(context.Background(), h.shutdownTimeout())
		_ = h.e.Shutdown(ctx)
		cancel()
	}
	require.NoError(h.t, h.build(nil, nil).Clean(context.Background()))
	require.Empty(h.t, h.kernelLeftovers())
}

// kernelLeftovers lists the devices and mounts of this host that the kernel knows.
func (h *realHost) kernelLeftovers() []string {
	var found []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(h.t, err)
	for _, line := range strings.Split(string(mounts), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], h.dir+"/") {
			found = append(found, "mount "+strings.TrimPrefix(fields[4], h.dir))
		}
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(h.t, err)
	for _, loop := range loops {
		if text, err := os.ReadFile(loop); err == nil && strings.HasPrefix(string(text), h.pool+"/") {
			found = append(found, "loop")
		}
	}
	return found
}

func (h *realHost) controllers() *testCluster { return h.testCluster }

func (h *realHost) paths() (string, string) {
	return filepath.Join(h.dir, "kubelet/staging"), filepath.Join(h.dir, "kubelet/pod/target")
}

func (h *realHost) requireConsistent(fsm.VolumeID) {
	h.t.Helper()
	count := map[string]int{}
	for _, found := range h.kernelLeftovers() {
		count[found]++
		require.Equal(h.t, 1, count[found], found)
	}
}

func (h *realHost) requireNothingLeft() {
	h.t.Helper()
	h.eventually(func() bool { return len(h.kernelLeftovers()) == 0 }, "no device and no mount is left")
	for _, dir := range []string{
		h.pool + "/volumes", h.pool + "/snapshots", h.pool + "/tmp",
		h.dir + "/kubelet/pod", h.dir + "/data/volumes", h.dir + "/data/snapshots", h.dir + "/data/frozen",
	} {
		h.eventually(func() bool {
			entries, err := os.ReadDir(dir)
			return err == nil && len(entries) == 0
		}, dir+" is empty")
	}
}

// TestACrashAtEveryPoint with real devices, filesystems and mounts. The short form has the fake
// host's only.
func TestACrashAtEveryPointOnARealHost(t *testing.T) {
	if testing.Short() {
		t.Skip("killing a host with real filesystems at every point takes most of a minute")
	}
	for _, point := range volumePoints() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newRealHost(t)
			f := stopAt(point, 0)
			o := &orchestrator{crashHost: h, t: t, f: f}
			o.e = h.start(f)
			o.volumeLife(mountCap)
			require.NotSame(t, f, o.f, "it was killed once")
		})
	}
}

// retryTimeout is for how long an orchestrator of these tests repeats a call.
const retryTimeout = 2 * time.Minute

// retry repeats a call as an orchestrator does, unless it was refused for a reason that stays: another program may hold
// a device for a moment, and then the kernel, or e2fsck, does not take it.
func (h *realHost) retry(what string, call func() error) {
	h.t.Helper()
	for deadline := time.Now().Add(retryTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := call()
		if err == nil {
			return
		}
		h.t.Logf("%s: %v", what, err)
		if reason := reasonOf(err); reason != 0 && reason != fsm.Busy || time.Now().After(deadline) {
			require.NoError(h.t, err, what)
		}
	}
}

func (h *realHost) mustStage(req executor.StageRequest) {
	h.t.Helper()
	h.retry("stage", func() error { return h.e.Stage(h.t.Context(), req) })
}

func (h *realHost) mustUnstage(id fsm.VolumeID, path string) {
	h.t.Helper()
	h.retry("unstage", func() error { return h.e.Unstage(h.t.Context(), id, path) })
}

func (h *realHost) requests(id fsm.VolumeID, epoch fsm.Epoch, c fsm.Capability) (executor.StageRequest, executor.PublishTargetRequest) {
	staging, target := h.paths()
	return executor.StageRequest{Volume: id, Epoch: epoch, Path: staging, Capability: c},
		executor.PublishTargetRequest{Volume: id, Epoch: epoch, StagingPath: staging, TargetPath: target, Capability: c}
}

func TestRealVolumeLifecycle(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{
		"ext4": {Mode: writer, FSType: "ext4"},
		"xfs":  {Mode: writer, FSType: "xfs"},
		"raw":  {Mode: writer, Block: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRealHost(t)
			e := h.start(nil)
			id := backendtest.NewID()
			h.create(id, capability)
			stage, publish := h.requests(id, h.publishVolume(id, capability), capability)
			for range 10 {
				h.mustStage(stage)
			}
			for range 10 {
				require.NoError(t, e.PublishTarget(t.Context(), publish))
			}
			h.requireConsistent(id)
			data := publish.TargetPath
			if !capability.Block {
				data = filepath.Join(data, "data")
				require.NoError(t, os.WriteFile(data, nil, 0o600))
			}
			write(t, data, "written before the restart")

			h.disconnectHost()
			require.NoError(t, e.Shutdown(t.Context()))
			e = h.start(nil)
			h.mustStage(stage)
			require.Contains(t, read(t, data), "written before the restart")

			require.NoError(t, e.UnpublishTarget(t.Context(), id, publish.TargetPath))
			h.mustUnstage(id, stage.Path)
			require.Empty(t, h.kernelLeftovers())
			h.mustStage(stage)
			require.NoError(t, e.PublishTarget(t.Context(), publish))
			require.Contains(t, read(t, data), "written before the restart")
			require.NoError(t, e.UnpublishTarget(t.Context(), id, publish.TargetPath))
			h.mustUnstage(id, stage.Path)
			require.NoError(t, h.unpublishVolume(id))
			require.NoError(t, h.deleteVolume(id))
			h.eventually(func() bool { _, known := h.volume(id); return !known }, "it is gone")
			h.requireNothingLeft()
		})
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(text), 0)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
}

func read(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	text := make([]byte, 64)
	_, _ = f.ReadAt(text, 0)
	return string(text)
}

func TestAReadOnlyPublicationCannotBeWritten(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{
		"a filesystem": {Mode: reader, FSType: "ext4"},
		"a raw device": {Mode: reader, Block: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRealHost(t)
			e := h.start(nil)
			id := backendtest.NewID()
			h.create(id, capability)
			stage, publish := h.requests(id, h.publishVolume(id, capability), capability)
			publish.ReadOnly = true
			for range 2 {
				h.mustStage(stage)
				require.NoError(t, e.PublishTarget(t.Context(), publish))
			}
			path := publish.TargetPath
			if !capability.Block {
				require.Error(t, os.WriteFile(filepath.Join(path, "x"), nil, 0o600))
				return
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt([]byte("x"), 0)
				f.Close()
			}
			require.Error(t, err)
		})
	}
}

// CSI-NODE-NodeUnstageVolume-10: an open file.
func TestABusyFilesystemStaysStaged(t *testing.T) {
	h := newRealHost(t)
	e := h.start(nil)
	id := backendtest.NewID()
	h.create(id, mountCap)
	stage, publish := h.requests(id, h.publishVolume(id, mountCap), mountCap)
	h.mustStage(stage)
	require.NoError(t, e.PublishTarget(t.Context(), publish))
	f, err := os.Create(filepath.Join(publish.TargetPath, "open"))
	require.NoError(t, err)
	for range 2 {
		require.Equal(t, fsm.Busy, reasonOf(e.UnpublishTarget(t.Context(), id, publish.TargetPath)))
		require.Equal(t, fsm.Precondition, reasonOf(e.Unstage(t.Context(), id, stage.Path)))
	}
	s, err := e.VolumeStats(t.Context(), id, publish.TargetPath)
	require.NoError(t, err)
	require.Positive(t, s.Bytes.Available)
	require.NoError(t, f.Close())
	require.NoError(t, e.UnpublishTarget(t.Context(), id, publish.TargetPath))
	h.mustUnstage(id, stage.Path)
	require.Empty(t, h.kernelLeftovers())
}

func TestS12_AnUnmountedPoolCreatesNothing(t *testing.T) {
	h := newRealHost(t)
	e := h.start(nil)
	kept := backendtest.NewID()
	h.create(kept, mountCap)
	require.NoError(t, os.Rename(h.poolDir(), h.poolDir()+".away")) // as an unmount does
	require.NoError(t, os.Mkdir(h.poolDir(), 0o700))
	id := backendtest.NewID()
	h.startCreate(id, mountCap)
	h.eventually(func() bool { v, _ := h.volume(id); return v.Operation.Attempts > 0 }, "it says why")
	require.True(t, e.PoolFacts(t.Context())[0].Absent)
	entries, err := os.ReadDir(h.poolDir())
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, os.Remove(h.poolDir()))
	require.NoError(t, os.Rename(h.poolDir()+".away", h.poolDir()))
	h.eventually(func() bool { return h.isReady(id) }, "made when it is back")
}
