package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// crashHost is a host and its cluster, as a crash scenario needs them.
type crashHost interface {
	start(faults agent.Faults) *agent.Agent
	controllers() *testCluster
	paths() (staging, target string)
	// requireConsistent checks, in the middle, that nothing exists twice.
	requireConsistent(id fsm.VolumeID)
	// requireNothingLeft checks, at the end, that nothing is left.
	requireNothingLeft()
}

func (w *testHost) controllers() *testCluster { return w.testCluster }

func (w *testHost) paths() (string, string) { return stagingPath, targetPath }

func (w *testHost) requireConsistent(id fsm.VolumeID) {
	require.LessOrEqual(w.t, w.pool.Effects("create", id), 1, "an image is made once")
	require.LessOrEqual(w.t, w.pool.ActiveDevices(), 1)
	mounts, _ := w.mounter.leftovers()
	require.LessOrEqual(w.t, len(mounts), 2)
}

// orchestrator is a CO that retries every call until it is answered.
type orchestrator struct {
	crashHost
	t testing.TB
	e *agent.Agent
	f *stopAtPoint
}

// retry calls until the host answers without an error. A host that died is started anew.
func (o *orchestrator) retry(what string, call func(ctx context.Context, e *agent.Agent) error) {
	o.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(o.t.Context(), 10*time.Second)
		answer := make(chan error, 1)
		e := o.e
		go func() { answer <- call(ctx, e) }()
		var err error
		select {
		case err = <-answer:
			cancel()
			if err == nil {
				return
			}
		case <-o.f.stopped:
			cancel()
			o.restartHost()
		}
		require.True(o.t, time.Now().Before(deadline), "%s: %v", what, err)
		time.Sleep(2 * time.Millisecond) // a CO's backoff, not a wait for anything
	}
}

// restartHost starts the host again, now without a kill.
func (o *orchestrator) restartHost() {
	o.controllers().disconnectHost()
	o.f.awaitEffects(o.t)
	o.f = stopAt("", 0)
	o.e = o.start(o.f)
}

// await waits for something that the host does in the background.
func (o *orchestrator) await(what string, done func() bool) {
	o.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done() {
		if o.f.isStopped() {
			o.restartHost()
		}
		require.True(o.t, time.Now().Before(deadline), what)
		time.Sleep(time.Millisecond)
	}
}

// volumeLife takes a volume through everything, staging it twice, and removes it.
func (o *orchestrator) volumeLife(capability fsm.Capability) {
	id := backendtest.NewID()
	c := o.controllers()
	staging, target := o.paths()
	c.startCreate(id, capability)
	o.await("the volume is ready", func() bool { return c.isReady(id) })
	epoch := c.publishVolume(id, capability)
	for range 2 {
		o.retry("stage", func(ctx context.Context, e *agent.Agent) error {
			return e.Stage(ctx, executor.StageRequest{Volume: id, Epoch: epoch, Path: staging, Capability: capability, Keys: rightKeys})
		})
		o.requireConsistent(id)
		o.retry("publish", func(ctx context.Context, e *agent.Agent) error {
			return e.PublishTarget(ctx, executor.PublishTargetRequest{Volume: id, Epoch: epoch, StagingPath: staging, TargetPath: target, Capability: capability})
		})
		o.requireConsistent(id)
		o.await("the log knows of the target", func() bool { p := c.publication(id); return len(p.Targets) == 1 && p.Targets[0].Done })
		o.retry("reclaim", func(ctx context.Context, e *agent.Agent) error {
			_, err := e.ReclaimSpace(ctx, executor.ReclaimRequest{Volume: id, Path: staging, Capability: capability})
			return err
		})
		o.requireConsistent(id)
		o.retry("unpublish", func(ctx context.Context, e *agent.Agent) error { return e.UnpublishTarget(ctx, id, target) })
		o.retry("unstage", func(ctx context.Context, e *agent.Agent) error { return e.Unstage(ctx, id, staging) })
	}
	o.await("the log knows that it is unstaged", func() bool { return c.publication(id).Staging == nil })
	require.NoError(o.t, c.unpublishVolume(id))
	o.reclaimUnpublished(id)
	require.NoError(o.t, c.deleteVolume(id))
	o.await("the volume is gone", func() bool { _, known := c.volume(id); return !known })
	o.requireConsistent(id)
	o.requireNothingLeft()
}

// reclaimUnpublished reclaims a volume that nobody uses, again where its host died in the middle.
func (o *orchestrator) reclaimUnpublished(id fsm.VolumeID) {
	c := o.controllers()
	for {
		epoch := c.beginReclaim(id)
		if epoch.IsZero() {
			return // it has no filesystem
		}
		var done bool
		o.await("the reclaim ends", func() bool {
			r, rej := c.reclaimResult(id, epoch)
			done = r != nil
			return r != nil || rej != nil
		})
		o.requireConsistent(id)
		if done {
			return
		}
	}
}

// inShort is how much is explored: less in the short form.
func inShort(short, whole int) int {
	if testing.Short() {
		return short
	}
	return whole
}

// Killed between every two steps, nothing is done twice and nothing leaks. The short form kills
// when a point is passed for the first time only.
func TestACrashAtEveryPoint(t *testing.T) {
	for _, point := range volumePoints() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for _, capability := range []fsm.Capability{mountCap, blockCap} {
				for skip := range inShort(1, 3) {
					w := newStoppedHost(t)
					f := stopAt(point, skip)
					o := &orchestrator{crashHost: w, t: t, f: f}
					o.e = w.start(f)
					o.volumeLife(capability)
					if !f.isStopped() {
						break // it is not passed that often
					}
					w.requireFormatsAtMost(2)
				}
			}
		})
	}
}

// Every point is passed in a filesystem volume's whole life.
func TestEveryVolumeFaultPointIsHit(t *testing.T) {
	w := newStoppedHost(t)
	f := stopAt("", 0)
	o := &orchestrator{crashHost: w, t: t, f: f}
	o.e = w.start(f)
	o.volumeLife(mountCap)
	w.requireFormatsAtMost(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, point := range volumePoints() {
		require.True(t, f.hits[point], point)
	}
	for point := range f.hits {
		require.Contains(t, agent.FaultPoints, point)
	}
}

func newStoppedHost(t testing.TB) *testHost {
	pool := backendtest.NewFakeBackend()
	return &testHost{
		resync:      time.Hour,   // an event must cause everything that has to happen
		maxFreeze:   time.Minute, // a slow machine must not end a freeze
		testCluster: newTestCluster(t), dir: memoryDir(t) + "/data", pool: pool, mounter: newFakeMounter(pool),
		freezer: newFakeFreezer(), throttle: newFakeThrottle(),
	}
}

// requireFormatsAtMost: mkfs is repeated only until the format was reported (S15).
func (w *testHost) requireFormatsAtMost(n int) {
	w.t.Helper()
	require.LessOrEqual(w.t, w.mounter.count("mkfs"), n)
	formatted := 0
	for _, cmd := range w.commands {
		for _, ob := range cmd.GetReport().GetObservations() {
			if _, ok := ob.GetFact().(*fsmpb.Observation_Formatted); ok {
				formatted++
			}
		}
	}
	require.LessOrEqual(w.t, formatted, n)
}
