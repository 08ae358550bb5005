package executor_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// copyPoints are those that only snapshots, clones, growth and limits pass.
func copyPoint(point string) bool {
	step := point[:strings.LastIndex(point, ".")]
	switch step {
	case "create-from", "grow", "identity", "grow-filesystem", "throttle", "freeze", "cut", "thaw", "remove-snapshot", "forget-snapshot", "save-snapshot":
		return true
	}
	return false
}

// volumePoints are those on the way of a volume's life by itself.
func volumePoints() (points []string) {
	for _, point := range executor.FaultPoints {
		if !copyPoint(point) {
			points = append(points, point)
		}
	}
	return points
}

const clonePath = "/kubelet/clone"

// copiesLife takes a staged volume through a snapshot, limits, an expansion, clones and
// a group snapshot, and removes all of it.
func (o *orchestrator) copiesLife(w *world, capability fsm.Capability) {
	t := o.t
	id := backendtest.NewID()
	w.startCreate(id, capability)
	o.await("the volume is ready", func() bool { return w.isReady(id) })
	epoch := w.publishVolume(id, capability)
	o.stageAt(id, epoch, stagingPath, capability)
	w.pool.Write(id, 4096, []byte("before the cut"))

	snapshot := w.startSnapshot(id)
	o.await("the snapshot is ready", func() bool { return w.isCut(snapshot) })
	cut := w.snapshot(snapshot).TakenAt
	w.pool.Write(id, 4096, []byte("after  the cut"))
	w.modifyVolume(id, fsm.Limits{ReadIOPS: 100})
	o.await("the limits are in force", func() bool { return w.settled(id) })
	w.expandVolume(id, 2*testSize)
	o.await("the volume is grown", func() bool { return w.settled(id) })
	o.again("expand", func(ctx context.Context, e *executor.Executor) error {
		size, err := e.ExpandNode(ctx, executor.ExpandRequest{Volume: id, Path: stagingPath, Size: 2 * testSize})
		if err == nil {
			require.EqualValues(t, 2*testSize, size)
		}
		return err
	})
	ofSnapshot := o.clone(w, fsm.Source{Snapshot: snapshot}, id, capability)
	ofVolume := o.clone(w, fsm.Source{Volume: id}, id, capability)
	require.True(t, bytes.Contains(w.pool.Read(ofSnapshot), []byte("before the cut")))
	require.True(t, bytes.Contains(w.pool.Read(ofVolume), []byte("after  the cut")))
	epochOfClone := w.publishVolume(ofSnapshot, capability)
	o.stageAt(ofSnapshot, epochOfClone, clonePath, capability)

	members := []fsm.VolumeID{id, ofSnapshot, ofVolume}
	if capability.Block { // S19: raw and written to, they cannot be held quiet
		o.unstageAt(w, id, stagingPath)
		o.unstageAt(w, ofSnapshot, clonePath)
		require.NoError(t, w.unpublishVolume(id))
		require.NoError(t, w.unpublishVolume(ofSnapshot))
	}
	g := newGroup(members...)
	o.await("the group is ready", func() bool {
		_ = w.tryGroup(g) // given up and begun again, as often as it takes
		return w.groupSnapshot(g).Phase == fsm.GroupReady
	})
	w.onlyWholeGroups(g)
	o.await("nothing is frozen", func() bool { return w.ice.count() == 0 })
	require.Equal(t, cut, w.snapshot(snapshot).TakenAt, "the cut's time is constant")
	require.True(t, bytes.Contains(w.pool.ReadSnapshot(snapshot), []byte("before the cut")), "and so is its content")
	if !capability.Block {
		o.unstageAt(w, id, stagingPath)
		o.unstageAt(w, ofSnapshot, clonePath)
		require.NoError(t, w.unpublishVolume(id))
		require.NoError(t, w.unpublishVolume(ofSnapshot))
	}
	require.NoError(t, w.deleteGroup(g))
	require.NoError(t, w.deleteSnapshot(snapshot))
	for _, member := range members {
		require.NoError(t, w.deleteVolume(member))
	}
	o.await("all is gone", func() bool {
		for _, member := range members {
			if _, known := w.volume(member); known {
				return false
			}
		}
		return w.snapshot(snapshot).ID == "" && w.groupSnapshot(g).ID == ""
	})
	w.nothingIsLeft()
}

func (o *orchestrator) stageAt(id fsm.VolumeID, epoch fsm.Epoch, path string, capability fsm.Capability) {
	o.again("stage", func(ctx context.Context, e *executor.Executor) error {
		return e.Stage(ctx, executor.StageRequest{Volume: id, Epoch: epoch, Path: path, Capability: capability})
	})
}

func (o *orchestrator) unstageAt(w *world, id fsm.VolumeID, path string) {
	o.again("unstage", func(ctx context.Context, e *executor.Executor) error { return e.Unstage(ctx, id, path) })
	o.await("the log knows", func() bool { return w.publication(id).Staging == nil })
}

// clone asks for a larger volume of a source's content, and waits for it.
func (o *orchestrator) clone(w *world, source fsm.Source, content fsm.VolumeID, capability fsm.Capability) fsm.VolumeID {
	id := backendtest.NewID()
	w.mount.copied(content, id)
	require.NoError(o.t, w.startClone(id, source, 3*testSize, capability))
	o.await("the clone is ready", func() bool { return w.isReady(id) })
	return id
}

// onlyWholeGroups: all members were cut, and exactly they are there.
func (w *world) onlyWholeGroups(g *group) {
	w.t.Helper()
	for source, id := range g.members {
		require.NotNil(w.t, w.pool.ReadSnapshot(id), "the snapshot of %s", source)
		require.Equal(w.t, fsm.SnapshotReady, w.snapshot(id).Phase)
	}
}

// times is how often a point is passed by before the kill, at most: each of the copies'
// own points, and the others once, which have a test of their own.
func times(point string) int {
	if copyPoint(point) {
		return 6
	}
	return 1
}

// Killed between every two steps of a snapshot, a clone, an expansion, a group snapshot
// and a change of limits: it converges, nothing stays frozen and nothing leaks.
func TestACrashAtEveryPointOfACopy(t *testing.T) {
	if testing.Short() {
		t.Skip("killing a host at every point takes most of a minute")
	}
	for _, point := range executor.FaultPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for _, capability := range []fsm.Capability{mountCap, blockCap} {
				for skip := range times(point) {
					w := newStoppedWorld(t)
					f := freezeAt(point, skip)
					o := &orchestrator{machine: w, t: t, f: f}
					o.e = w.start(f)
					o.copiesLife(w, capability)
					if !f.isDead() {
						break // it is not passed that often
					}
				}
			}
		})
	}
}

func TestEveryFaultPointOfACopyIsPassed(t *testing.T) {
	w := newStoppedWorld(t)
	f := freezeAt("", 0)
	o := &orchestrator{machine: w, t: t, f: f}
	o.e = w.start(f)
	o.copiesLife(w, mountCap)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, point := range executor.FaultPoints {
		if copyPoint(point) {
			require.True(t, f.seen[point], point)
		}
	}
	for point := range f.seen {
		require.Contains(t, executor.FaultPoints, point)
	}
	require.Equal(t, 1, w.mount.count("mkfs"))
	require.Equal(t, 1, w.mount.count("identity"))
	require.Equal(t, 2, w.mount.count("grow-filesystem"))
}
