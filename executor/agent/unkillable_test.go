package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// unkillablePool leaves an unkillable child behind when it copies.
type unkillablePool struct {
	executor.Backend
	executor.SnapshotBackend
	child   unkillableChild
	removed int
}

func (p *unkillablePool) SharesBlocks() bool { return true }

func (p *unkillablePool) Observe(context.Context, fsm.VolumeID) (executor.Device, error) {
	return executor.Device{Exists: true, Size: 1 << 20}, nil
}

func (p *unkillablePool) ObserveSnapshot(context.Context, fsm.SnapshotID) (executor.Device, error) {
	return executor.Device{Unfinished: true}, nil
}

func (p *unkillablePool) TakeSnapshot(context.Context, fsm.VolumeID, fsm.SnapshotID, executor.Progress) error {
	return p.child
}

func (p *unkillablePool) CreateFrom(context.Context, fsm.VolumeID, int64, fsm.Source, int64, executor.Progress) error {
	return p.child
}

func (p *unkillablePool) Remove(context.Context, fsm.VolumeID) error {
	p.removed++
	return nil
}

func (p *unkillablePool) RemoveSnapshot(context.Context, fsm.SnapshotID) error {
	p.removed++
	return nil
}

// endedFreeze ends while a snapshot is taken under it.
type endedFreeze struct{ executor.Freeze }

func (endedFreeze) Run(ctx context.Context, taken func(context.Context) error) error {
	_ = taken(ctx)
	return fsm.Reject(fsm.Busy, "the freeze has ended")
}

const testSnapshot = fsm.SnapshotID("hs-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d7")

// An unkillable child has the devices of the source and of the copy: neither is touched before it
// is gone.
func TestACopyByAnUnkillableChildParksItsVolumes(t *testing.T) {
	const clone = fsm.VolumeID("hf-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d8")
	for name, work := range map[string]func(a *Agent, p *unkillablePool) error{
		"a cut": func(a *Agent, _ *unkillablePool) error {
			snap := &snapshotState{id: testSnapshot}
			if err := a.records.openSnapshotRecord(snap); err != nil {
				return err
			}
			return a.snapshotWorker.takeFrozen(a.ctx, snap, &fsm.DesiredSnapshot{Snapshot: snap.id, Source: testVolume, Attempt: 1})
		},
		"a group's cut": func(a *Agent, p *unkillablePool) error {
			snap := &snapshotState{id: testSnapshot, freezeHold: &freezeHold{volume: a.volumeEntry(testVolume), freeze: endedFreeze{}}}
			if err := a.records.openSnapshotRecord(snap); err != nil {
				return err
			}
			return a.snapshotWorker.takeUnderHold(a.ctx, snap, &fsm.DesiredSnapshot{Snapshot: snap.id, Source: testVolume, Attempt: 1}, p)
		},
		"a clone": func(a *Agent, _ *unkillablePool) error {
			v := a.volumeEntry(clone)
			if err := a.records.openRecord(v); err != nil {
				return err
			}
			j := &job{volumeWorker: a.volumeWorker, v: v, want: &plan.VolumeSpec{Volume: clone, Source: fsm.Source{Volume: testVolume}}}
			return j.createFromSource(a.ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newBareAgent(t)
			pool := &unkillablePool{child: make(unkillableChild)}
			a.Pools, a.Mounter = []executor.Backend{pool}, newProbeMounter(nil)
			source := a.volumeEntry(testVolume)
			require.NotNil(t, unkillableDone(work(a, pool)))
			require.False(t, a.tryLock(source), "the source is free")
			require.Zero(t, pool.removed)
			close(pool.child)
			require.Eventually(t, func() bool { return a.tryLock(source) }, time.Minute, time.Millisecond)
		})
	}
}

// A snapshot that the child may still make is not reported as gone.
func TestASnapshotThatAnUnkillableChildMayStillMakeIsNotReportedGone(t *testing.T) {
	child := make(chan struct{})
	snap := &snapshotState{parked: child}
	for verb, waits := range map[fsm.SnapshotGoal]bool{fsm.SnapshotGoalRemove: true, fsm.SnapshotGoalThaw: true, fsm.SnapshotGoalTake: false} {
		s := &plan.SnapshotView{Desired: &fsm.DesiredSnapshot{Goal: verb}}
		require.Equal(t, waits, snap.isParked(s, plan.StepNone))
		require.True(t, snap.isParked(s, plan.StepRemoveSnapshot))
		require.True(t, snap.isParked(s, plan.StepTakeSnapshot))
		require.False(t, snap.isParked(s, plan.StepThaw))
	}
	close(child)
	require.False(t, snap.isParked(&plan.SnapshotView{}, plan.StepTakeSnapshot))
}

