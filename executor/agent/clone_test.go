package agent_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// startClone asks for a volume with a source's content.
func (c *testCluster) startClone(id fsm.VolumeID, source fsm.Source, size int64, capability fsm.Capability) error {
	_, err := c.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(id), Name: "pvc-" + string(id), RequiredBytes: size, Capabilities: []*fsmpb.Capability{proto(capability)},
		Source: &fsmpb.Source{SnapshotId: string(source.Snapshot), VolumeId: string(source.Volume)},
	}}})
	return err
}

// clone makes a volume from a source; content names the volume whose filesystem it has.
func (w *testHost) clone(source fsm.Source, content fsm.VolumeID, size int64, capability fsm.Capability) fsm.VolumeID {
	w.t.Helper()
	id := backendtest.NewID()
	w.mounter.copyContent(content, id)
	require.NoError(w.t, w.startClone(id, source, size, capability))
	w.eventually(func() bool { return w.isReady(id) }, "the clone is ready")
	return id
}

func (w *testHost) expandVolume(id fsm.VolumeID, size int64) {
	w.t.Helper()
	w.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: &fsmpb.ExpandVolume{
		VolumeId: string(id), RequiredBytes: size,
	}}})
}

func (w *testHost) modifyVolume(id fsm.VolumeID, limits fsm.Limits) {
	w.t.Helper()
	w.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ModifyVolume{ModifyVolume: &fsmpb.ModifyVolume{
		VolumeId: string(id), Limits: limits.Proto(), Set: 15,
	}}})
}

func (c *testCluster) noOperation(id fsm.VolumeID) bool {
	v, ok := c.volume(id)
	return ok && v.Operation == nil
}

func TestACloneHasItsSourcesContentAndAUUIDOfItsOwn(t *testing.T) {
	for name, ofSnapshot := range map[string]bool{"of a snapshot": true, "of a staged volume": false} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id, _ := w.staged(mountCap)
			w.pool.Write(id, 8192, []byte("content"))
			source := fsm.Source{Volume: id}
			if ofSnapshot {
				source = fsm.Source{Snapshot: w.takeSnapshot(id)}
			}
			frozen := false
			w.onEffect("create-from", func() { frozen = w.freezer.isFrozen(stagingPath) })
			clone := w.clone(source, id, 2*testSize, mountCap)
			require.Equal(t, !ofSnapshot, frozen, "S19: what is mounted is frozen for the copy")
			require.True(t, w.pool.Content(clone).Contains("content"))
			require.Zero(t, w.pool.Effects("create", clone))

			epoch := w.publishVolume(clone, mountCap)
			req := executor.StageRequest{Volume: clone, Epoch: epoch, Path: "/kubelet/clone", Capability: mountCap}
			for range 2 {
				require.NoError(t, w.e.Stage(t.Context(), req))
				require.NoError(t, w.e.Unstage(t.Context(), clone, req.Path))
			}
			require.Equal(t, 1, w.mounter.count("mkfs"), "S15: a clone is never formatted")
			require.Equal(t, 1, w.mounter.count("identity"))
			require.Equal(t, 1, w.mounter.count("grow-filesystem"), "it was smaller than its device")
			v, _ := w.volume(clone)
			was, _ := w.volume(id)
			require.NotEqual(t, was.Format.FSUUID, v.Format.FSUUID)
			require.False(t, v.Format.Cloned)
		})
	}
}

func TestS19_ACopyWhoseFreezeEndedIsNotKept(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	once := true
	w.onEffect("create-from", func() {
		if once {
			once = false
			_ = w.freezer.Recover(context.Background())
		}
	})
	clone := w.clone(fsm.Source{Volume: id}, id, testSize, mountCap)
	require.Equal(t, 2, w.pool.Effects("create-from", clone))
	require.Equal(t, 1, w.pool.Effects("remove", clone))
}

