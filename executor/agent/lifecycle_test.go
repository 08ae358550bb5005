package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestVolumeLifecycle(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id := backendtest.NewID()
			w.create(id, capability)
			require.Equal(t, 1, w.pool.Effects("create", id))
			epoch := w.publishVolume(id, capability)
			for range 10 { // CSI-NODE-NodeStageVolume-02
				require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, capability)))
				require.True(t, w.publication(id).Staging.Done, "committed before it returns")
			}
			for range 10 { // CSI-NODE-NodePublishVolume-02
				require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
			}
			mounts, _ := w.mounter.leftovers()
			want := []string{"/real" + targetPath, "/real" + stagingPath}
			if capability.Block {
				want = want[:1]
			}
			require.Equal(t, want, mounts)
			require.Equal(t, 1, w.pool.Effects("attach", id))
			w.eventually(func() bool { return w.publication(id).Targets[0].Done }, "the log knows of the target")
			require.Equal(t, fsm.Precondition, reasonOf(w.e.Unstage(t.Context(), id, stagingPath)), "CSI-NODE-NodeUnstageVolume-09")
			for range 2 {
				require.NoError(t, w.e.UnpublishTarget(t.Context(), id, targetPath))
			}
			for range 2 {
				require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			}
			require.Nil(t, w.publication(id).Staging, "drained before it returns")
			require.NoError(t, w.unpublishVolume(id))
			require.NoError(t, w.deleteVolume(id))
			w.eventually(func() bool { _, known := w.volume(id); return !known }, "the host reported it gone")
			w.requireNothingLeft()
			require.Equal(t, 1, w.pool.Effects("remove", id))
			if !capability.Block {
				require.Equal(t, 1, w.mounter.count("mkfs"))
			}
		})
	}
}

func TestS15_AFilesystemIsMadeOnceInAVolumesLife(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	v, _ := w.volume(id)
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, v.Format.Phase)
	for range 2 {
		require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
		require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
	}
	require.Equal(t, 1, w.mounter.count("mkfs"))
}

func TestUnknownVolumes(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	for range 2 {
		require.Equal(t, fsm.NotFound, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, fsm.Epoch{}, mountCap))))
		require.Equal(t, fsm.NotFound, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, fsm.Epoch{}, mountCap))))
		_, err := w.e.VolumeStats(t.Context(), id, stagingPath)
		require.Equal(t, fsm.NotFound, reasonOf(err))
		for _, unknown := range []fsm.VolumeID{id, "", "../../etc"} {
			require.NoError(t, w.e.Unstage(t.Context(), unknown, stagingPath))
			require.NoError(t, w.e.UnpublishTarget(t.Context(), unknown, targetPath))
		}
	}
	w.eventually(func() bool { return len(w.records()) == 0 }, "asking leaves nothing behind")
}

func TestRefusals(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	stage := func(change func(*fsm.Epoch, *string, *fsm.Capability)) error {
		req := w.stageRequest(id, epoch, mountCap)
		change(&req.Epoch, &req.Path, &req.Capability)
		return w.e.Stage(t.Context(), req)
	}
	for name, tc := range map[string]struct {
		err  func() error
		want fsm.Reason
	}{
		"no epoch at all": {func() error {
			return stage(func(e *fsm.Epoch, _ *string, _ *fsm.Capability) { *e = fsm.Epoch{} })
		}, fsm.StaleEpoch},
		"an older epoch": {func() error {
			return stage(func(e *fsm.Epoch, _ *string, _ *fsm.Capability) { e.Index-- })
		}, fsm.StaleEpoch},
		"another path": {func() error {
			return stage(func(_ *fsm.Epoch, p *string, _ *fsm.Capability) { *p = "/other" })
		}, fsm.InUse},
		"a path that is not allowed": {func() error {
			return stage(func(_ *fsm.Epoch, p *string, _ *fsm.Capability) { *p = "rel" })
		}, fsm.Invalid},
		"another capability": {func() error {
			return stage(func(_ *fsm.Epoch, _ *string, c *fsm.Capability) { *c = blockCap })
		}, fsm.Incompatible},
		"publish from another staging path": {func() error {
			req := w.publishRequest(id, epoch, mountCap)
			req.StagingPath = "/other"
			return w.e.PublishTarget(t.Context(), req)
		}, fsm.Precondition},
		"publish without a staging path": {func() error {
			req := w.publishRequest(id, epoch, mountCap)
			req.StagingPath = ""
			return w.e.PublishTarget(t.Context(), req)
		}, fsm.Precondition},
		"publish with a bad flag": {func() error {
			req := w.publishRequest(id, epoch, mountCap)
			req.Flags = []string{"bad"}
			return w.e.PublishTarget(t.Context(), req)
		}, fsm.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.want, reasonOf(tc.err()))
			}
		})
	}
	mounts, _ := w.mounter.leftovers()
	require.Equal(t, []string{"/real" + stagingPath}, mounts)
	require.NoError(t, w.e.Unstage(t.Context(), id, "/another/path"), "CSI-NODE-NodeUnstageVolume-03")
	mounts, _ = w.mounter.leftovers()
	require.Len(t, mounts, 1, "what is staged elsewhere stays")
}