// endedChild was killed, and is gone.
type endedChild struct{ error }

func (endedChild) Stuck() <-chan struct{} { return nil }

// Undoing what a killed command did may leave a child that cannot be killed. The first child's end
// does not hide it, and of several each is waited for.
func TestAnUnkillableChildIsFoundBehindOneThatEnded(t *testing.T) {
	synctest.Test(t, testAnUnkillableChildIsFoundBehindOneThatEnded)
}

func testAnUnkillableChildIsFoundBehindOneThatEnded(t *testing.T) {
	a := newBareAgent(t)
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	killed, first, last := endedChild{errors.New("killed")}, make(unkillableChild), make(unkillableChild)
	require.Nil(t, unkillableDone(errors.Join(killed, errors.New("and not undone"))))
	a.parkVolume(v, fmt.Errorf("copy: %w", errors.Join(killed, fmt.Errorf("undo: %w", first), last)))
	require.False(t, a.tryLock(v))
	close(first)
	synctest.Wait()
	require.False(t, a.tryLock(v))
	close(last)
	synctest.Wait()
	require.True(t, a.tryLock(v))
}

// unkillableRemoval leaves an unkillable child behind when it removes.
type unkillableRemoval struct{ *unkillablePool }

func (p unkillableRemoval) RemoveSnapshot(context.Context, fsm.SnapshotID) error {
	p.removed++
	return p.child
}

// While the child of the first removal runs, neither another removal nor a snapshot is begun.
func TestASnapshotIsRemovedByOneChildAtATime(t *testing.T) {
	a := newBareAgent(t)
	pool := unkillableRemoval{&unkillablePool{child: make(unkillableChild)}}
	a.pools = map[fsm.PoolID]executor.Backend{"p": pool}
	wished := func(verb fsm.SnapshotGoal) {
		a.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Snapshots: []fsm.DesiredSnapshot{
			{Snapshot: testSnapshot, Source: testVolume, Pool: "p", Goal: verb, Attempt: 1},
		}})
	}
	look := func() *snapshotState {
		snap := a.snapshotWorker.claimSnapshot(testSnapshot)
		a.snapshotWorker.reconcileSnapshot(snap)
		a.snapshotWorker.releaseSnapshot(snap)
		return snap
	}
	wished(fsm.SnapshotGoalRemove)
	snap := look()
	wished(fsm.SnapshotGoalTake)
	look()
	wished(fsm.SnapshotGoalRemove)
	look()
	require.Equal(t, 1, pool.removed)
	a.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 2}, Full: true, Adopted: true})
	look()
	wished(fsm.SnapshotGoalRemove)
	require.Same(t, snap, look(), "the child is not forgotten with the wish")
	require.Equal(t, 1, pool.removed)
	close(pool.child)
	look()
	require.Equal(t, 2, pool.removed)
}

// unkillableDeactivate leaves an unkillable child behind when it deactivates the device.
type unkillableDeactivate struct{ *unkillablePool }

func (unkillableDeactivate) Observe(context.Context, fsm.VolumeID) (executor.Device, error) {
	return executor.Device{Exists: true, Size: 1 << 20, Path: "/dev/below"}, nil
}

func (p unkillableDeactivate) Deactivate(context.Context, fsm.VolumeID) error { return p.child }

// noResource is a Replicator that has no resources.
type noResource struct{ executor.Replicator }

func (noResource) BackingCapacity(size int64) int64 { return size }

func (noResource) Observe(context.Context, fsm.VolumeID, uint32, string) (executor.ResourceStatus, error) {
	return executor.ResourceStatus{}, nil
}

// A child that a step of a replica left behind may use the backing device, too.
func TestABackingDeviceIsNotRemovedBesideAnUnkillableChild(t *testing.T) {
	a := newBareAgent(t)
	pool := unkillableDeactivate{&unkillablePool{child: make(unkillableChild)}}
	a.Pools, a.Mounter, a.Replicator = []executor.Backend{pool}, newProbeMounter(nil), noResource{}
	a.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Volumes: []fsm.DesiredVolume{
		{Volume: testVolume, Goal: fsm.GoalRemove, Replication: &fsm.DesiredReplica{}},
	}})
	v := a.volumes[testVolume]
	require.True(t, a.tryLock(v))
	a.volumeWorker.reconcile(v)
	a.unlock(v)
	require.Zero(t, pool.removed)
	require.False(t, a.tryLock(v))
	close(pool.child)
	require.Eventually(t, func() bool { return a.tryLock(v) }, time.Minute, time.Millisecond)
}