func TestACloneWithoutItsSourceFailsForGood(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	snapshot := w.takeSnapshot(id)
	w.pool.LoseSnapshot(snapshot)
	clone := backendtest.NewID()
	require.NoError(t, w.startClone(clone, fsm.Source{Snapshot: snapshot}, testSize, mountCap))
	w.eventually(func() bool { return w.failedOperation(string(clone)) != nil }, "it failed")
	w.eventually(func() bool { _, known := w.volume(clone); return !known }, "S74: nothing is left of it")
}

func TestAVolumeIsExpandedStagedOrNot(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id, epoch := w.staged(capability)
			w.expandVolume(id, 2*testSize)
			w.eventually(func() bool { return w.noOperation(id) }, "grown")
			for range 2 {
				size, err := w.e.Expand(t.Context(), executor.ExpandRequest{Volume: id, Path: stagingPath, Size: 2 * testSize, Capability: capability})
				require.NoError(t, err)
				require.EqualValues(t, 2*testSize, size)
			}
			require.Equal(t, boolToInt(!capability.Block), w.mounter.count("grow-filesystem"), "once for each size")
			require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			_, err := w.e.Expand(t.Context(), executor.ExpandRequest{Volume: id, Path: stagingPath})
			require.Equal(t, fsm.NotFound, reasonOf(err))

			w.expandVolume(id, 3*testSize)
			w.eventually(func() bool { return w.noOperation(id) }, "grown")
			for range 2 {
				require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, capability)))
			}
			require.Equal(t, 2*boolToInt(!capability.Block), w.mounter.count("grow-filesystem"), "staging grows it too")
			require.Equal(t, 2, w.pool.Effects("grow", id))
		})
	}
}

func boolToInt(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func TestExpandRefuses(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	for name, tc := range map[string]struct {
		req  executor.ExpandRequest
		want fsm.Reason
	}{
		"an unknown volume":     {executor.ExpandRequest{Volume: backendtest.NewID(), Path: stagingPath}, fsm.NotFound},
		"an id that is none":    {executor.ExpandRequest{Volume: "../x", Path: stagingPath}, fsm.NotFound},
		"another path":          {executor.ExpandRequest{Volume: id, Path: "/elsewhere"}, fsm.NotFound},
		"more than was decided": {executor.ExpandRequest{Volume: id, Path: stagingPath, Size: 2 * testSize}, fsm.OutOfRange},
		"a limit below it":      {executor.ExpandRequest{Volume: id, Path: stagingPath, Limit: testSize - 1}, fsm.OutOfRange},
		"another access type":   {executor.ExpandRequest{Volume: id, Path: stagingPath, Capability: blockCap}, fsm.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := w.e.Expand(t.Context(), tc.req)
				require.Equal(t, tc.want, reasonOf(err))
			}
		})
	}
}

func TestAFilesystemThatCannotExpandMountedIsExpandedAtTheNextStage(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	w.expandVolume(id, 2*testSize)
	w.eventually(func() bool { return w.noOperation(id) }, "grown")
	w.mounter.fail = func(effect, path string) error {
		if effect == "grow-filesystem" && path != "" {
			return fsm.Reject(fsm.Precondition, "ext4 grows only for a process with CAP_SYS_RESOURCE")
		}
		return nil
	}
	for range 2 {
		_, err := w.e.Expand(t.Context(), executor.ExpandRequest{Volume: id, Path: stagingPath})
		require.Equal(t, fsm.Precondition, reasonOf(err))
	}
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
	require.Equal(t, 1, w.mounter.count("grow-filesystem"))
	_, err := w.e.Expand(t.Context(), executor.ExpandRequest{Volume: id, Path: stagingPath})
	require.NoError(t, err)
}

