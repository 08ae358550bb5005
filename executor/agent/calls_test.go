package agent_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

func withTimeout(t testing.TB, ms int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), time.Duration(ms)*time.Millisecond)
}

// blockEffect blocks one effect until resume is called.
func (w *testHost) blockEffect(effect string) (reached <-chan struct{}, resume func()) {
	at, release := make(chan struct{}, 16), make(chan struct{})
	w.mounter.fail = func(name, _ string) error {
		if name == effect {
			at <- struct{}{}
			<-release
		}
		return nil
	}
	return at, func() { close(release) }
}

// S121: also the same call again.
func TestASecondCallForAVolumeIsBusy(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	reached, resume := w.blockEffect("mkfs")
	first := make(chan error, 1)
	go func() { first <- w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)) }()
	<-reached
	for range 2 {
		require.Equal(t, fsm.Busy, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))), "also the same call")
		require.Equal(t, fsm.Busy, reasonOf(w.e.Unstage(t.Context(), id, stagingPath)))
		require.Equal(t, fsm.Busy, reasonOf(w.e.UnpublishTarget(t.Context(), id, targetPath)))
	}
	resume()
	require.NoError(t, <-first)
	require.Equal(t, 1, w.mounter.count("mkfs"))
}

// S121: the work of a call whose caller gave up continues, and its retry joins it.
func TestWorkOutlivesItsCallerAndARetryJoinsIt(t *testing.T) {
	synctest.Test(t, testWorkOutlivesItsCallerAndARetryJoinsIt)
}

func testWorkOutlivesItsCallerAndARetryJoinsIt(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	reached, resume := w.blockEffect("mkfs")
	ctx, cancel := withTimeout(t, 1000)
	defer cancel()
	require.Equal(t, fsm.Busy, reasonOf(w.e.Stage(ctx, w.stageRequest(id, epoch, mountCap))))
	require.NoError(t, ctx.Err(), "it is told before its deadline")
	<-reached
	require.Equal(t, fsm.Busy, reasonOf(w.e.Unstage(t.Context(), id, stagingPath)), "another call does not join")
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	require.Error(t, w.e.Stage(gone, w.stageRequest(id, epoch, mountCap)))
	joined := make(chan error, 1)
	go func() { joined <- w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)) }()
	resume()
	require.NoError(t, <-joined)
	require.Equal(t, 1, w.mounter.count("mkfs"))
	require.Equal(t, 1, w.mounter.count("mount"))
}

// S126: the CO believes that the volume is staged, but the host was rebooted.
func TestARebootEndsWhatWasUp(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id, epoch := w.staged(capability)
			require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
			w.stop()
			w.pool.Reboot()
			w.mounter.reboot()
			w.boot = "another-boot"
			w.start(nil)
			w.eventually(func() bool { return w.publication(id).Staging == nil }, "the host says what it observes")
			require.Equal(t, fsm.Precondition, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability))))
			require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, capability)))
			require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
		})
	}
}

func TestARestartAdoptsWhatIsUp(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id, epoch := w.staged(capability)
			require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
			before, _ := w.mounter.leftovers()
			for range 2 {
				w.restart()
				require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, capability)))
				require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
			}
			after, _ := w.mounter.leftovers()
			require.Equal(t, before, after)
			require.Equal(t, 1, w.pool.Effects("attach", id))
			require.Equal(t, 1, w.pool.ActiveDevices(), "what is staged stays attached when the node stops")
		})
	}
}

func TestAnUnusedDeviceIsDeactivated(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	_, err := w.pool.Activate(t.Context(), id, false)
	require.NoError(t, err)
	w.restart()
	w.eventually(func() bool { return w.pool.ActiveDevices() == 0 }, "each staged volume has one device, the others none")
}

func TestShutdownDeactivatesWhatIsNotStaged(t *testing.T) {
	w := newTestHost(t)
	w.staged(mountCap)
	id := backendtest.NewID()
	w.create(id, mountCap)
	w.disconnectHost()
	_, err := w.pool.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, w.e.Shutdown(t.Context()))
	require.Equal(t, 1, w.pool.ActiveDevices())
	require.True(t, isUnavailable(w.e.Stage(t.Context(), w.stageRequest(id, fsm.Epoch{}, mountCap))), "it is stopping")
}

func TestCleanTakesEverythingDownWithoutALog(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	w.stop()
	w.build(nil, nil)
	for range 2 {
		require.NoError(t, w.e.Clean(t.Context()))
		mounts, paths := w.mounter.leftovers()
		require.Empty(t, mounts)
		require.Empty(t, paths)
		require.Zero(t, w.pool.ActiveDevices())
		require.Equal(t, 1, w.pool.Images(), "images stay")
	}
	w.start(nil)
	w.eventually(func() bool { return w.publication(id).Staging == nil }, "and says so when it can")
}

