package executor_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// freezer stops a whole executor at a fault point, as SIGKILL does: whoever comes
// to any point after that never goes on. (Every effect lies behind a point.)
type freezer struct {
	point string
	skip  int // how often to let it pass

	mu   sync.Mutex
	seen map[string]bool
	dead chan struct{}
}

func freezeAt(point string, skip int) *freezer {
	return &freezer{point: point, skip: skip, seen: map[string]bool{}, dead: make(chan struct{})}
}

func (f *freezer) Hit(point string) {
	f.mu.Lock()
	f.seen[point] = true
	if point == f.point && !f.isDead() {
		if f.skip == 0 {
			close(f.dead)
		}
		f.skip--
	}
	dead := f.isDead()
	f.mu.Unlock()
	if dead {
		select {}
	}
}

func (f *freezer) isDead() bool {
	select {
	case <-f.dead:
		return true
	default:
		return false
	}
}

// machine is a host and its cluster, as a crash scenario needs them.
type machine interface {
	start(faults executor.Faults) *executor.Executor
	cl() *cluster
	paths() (staging, target string)
	// consistent checks, in the middle, that nothing is there twice.
	consistent(id fsm.VolumeID)
	// nothingIsLeft checks the end.
	nothingIsLeft()
}

func (w *world) cl() *cluster            { return w.cluster }
func (w *world) paths() (string, string) { return stagingPath, targetPath }
func (w *world) consistent(id fsm.VolumeID) {
	require.LessOrEqual(w.t, w.pool.Effects("create", id), 1, "an image is made once")
	require.LessOrEqual(w.t, w.pool.Attached(), 1)
	mounts, _ := w.mount.left()
	require.LessOrEqual(w.t, len(mounts), 2)
}

// orchestrator is a CO that retries every call until it is answered.
type orchestrator struct {
	machine
	t testing.TB
	e *executor.Executor
	f *freezer
}

// again calls until the host answers well. A host that died is started anew.
func (o *orchestrator) again(what string, call func(ctx context.Context, e *executor.Executor) error) {
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
		case <-o.f.dead:
			cancel()
			o.revive()
		}
		require.True(o.t, time.Now().Before(deadline), "%s: %v", what, err)
		time.Sleep(2 * time.Millisecond) // a CO's backoff, not a wait for anything
	}
}

// revive starts the host again, which then dies no more.
func (o *orchestrator) revive() {
	o.cl().detach()
	o.f = freezeAt("", 0)
	o.e = o.start(o.f)
}

// await waits for what the host does in the background.
func (o *orchestrator) await(what string, done func() bool) {
	o.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done() {
		if o.f.isDead() {
			o.revive()
		}
		require.True(o.t, time.Now().Before(deadline), what)
		time.Sleep(time.Millisecond)
	}
}

// wholeLife takes a volume through everything, twice staged, and removes it.
func (o *orchestrator) wholeLife(capability fsm.Capability) {
	id := backendtest.NewID()
	c := o.cl()
	staging, target := o.paths()
	c.startCreate(id, capability)
	o.await("the volume is ready", func() bool { return c.isReady(id) })
	epoch := c.publishVolume(id, capability)
	for range 2 {
		o.again("stage", func(ctx context.Context, e *executor.Executor) error {
			return e.Stage(ctx, executor.StageRequest{Volume: id, Epoch: epoch, Path: staging, Capability: capability})
		})
		o.consistent(id)
		o.again("publish", func(ctx context.Context, e *executor.Executor) error {
			return e.Publish(ctx, executor.PublishRequest{Volume: id, Epoch: epoch, StagingPath: staging, TargetPath: target, Capability: capability})
		})
		o.consistent(id)
		o.await("the log knows of the target", func() bool { p := c.publication(id); return len(p.Targets) == 1 && p.Targets[0].Done })
		o.again("unpublish", func(ctx context.Context, e *executor.Executor) error { return e.Unpublish(ctx, id, target) })
		o.again("unstage", func(ctx context.Context, e *executor.Executor) error { return e.Unstage(ctx, id, staging) })
	}
	o.await("the log knows that it is unstaged", func() bool { return c.publication(id).Staging == nil })
	require.NoError(o.t, c.unpublishVolume(id))
	require.NoError(o.t, c.deleteVolume(id))
	o.await("the volume is gone", func() bool { _, known := c.volume(id); return !known })
	o.consistent(id)
	o.nothingIsLeft()
}

// Item 4 of what must hold: killed between every two steps, nothing is repeated
// and nothing leaks.
func TestACrashAtEveryPoint(t *testing.T) {
	for _, point := range volumePoints() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for _, capability := range []fsm.Capability{mountCap, blockCap} {
				for skip := range 3 {
					w := newStoppedWorld(t)
					f := freezeAt(point, skip)
					o := &orchestrator{machine: w, t: t, f: f}
					o.e = w.start(f)
					o.wholeLife(capability)
					if !f.isDead() {
						break // it is not passed that often
					}
					w.formatsAtMost(2)
				}
			}
		})
	}
}

// Every point lies on the way of a filesystem's whole life.
func TestEveryFaultPointIsPassed(t *testing.T) {
	w := newStoppedWorld(t)
	f := freezeAt("", 0)
	o := &orchestrator{machine: w, t: t, f: f}
	o.e = w.start(f)
	o.wholeLife(mountCap)
	w.formatsAtMost(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, point := range volumePoints() {
		require.True(t, f.seen[point], point)
	}
	for point := range f.seen {
		require.Contains(t, executor.FaultPoints, point)
	}
}

func newStoppedWorld(t testing.TB) *world {
	pool := backendtest.NewFake()
	return &world{
		recheck: time.Hour, // whatever is to happen is woken up by what made it necessary
		cluster: newCluster(t), dir: t.TempDir() + "/data", pool: pool, mount: newFakeMounter(pool),
		ice: newFakeFreezer(), limit: newFakeThrottle(),
	}
}

// formatsAtMost: mkfs is repeated only while the format was not yet reported (S15).
func (w *world) formatsAtMost(n int) {
	w.t.Helper()
	require.LessOrEqual(w.t, w.mount.count("mkfs"), n)
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