func TestATruncatedImageIsNeverExpanded(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	w.pool.LoseImage(id)
	require.NoError(t, w.pool.Create(t.Context(), id, testSize/2))
	w.expandVolume(id, 2*testSize)
	require.Equal(t, fsm.Precondition, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	w.restart()
	require.Equal(t, fsm.Precondition, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	require.Zero(t, w.pool.Effects("grow", id))
}

// lyingPool says once that it grew an image, and has not.
type lyingPool struct {
	*backendtest.FakeBackend
	lied atomic.Bool
}

func (p *lyingPool) Expand(ctx context.Context, id fsm.VolumeID, size int64) error {
	if p.lied.Swap(true) {
		return p.FakeBackend.Expand(ctx, id, size)
	}
	return nil
}

func TestAnImageThatWasSaidToBeGrownAndIsNotIsGrownAgain(t *testing.T) {
	w := newStoppedHost(t)
	pool := &lyingPool{FakeBackend: w.pool}
	w.configure = func(c *agent.Config) { c.Pools = []executor.Backend{pool} }
	w.start(nil)
	id, epoch := w.staged(mountCap)
	w.expandVolume(id, 2*testSize)
	w.eventually(func() bool { return w.noOperation(id) }, "it is grown")
	require.True(t, pool.lied.Load())
	require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
}

// S73: a limit that cannot be put in force becomes the volume's condition, and does not keep a
// workload from its data.
func TestAHostThatCannotLimitSaysSo(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		for why, able := range map[string]bool{"no control groups": false, "none of the pods": true} {
			t.Run(name+", "+why, func(t *testing.T) {
				w := newStoppedHost(t)
				w.health = 10 * time.Millisecond
				w.throttle.fail = fsm.Reject(fsm.Precondition, "there is no group")
				w.configure = func(c *agent.Config) {
					if !able {
						c.Throttle = nil
					}
				}
				w.start(nil)
				id := backendtest.NewID()
				w.create(id, capability)
				w.modifyVolume(id, fsm.Limits{ReadIOPS: 1})
				epoch := w.publishVolume(id, capability)
				for range 2 {
					require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, capability)))
					require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
				}
				ill := func() bool {
					v, _ := w.volume(id)
					return strings.Contains(v.Condition.Message, "limits are not in force")
				}
				w.eventually(ill, "the condition says so")
				w.modifyVolume(id, fsm.Limits{})
				w.eventually(func() bool { return !ill() }, "there are none")
			})
		}
	}
}

// Limits that could not be put in force are, once the cgroup exists.
func TestLimitsComeIntoForceLater(t *testing.T) {
	w := newStoppedHost(t)
	w.resync, w.throttle.fail = 20*time.Millisecond, fsm.Reject(fsm.Precondition, "there is no group")
	w.start(nil)
	id := backendtest.NewID()
	w.create(id, mountCap)
	w.modifyVolume(id, fsm.Limits{ReadIOPS: 1})
	epoch := w.publishVolume(id, mountCap)
	require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
	require.Empty(t, w.throttle.all())
	w.throttle.mu.Lock()
	w.throttle.fail = nil
	w.throttle.mu.Unlock()
	w.eventually(func() bool { return len(w.throttle.all()) == 1 }, "looked at again")
	w.eventually(func() bool { v, _ := w.volume(id); return v.Replicas[0].Limits.ReadIOPS == 1 }, "told")
}

func TestAHostWithoutToolsRefuses(t *testing.T) {
	w := newStoppedHost(t)
	w.configure = func(c *agent.Config) { c.Freezer, c.FilesystemTools = nil, nil }
	w.start(nil)
	id, _ := w.staged(mountCap)
	snapshot := w.startSnapshot(id)
	w.eventually(func() bool { return w.failedOperation(string(snapshot)) != nil }, "it cannot freeze")
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	snapshot = w.takeSnapshot(id)
	clone := w.clone(fsm.Source{Snapshot: snapshot}, id, testSize, mountCap)
	epoch := w.publishVolume(clone, mountCap)
	err := w.e.Stage(t.Context(), w.stageRequest(clone, epoch, mountCap))
	require.Equal(t, fsm.Precondition, reasonOf(err), "a clone needs an identity")
}

