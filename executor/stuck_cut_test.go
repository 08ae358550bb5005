package executor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// stuckPool leaves a child behind that cannot be killed, when it copies.
type stuckPool struct {
	Backend
	SnapshotBackend
	child   stuckChild
	removed int
}

func (p *stuckPool) Shares() bool { return true }

func (p *stuckPool) Observe(context.Context, fsm.VolumeID) (Device, error) {
	return Device{Exists: true, Size: 1 << 20}, nil
}

func (p *stuckPool) ObserveSnapshot(context.Context, fsm.SnapshotID) (Device, error) {
	return Device{Unfinished: true}, nil
}

func (p *stuckPool) Cut(context.Context, fsm.VolumeID, fsm.SnapshotID, Progress) error {
	return p.child
}

func (p *stuckPool) CreateFrom(context.Context, fsm.VolumeID, int64, fsm.Source, int64, Progress) error {
	return p.child
}

func (p *stuckPool) Remove(context.Context, fsm.VolumeID) error {
	p.removed++
	return nil
}

func (p *stuckPool) RemoveSnapshot(context.Context, fsm.SnapshotID) error {
	p.removed++
	return nil
}

// endedFreeze ends while it is cut under.
type endedFreeze struct{ Freeze }

func (endedFreeze) Cut(ctx context.Context, cut func(context.Context) error) error {
	_ = cut(ctx)
	return fsm.Reject(fsm.Busy, "the freeze has ended")
}

const stuckSnapshot = fsm.SnapshotID("hs-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d7")

// A child that cannot be killed has the devices of what is copied and of the copy: neither
// is touched before it is gone.
func TestWhatIsCopiedByAChildThatCannotBeKilledIsSetAside(t *testing.T) {
	const clone = fsm.VolumeID("hf-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d8")
	for name, work := range map[string]func(e *Executor, p *stuckPool) error{
		"a cut": func(e *Executor, _ *stuckPool) error {
			c := &cutting{id: stuckSnapshot}
			if err := e.openSnapshot(c); err != nil {
				return err
			}
			return e.cutQuietly(e.ctx, c, &fsm.DesiredSnapshot{Snapshot: c.id, Source: staleVolume, Attempt: 1})
		},
		"a group's cut": func(e *Executor, p *stuckPool) error {
			c := &cutting{id: stuckSnapshot, held: &hold{volume: e.volume(staleVolume), freeze: endedFreeze{}}}
			if err := e.openSnapshot(c); err != nil {
				return err
			}
			return e.cutHeld(e.ctx, c, &fsm.DesiredSnapshot{Snapshot: c.id, Source: staleVolume, Attempt: 1}, p)
		},
		"a clone": func(e *Executor, _ *stuckPool) error {
			v := e.volume(clone)
			if err := e.open(v); err != nil {
				return err
			}
			j := &job{Executor: e, v: v, want: &desired{volume: clone, source: fsm.Source{Volume: staleVolume}}}
			return j.copySource(e.ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := bare(t)
			pool := &stuckPool{child: make(stuckChild)}
			e.Pools, e.Mounter = []Backend{pool}, probing(nil)
			source := e.volume(staleVolume)
			require.NotNil(t, stuckIn(work(e, pool)))
			require.False(t, e.tryLock(source), "the source is free")
			require.Zero(t, pool.removed)
			close(pool.child)
			require.Eventually(t, func() bool { return e.tryLock(source) }, time.Minute, time.Millisecond)
		})
	}
}

// Nor is the snapshot said to be gone that the child may still make.
func TestASnapshotThatAStuckChildMayStillMakeIsNotGone(t *testing.T) {
	child := make(chan struct{})
	c := &cutting{stuck: child}
	for verb, waits := range map[fsm.SnapshotGoal]bool{fsm.SnapshotGoalRemove: true, fsm.SnapshotGoalThaw: true, fsm.SnapshotGoalTake: false} {
		s := &cutSituation{wish: &fsm.DesiredSnapshot{Goal: verb}}
		require.Equal(t, waits, c.isStuck(s, stepNone))
		require.True(t, c.isStuck(s, stepRemoveSnapshot))
		require.True(t, c.isStuck(s, stepCut))
		require.False(t, c.isStuck(s, stepThaw))
	}
	close(child)
	require.False(t, c.isStuck(&cutSituation{}, stepCut))
}

