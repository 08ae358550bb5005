package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// isSnapshotPoint reports whether only snapshots, clones, expansion and limits pass the point.
func isSnapshotPoint(point string) bool {
	step := point[:strings.LastIndex(point, ".")]
	switch step {
	case "create-from", "grow", "identity", "grow-filesystem", "throttle", "freeze", "cut", "thaw", "remove-snapshot", "forget-snapshot", "save-snapshot":
		return true
	}
	return false
}

// volumePoints are the points that are passed in the life of a volume without snapshots.
func volumePoints() (points []string) {
	for _, point := range agent.FaultPoints {
		if !isSnapshotPoint(point) {
			points = append(points, point)
		}
	}
	return points
}

const clonePath = "/kubelet/clone"

// snapshotLife takes a staged volume through a snapshot, limits, an expansion, clones and a group
// snapshot, and removes all of it.
func (o *orchestrator) snapshotLife(w *testHost, capability fsm.Capability) {
	t := o.t
	id := backendtest.NewID()
	w.startCreate(id, capability)
	o.await("the volume is ready", func() bool { return w.isReady(id) })
	epoch := w.publishVolume(id, capability)
	o.stageAt(id, epoch, stagingPath, capability)
	w.pool.Write(id, 4096, []byte("before the cut"))

	snapshot := w.startSnapshot(id)
	o.await("the snapshot is ready", func() bool { return w.isSnapshotReady(snapshot) })
	taken := w.snapshot(snapshot).TakenAt
	w.pool.Write(id, 4096, []byte("after  the cut"))
	w.modifyVolume(id, fsm.Limits{ReadIOPS: 100})
	o.await("the limits are in force", func() bool { return w.noOperation(id) })
	w.expandVolume(id, 2*testSize)
	o.await("the volume is grown", func() bool { return w.noOperation(id) })
	o.retry("expand", func(ctx context.Context, e *agent.Agent) error {
		size, err := e.Expand(ctx, executor.ExpandRequest{Volume: id, Path: stagingPath, Size: 2 * testSize})
		if err == nil {
			require.EqualValues(t, 2*testSize, size)
		}
		return err
	})
	ofSnapshot := o.clone(w, fsm.Source{Snapshot: snapshot}, id, capability)
	ofVolume := o.clone(w, fsm.Source{Volume: id}, id, capability)
	require.True(t, w.pool.Content(ofSnapshot).Contains("before the cut"))
	require.True(t, w.pool.Content(ofVolume).Contains("after  the cut"))
	epochOfClone := w.publishVolume(ofSnapshot, capability)
	o.stageAt(ofSnapshot, epochOfClone, clonePath, capability)

	members := []fsm.VolumeID{id, ofSnapshot, ofVolume}
	if capability.Block { // S19: a raw volume that is open for writing cannot be frozen
		o.unstageAt(w, id, stagingPath)
		o.unstageAt(w, ofSnapshot, clonePath)
		require.NoError(t, w.unpublishVolume(id))
		require.NoError(t, w.unpublishVolume(ofSnapshot))
	}
	g := newGroup(members...)
	o.await("the group is ready", func() bool {
		_ = w.tryGroup(g) // given up and begun again, as often as needed
		return w.groupSnapshot(g).Phase == fsm.GroupReady
	})
	w.requireWholeGroup(g)
	o.await("nothing is frozen", func() bool { return w.freezer.count() == 0 })
	require.Equal(t, taken, w.snapshot(snapshot).TakenAt, "the cut's time is constant")
	require.True(t, w.snapshotContains(snapshot, "before the cut"), "and so is its content")
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
	w.requireNothingLeft()
}

func (o *orchestrator) stageAt(id fsm.VolumeID, epoch fsm.Epoch, path string, capability fsm.Capability) {
	o.retry("stage", func(ctx context.Context, e *agent.Agent) error {
		return e.Stage(ctx, executor.StageRequest{Volume: id, Epoch: epoch, Path: path, Capability: capability})
	})
}

func (o *orchestrator) unstageAt(w *testHost, id fsm.VolumeID, path string) {
	o.retry("unstage", func(ctx context.Context, e *agent.Agent) error { return e.Unstage(ctx, id, path) })
	o.await("the log knows", func() bool { return w.publication(id).Staging == nil })
}

// clone asks for a larger volume with a source's content, and waits for it.
func (o *orchestrator) clone(w *testHost, source fsm.Source, content fsm.VolumeID, capability fsm.Capability) fsm.VolumeID {
	id := backendtest.NewID()
	w.mounter.copyContent(content, id)
	require.NoError(o.t, w.startClone(id, source, 3*testSize, capability))
	o.await("the clone is ready", func() bool { return w.isReady(id) })
	return id
}

// requireWholeGroup: there are snapshots of all members, and no others.
func (w *testHost) requireWholeGroup(g *group) {
	w.t.Helper()
	for source, id := range g.members {
		require.True(w.t, w.hasSnapshot(id), "the snapshot of %s", source)
		require.Equal(w.t, fsm.SnapshotReady, w.snapshot(id).Phase)
	}
}

// maxSkips is how often a point is passed before the kill, at most: several times for the
// copies' own points, and once for the others, which have a test of their own.
func maxSkips(point string) int {
	if isSnapshotPoint(point) {
		return 6
	}
	return 1
}

// Killed between every two steps of a snapshot, a clone, an expansion, a group snapshot and a
// change of limits, the host converges, nothing stays frozen and nothing leaks.
func TestACrashAtEverySnapshotPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("killing a host at every point takes most of a minute")
	}
	for _, point := range agent.FaultPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for _, capability := range []fsm.Capability{mountCap, blockCap} {
				for skip := range maxSkips(point) {
					w := newStoppedHost(t)
					f := stopAt(point, skip)
					o := &orchestrator{crashHost: w, t: t, f: f}
					o.e = w.start(f)
					o.snapshotLife(w, capability)
					if !f.isStopped() {
						break // it is not passed that often
					}
				}
			}
		})
	}
}

func TestEverySnapshotFaultPointIsHit(t *testing.T) {
	w := newStoppedHost(t)
	f := stopAt("", 0)
	o := &orchestrator{crashHost: w, t: t, f: f}
	o.e = w.start(f)
	o.snapshotLife(w, mountCap)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, point := range agent.FaultPoints {
		if isSnapshotPoint(point) {
			require.True(t, f.hits[point], point)
		}
	}
	for point := range f.hits {
		require.Contains(t, agent.FaultPoints, point)
	}
	require.Equal(t, 1, w.mounter.count("mkfs"))
	require.Equal(t, 1, w.mounter.count("identity"))
	require.Equal(t, 2, w.mounter.count("grow-filesystem"))
}