func TestHealth(t *testing.T) {
	ill := errors.New("input/output error")
	for name, tc := range map[string]struct {
		harm, heal func(*testHost, fsm.VolumeID)
		want       string
	}{
		"the image is missing": {
			func(w *testHost, id fsm.VolumeID) { w.pool.LoseImage(id) },
			func(w *testHost, id fsm.VolumeID) { _ = w.pool.Create(context.Background(), id, testSize) }, "missing"},
		"the image is short": {
			func(w *testHost, id fsm.VolumeID) {
				w.pool.LoseImage(id)
				_ = w.pool.Create(context.Background(), id, testSize/2)
			},
			func(w *testHost, id fsm.VolumeID) {
				w.pool.LoseImage(id)
				_ = w.pool.Create(context.Background(), id, testSize)
			}, "shorter"},
		"the pool is absent": {
			func(w *testHost, _ fsm.VolumeID) { w.pool.SetAbsent(true) },
			func(w *testHost, _ fsm.VolumeID) { w.pool.SetAbsent(false) }, "absent"},
		"the filesystem went read-only": {
			func(w *testHost, _ fsm.VolumeID) {
				w.mounter.setStats(fsm.Condition{Abnormal: true, Message: "read-only"}, nil)
			},
			func(w *testHost, _ fsm.VolumeID) { w.mounter.setStats(fsm.Condition{}, nil) }, "read-only"},
		"the device has errors": {
			func(w *testHost, _ fsm.VolumeID) { w.mounter.setStats(fsm.Condition{}, ill) },
			func(w *testHost, _ fsm.VolumeID) { w.mounter.setStats(fsm.Condition{}, nil) }, "input/output error"},
		"the mount is gone": {
			func(w *testHost, _ fsm.VolumeID) { w.mounter.reboot() },
			func(w *testHost, id fsm.VolumeID) {
				epoch := w.publication(id).Epoch
				require.NoError(w.t, w.e.Stage(context.Background(), w.stageRequest(id, epoch, mountCap)))
			}, "mount is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoppedHost(t)
			w.health, w.resync = 2*time.Millisecond, 5*time.Millisecond
			w.start(nil)
			id, _ := w.staged(mountCap)
			tc.harm(w, id)
			w.eventually(func() bool { v, _ := w.volume(id); return v.Condition.Abnormal }, "it is told")
			w.eventually(func() bool { return bytes.Contains([]byte(w.condition(id).Message), []byte(tc.want)) }, tc.want)
			w.restart()
			require.NotNil(t, w.publication(id).Staging, "nothing was taken down")
			tc.heal(w, id)
			w.eventually(func() bool { return !w.condition(id).Abnormal }, "and that it is over")
		})
	}
}

// fillablePool is a pool whose free space can be set.
type fillablePool struct {
	*backendtest.FakeBackend
	full atomic.Bool
}

func (f *fillablePool) Facts(ctx context.Context) executor.PoolFacts {
	facts := f.FakeBackend.Facts(ctx)
	if f.full.Load() {
		facts.Free = 1 << 20
	}
	return facts
}

func TestAFullPoolMakesItsVolumesAbnormal(t *testing.T) {
	w := newStoppedHost(t)
	pool := &fillablePool{FakeBackend: w.pool}
	w.health = 2 * time.Millisecond
	w.configure = func(c *agent.Config) { c.Pools, c.MinFree = []executor.Backend{pool}, 1<<30 }
	w.start(nil)
	id := backendtest.NewID()
	w.create(id, mountCap)
	pool.full.Store(true)
	w.eventually(func() bool { return w.condition(id).Abnormal }, "also one that is not staged")
	require.Contains(t, w.condition(id).Message, "full")
	pool.full.Store(false)
	w.eventually(func() bool { return !w.condition(id).Abnormal }, "and that it is over")
}

func (c *testCluster) condition(id fsm.VolumeID) fsm.Condition {
	v, _ := c.volume(id)
	return v.Condition
}

func (m *fakeMounter) setStats(c fsm.Condition, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.condition, m.statsErr = c, err
}