func TestSeveralTargets(t *testing.T) {
	w := newTestHost(t)
	capability := fsm.Capability{Mode: multi, FSType: "ext4"}
	id, epoch := w.staged(capability)
	for _, path := range []string{"/pod/1", "/pod/2"} {
		req := w.publishRequest(id, epoch, capability)
		req.TargetPath, req.ReadOnly = path, path == "/pod/2"
		for range 2 {
			require.NoError(t, w.e.PublishTarget(t.Context(), req))
		}
		req.ReadOnly = !req.ReadOnly
		require.Equal(t, fsm.Incompatible, reasonOf(w.e.PublishTarget(t.Context(), req)), "CSI-NODE-NodePublishVolume-19")
	}
	require.NoError(t, w.e.UnpublishTarget(t.Context(), id, "/pod/1"))
	mounts, paths := w.mounter.leftovers()
	require.Equal(t, []string{"/real" + stagingPath, "/real/pod/2"}, mounts, "CSI-NODE-NodeUnpublishVolume-09")
	require.Equal(t, []string{"/pod/2"}, paths)
	w.eventually(func() bool { return len(w.publication(id).Targets) == 1 }, "the log heard of it")
}

func TestABusyMountIsBusyAndStays(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	w.mounter.setBusy(stagingPath, true)
	for range 2 {
		require.Equal(t, fsm.Busy, reasonOf(w.e.Unstage(t.Context(), id, stagingPath)))
	}
	require.NotNil(t, w.publication(id).Staging, "nothing was reported that was not observed (S16)")
	w.mounter.setBusy(stagingPath, false)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
}

func TestStats(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	for _, path := range []string{stagingPath, targetPath} {
		s, err := w.e.VolumeStats(t.Context(), id, path)
		require.NoError(t, err)
		require.EqualValues(t, testSize, s.Bytes.Total)
		require.False(t, s.Condition.Abnormal)
	}
	for _, path := range []string{"/elsewhere", "some/path"} {
		_, err := w.e.VolumeStats(t.Context(), id, path)
		require.Equal(t, fsm.NotFound, reasonOf(err))
	}
	w.pool.LoseImage(id)
	for range 2 {
		s, err := w.e.VolumeStats(t.Context(), id, stagingPath)
		require.NoError(t, err)
		require.True(t, s.Condition.Abnormal)
	}
	w.eventually(func() bool { v, _ := w.volume(id); return v.Condition.Abnormal }, "the log is told")
	require.NoError(t, w.pool.Create(t.Context(), id, testSize))
	w.restart()
	_, err := w.e.VolumeStats(t.Context(), id, stagingPath)
	require.NoError(t, err)
	w.eventually(func() bool { v, _ := w.volume(id); return !v.Condition.Abnormal }, "and that it is over")
}

func TestResyncFindsManualChangesOnTheHost(t *testing.T) {
	w := newTestHost(t)
	w.stop()
	w.resync = time.Millisecond
	w.start(nil)
	id := backendtest.NewID()
	w.create(id, mountCap)
	w.pool.LoseImage(id)
	w.eventually(func() bool { return w.replicaState(id) == fsm.ReplicaMissing }, "it is reported")
}

func TestInventory(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	found, err := w.e.Inventory(t.Context())
	require.NoError(t, err)
	kinds := map[string]fsm.VolumeID{}
	for _, item := range found.Items {
		kinds[item.Kind] = item.Volume
	}
	require.Equal(t, map[string]fsm.VolumeID{"image": id, "loop": id, "mount": id}, kinds)
	w.pool.SetAbsent(true)
	_, err = w.e.Inventory(t.Context())
	require.Error(t, err, "of an absent pool nothing is known")
	require.True(t, w.e.PoolFacts(t.Context())[0].Absent)
}