// goneChild was killed, and is gone.
type goneChild struct{ error }

func (goneChild) Parked() <-chan struct{} { return nil }

// What is undone after a command that was killed may leave a child that cannot be: the first
// one's end does not hide it, and of several each is waited for.
func TestAStuckChildIsFoundBehindOneThatIsGone(t *testing.T) {
	e := bare(t)
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	killed, first, last := goneChild{errors.New("killed")}, make(stuckChild), make(stuckChild)
	require.Nil(t, stuckIn(errors.Join(killed, errors.New("and not undone"))))
	e.park(v, fmt.Errorf("copy: %w", errors.Join(killed, fmt.Errorf("undo: %w", first), last)))
	require.False(t, e.tryLock(v))
	close(first)
	require.Never(t, func() bool { return e.tryLock(v) }, 20*time.Millisecond, time.Millisecond)
	close(last)
	require.Eventually(t, func() bool { return e.tryLock(v) }, time.Minute, time.Millisecond)
}

// stuckRemoval leaves a child behind that cannot be killed, when it removes.
type stuckRemoval struct{ *stuckPool }

func (p stuckRemoval) RemoveSnapshot(context.Context, fsm.SnapshotID) error {
	p.removed++
	return p.child
}

// Nor is another removal begun beside the child of the first, nor a cut.
func TestASnapshotIsRemovedByOneChildAtATime(t *testing.T) {
	e := bare(t)
	pool := stuckRemoval{&stuckPool{child: make(stuckChild)}}
	e.pools = map[fsm.PoolID]Backend{"p": pool}
	wished := func(verb fsm.SnapshotGoal) {
		e.Update(Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Snapshots: []fsm.DesiredSnapshot{
			{Snapshot: stuckSnapshot, Source: staleVolume, Pool: "p", Goal: verb, Attempt: 1},
		}})
	}
	look := func() *cutting {
		c := e.takeSnapshot(stuckSnapshot)
		e.reconcileSnapshot(c)
		e.leaveSnapshot(c)
		return c
	}
	wished(fsm.SnapshotGoalRemove)
	c := look()
	wished(fsm.SnapshotGoalTake)
	look()
	wished(fsm.SnapshotGoalRemove)
	look()
	require.Equal(t, 1, pool.removed)
	e.Update(Update{At: fsm.Epoch{Incarnation: 1, Index: 2}, Full: true, Adopted: true})
	look()
	wished(fsm.SnapshotGoalRemove)
	require.Same(t, c, look(), "the child is not forgotten with the wish")
	require.Equal(t, 1, pool.removed)
	close(pool.child)
	look()
	require.Equal(t, 2, pool.removed)
}

// stuckClose leaves a child behind that cannot be killed, when it takes the device down.
type stuckClose struct{ *stuckPool }

func (stuckClose) Observe(context.Context, fsm.VolumeID) (Device, error) {
	return Device{Exists: true, Size: 1 << 20, Path: "/dev/below"}, nil
}

func (p stuckClose) Detach(context.Context, fsm.VolumeID) error { return p.child }

// noResource is a host that has no resource.
type noResource struct{ Replicator }

func (noResource) Room(size int64) int64 { return size }

func (noResource) Observe(context.Context, fsm.VolumeID, uint32, string) (Mirror, error) {
	return Mirror{}, nil
}

// What a step of a replica left behind has the device below, too.
func TestAReplicasDeviceIsNotRemovedBesideAStuckChild(t *testing.T) {
	e := bare(t)
	pool := stuckClose{&stuckPool{child: make(stuckChild)}}
	e.Pools, e.Mounter, e.Replicator = []Backend{pool}, probing(nil), noResource{}
	e.Update(Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Wishes: []fsm.DesiredVolume{
		{Volume: staleVolume, Goal: fsm.GoalRemove, Replication: &fsm.DesiredReplica{}},
	}})
	v := e.volumes[staleVolume]
	require.True(t, e.tryLock(v))
	e.reconcile(v)
	e.unlock(v)
	require.Zero(t, pool.removed)
	require.False(t, e.tryLock(v))
	close(pool.child)
	require.Eventually(t, func() bool { return e.tryLock(v) }, time.Minute, time.Millisecond)
}
