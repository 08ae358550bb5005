package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestS15_NoFilesystemIsMadeOnDoubt(t *testing.T) {
	other := executor.Filesystem{Type: "ext4", UUID: "11111111-2222-3333-4444-555555555555"}
	for name, tc := range map[string]struct {
		content executor.Content
		fail    error
	}{
		"something unknown is on it":  {content: executor.Content{Read: true}},
		"another filesystem is on it": {content: executor.Content{Read: true, Found: other}},
		"it cannot be read":           {fail: errors.New("input/output error")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id := backendtest.NewID()
			w.create(id, mountCap)
			epoch := w.publishVolume(id, mountCap)
			if tc.fail == nil {
				w.mounter.setContent(id, tc.content)
			}
			w.mounter.fail = func(effect, _ string) error {
				if effect == "probe" {
					return tc.fail
				}
				return nil
			}
			for range 2 {
				require.Error(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
			}
			require.Zero(t, w.mounter.count("mkfs"))
			require.Zero(t, w.mounter.count("mount"))
			w.eventually(func() bool { return w.pool.ActiveDevices() == 0 }, "what was begun is undone")
		})
	}
}

func TestS15_AnInterruptedFormatIsRepeatedOverItsOwnPieces(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	w.mounter.fail = func(effect, _ string) error {
		if effect == "mkfs" {
			return errors.New("killed")
		}
		return nil
	}
	require.Error(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
	v, _ := w.volume(id)
	uuid := v.Format.FSUUID
	require.NotEmpty(t, uuid)
	w.mounter.fail = nil
	w.restart()
	require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
	v, _ = w.volume(id)
	require.Equal(t, uuid, v.Format.FSUUID, "the first uuid stays")
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, v.Format.Phase)
}

func TestS15_AForeignFilesystemIsNotMountedAsTheVolumes(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	w.mounter.setContent(id, executor.Content{Read: true, Found: executor.Filesystem{Type: "xfs", UUID: "x"}})
	require.Equal(t, fsm.Precondition, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	require.Equal(t, 1, w.mounter.count("mount"))
}

func TestS28_WithoutAQuorum(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	w.setDown(true)
	for range 2 {
		require.True(t, isUnavailable(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
		require.True(t, isUnavailable(w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap))))
	}
	for range 2 {
		require.NoError(t, w.e.UnpublishTarget(t.Context(), id, targetPath))
		require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	}
	mounts, paths := w.mounter.leftovers()
	require.Empty(t, mounts)
	require.Empty(t, paths)
	require.Zero(t, w.pool.ActiveDevices())
	require.NotNil(t, w.publication(id).Staging, "the log has not heard yet")
	w.restartWithoutQuorum()
	w.setDown(false)
	w.connectHost(w.e)
	w.eventually(func() bool { return w.publication(id).Staging == nil }, "the outbox outlived the process")
}

// restartWithoutQuorum starts the host while there is no quorum and no session.
func (w *testHost) restartWithoutQuorum() {
	w.t.Helper()
	w.stop()
	w.build(nil, w.testCluster)
	w.e.Start()
}

func TestS28_WithoutASessionNothingIsBroughtUp(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	w.restartWithoutQuorum()
	require.True(t, isUnavailable(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath), "the host's own record is enough")
	text, err := os.ReadFile(filepath.Join(w.dir, "volumes", string(id)+".rec"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"owed":[{"sequence":`, "it is in the outbox on disk (S16)")
	mounts, _ := w.mounter.leftovers()
	require.Empty(t, mounts)
}

func TestS16_TheOutboxIsEmptyBeforeTheNextBringUpIsProposed(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	w.setDown(true)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	require.True(t, isUnavailable(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	w.stop()
	w.setDown(false)
	before := w.proposals()
	w.start(nil)
	w.eventually(func() bool { return w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)) == nil }, "staged again")
	w.mu.Lock()
	defer w.mu.Unlock()
	var last uint64
	for _, cmd := range w.commands[before:] {
		for _, ob := range cmd.GetReport().GetObservations() {
			last = max(last, ob.GetSequence())
		}
		if s := cmd.GetStageVolume(); s != nil {
			require.Positive(t, last, "the record of the tear-down went first")
			require.Greater(t, s.GetSequence(), last)
			last = s.GetSequence()
		}
	}
	v, _ := w.state.Volume(id)
	require.True(t, v.Publication("n1").Staging.Done, "and ended no later staging")
}

func TestS16_WithAnUnackedOutboxNoBringUpIsProposed(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	w.setDropReports(true)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	before := w.proposals()
	for range 2 {
		require.True(t, isUnavailable(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	}
	require.Equal(t, before, w.proposals())
	w.setDropReports(false)
	w.eventually(func() bool { return w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)) == nil }, "heard, then staged")
}

func TestS17_TheHostIDIsMadeOnceAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := records.OpenHost(dir)
	require.NoError(t, err)
	again, err := records.OpenHost(dir)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	info, err := os.Stat(filepath.Join(dir, "host.json"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	require.Empty(t, first.PoolAt("/pool"))
	for range 2 {
		require.NoError(t, first.RememberPool("/pool", "hp-1"))
	}
	again, err = records.OpenHost(dir)
	require.NoError(t, err)
	require.Equal(t, fsm.PoolID("hp-1"), again.PoolAt("/pool"))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "host.json"), []byte("{"), 0o600))
	_, err = records.OpenHost(dir)
	require.ErrorContains(t, err, "damaged", "never a new identity over an old one")
	require.NoError(t, os.Chmod(dir, 0o755))
	_, err = records.OpenHost(dir)
	require.ErrorContains(t, err, "chmod 0700")
}

func TestRegister(t *testing.T) {
	w := newTestHost(t)
	r := w.e.Register()
	require.Equal(t, "n1", r.GetNodeId())
	require.Equal(t, string(w.host.ID), r.GetHostId())
	require.NotEmpty(t, r.GetBootId())
	require.Len(t, r.GetPools(), 1)
	require.EqualValues(t, 1<<40, r.GetPools()[0].GetCapacityBytes())
	require.Equal(t, "loopfile", r.GetPools()[0].GetBackend())
}