type unkillable struct{ ended chan struct{} }

func (s unkillable) Error() string { return "mkfs does not end although it was killed" }

func (s unkillable) Stuck() <-chan struct{} { return s.ended }

func TestAVolumeWithAnUnkillableCommandIsParked(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	child := unkillable{make(chan struct{})}
	w.mounter.fail = func(effect, _ string) error {
		if effect == "mkfs" {
			return child
		}
		return nil
	}
	require.ErrorAs(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)), &child)
	w.mounter.fail = nil
	for range 2 {
		require.Equal(t, fsm.Busy, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	}
	require.Equal(t, 1, w.pool.ActiveDevices(), "its device is not touched")
	close(child.ended)
	w.eventually(func() bool { return w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)) == nil }, "it goes on")
}

func TestAFailedCreateSaysWhyAndWhetherSpaceWasShort(t *testing.T) {
	for name, failure := range map[string]error{
		"the pool had no space":       syscall.ENOSPC,
		"the pool takes nothing more": fsm.Reject(fsm.NoCapacity, "its metadata is nearly full"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			w.pool.SetFail(func(effect string, _ fsm.VolumeID) error {
				if effect == "create" {
					return failure
				}
				return nil
			})
			id := backendtest.NewID()
			w.startCreate(id, mountCap)
			w.eventually(func() bool {
				why := w.failedOperation(string(id))
				return why != nil && why.Reason == fsm.NoCapacity
			}, "it failed for good, for want of space")
			w.eventually(func() bool { _, known := w.volume(id); return !known }, "S74: nothing is left of it")
		})
	}
}

func TestAFailedStepIsRetried(t *testing.T) {
	w := newTestHost(t)
	left := 2
	w.pool.SetFail(func(effect string, _ fsm.VolumeID) error {
		if left--; effect == "create" && left >= 0 {
			return errors.New("not now")
		}
		return nil
	})
	id := backendtest.NewID()
	w.create(id, mountCap)
	v, _ := w.volume(id)
	require.Nil(t, v.Operation)
	require.Equal(t, 1, w.pool.Effects("create", id))
}

func TestOnlyChangesAreReported(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	w.eventually(func() bool { return w.publication(id).Targets[0].Done }, "all is told")
	before := w.proposals()
	for range 3 {
		w.mu.Lock()
		w.e.Update(w.full())
		w.mu.Unlock()
		require.NoError(t, w.e.Unstage(t.Context(), id, "/elsewhere"))
	}
	require.Equal(t, before, w.proposals())
}

func TestManyVolumesShareReports(t *testing.T) {
	w := newTestHost(t)
	const n = 100
	var ids []fsm.VolumeID
	for range n {
		ids = append(ids, backendtest.NewID())
		w.startCreate(ids[len(ids)-1], mountCap)
	}
	for _, id := range ids {
		w.eventually(func() bool { return w.isReady(id) }, "each is ready")
		require.Equal(t, 1, w.pool.Effects("create", id))
	}
}

// A child process is killed once at a point that is named in a file or in the environment.
func TestFaultsFromEnvKillOnce(t *testing.T) {
	if dir := os.Getenv("HOLDFAST_TEST_FAULT_DIR"); dir != "" {
		agent.FaultsFromEnv(dir).Hit("mkfs.before")
		agent.FaultsFromEnv(dir).Hit("mkfs.after")
		return
	}
	run := func(dir string, env ...string) error {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestFaultsFromEnvKillOnce$")
		cmd.Env = append(os.Environ(), append(env, "HOLDFAST_TEST_FAULT_DIR="+dir)...)
		return cmd.Run()
	}
	killed := func(err error) bool {
		var exit *exec.ExitError
		return errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	}
	dir := t.TempDir()
	require.NoError(t, run(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fault"), []byte("mkfs.after\n"), 0o600))
	require.True(t, killed(run(dir)))
	require.NoFileExists(t, filepath.Join(dir, "fault"))
	require.NoError(t, run(dir))
	dir = t.TempDir()
	require.True(t, killed(run(dir, "HOLDFAST_FAULT=mkfs.before")))
	require.NoError(t, run(dir, "HOLDFAST_FAULT=mkfs.before"), "the point is disarmed in this folder")
}

func TestMountFlagsAreNeverWrittenToDisk(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	req := w.stageRequest(id, epoch, mountCap)
	req.Flags = []string{"password=hunter2"}
	require.NoError(t, w.e.Stage(t.Context(), req))
	for _, name := range w.records() {
		text, err := os.ReadFile(filepath.Join(w.dir, "volumes", name+".rec"))
		require.NoError(t, err)
		require.False(t, strings.Contains(string(text), "hunter2"))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cmd := range w.commands {
		require.NotContains(t, cmd.String(), "hunter2")
	}
}
