package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// realSnapshotLife takes a real volume through a snapshot, a clone, an expansion and a
// group snapshot, and removes all of it.
func (o *orchestrator) realSnapshotLife(h *realHost, capability fsm.Capability) {
	t, id, clone := o.t, backendtest.NewID(), backendtest.NewID()
	staging, restored := filepath.Join(h.dir, "kubelet/staging"), filepath.Join(h.dir, "kubelet/restored")
	require.NoError(t, os.MkdirAll(restored, 0o755))
	h.startCreate(id, capability)
	o.await("the volume is ready", func() bool { return h.isReady(id) })
	o.stageAt(id, h.publishVolume(id, capability), staging, capability)
	put(t, staging, "before the cut")
	snapshot := h.startSnapshot(id)
	o.await("the snapshot is ready", func() bool { return h.isSnapshotReady(snapshot) })
	put(t, staging, "after  the cut")

	size := 2 * o.sizeOf(h, id)
	require.NoError(t, h.startClone(clone, fsm.Source{Snapshot: snapshot}, size, capability))
	o.await("the clone is ready", func() bool { return h.isReady(clone) })
	o.stageAt(clone, h.publishVolume(clone, capability), restored, capability)
	require.Contains(t, read(t, filepath.Join(restored, "data")), "before the cut")
	(&testHost{testCluster: h.testCluster}).expandVolume(id, size)
	o.await("the volume is grown", func() bool { return h.noOperation(id) })

	g := newGroup(id, clone)
	o.await("the group is ready", func() bool {
		_ = h.tryGroup(g)
		return h.groupSnapshot(g).Phase == fsm.GroupReady
	})
	put(t, staging, "and writes go on")
	put(t, restored, "on both of them")
	for volume, path := range map[fsm.VolumeID]string{id: staging, clone: restored} {
		o.retry("unstage", func(ctx context.Context, e *agent.Agent) error { return e.Unstage(ctx, volume, path) })
		o.await("the log knows", func() bool { return h.publication(volume).Staging == nil })
		require.NoError(t, h.unpublishVolume(volume))
	}
	require.NoError(t, h.deleteGroup(g))
	require.NoError(t, h.deleteSnapshot(snapshot))
	require.NoError(t, h.deleteVolume(id))
	require.NoError(t, h.deleteVolume(clone))
	o.await("all is gone", func() bool {
		_, first := h.volume(id)
		_, second := h.volume(clone)
		return !first && !second && h.snapshot(snapshot).ID == "" && h.groupSnapshot(g).ID == ""
	})
	h.requireNothingLeft()
}

func (o *orchestrator) sizeOf(h *realHost, id fsm.VolumeID) int64 {
	v, _ := h.volume(id)
	return v.Size
}

// put writes and syncs, which must not hang: nothing stays frozen after a freeze's deadline.
func put(t testing.TB, path, text string) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(filepath.Join(path, "data"), os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			_, _ = f.WriteAt([]byte(text), 0)
			_ = f.Sync()
			err = f.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the filesystem at "+path+" hangs")
	}
}

// coveredElsewhere: limits are not put in force on this host; and a process that is killed within a
// freeze's Run holds the freeze's lock, which only a real process's end releases: the freezer's
// own tests kill one there.
func coveredElsewhere(point string) bool {
	return strings.HasPrefix(point, "throttle.") || strings.HasPrefix(point, "cut.")
}

// Killed between every two steps, with a real freezer and its processes: xfs refuses to mount a
// clone without a UUID of its own, ext4 is expanded before it is mounted.
func TestACrashAtEverySnapshotPointOnARealHost(t *testing.T) {
	if testing.Short() {
		t.Skip("killing a host at every point takes most of a minute")
	}
	for _, point := range agent.FaultPoints {
		if !isSnapshotPoint(point) || coveredElsewhere(point) {
			continue
		}
		for _, fsType := range []string{"ext4", "xfs"} {
			t.Run(fsType+" "+point, func(t *testing.T) {
				t.Parallel()
				h := newRealHostOn(t, reflinkDir(t))
				f := stopAt(point, 0)
				o := &orchestrator{crashHost: h, t: t, f: f}
				o.e = h.start(f)
				o.realSnapshotLife(h, fsm.Capability{Mode: writer, FSType: fsType})
				require.NotSame(t, f, o.f, "it was killed once")
			})
		}
	}
}
