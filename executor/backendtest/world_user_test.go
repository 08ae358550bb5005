package backendtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	stagedAt = "/staging"
	boundAt  = "/pod/target"
	mib      = 1 << 20
)

var ext4 = executor.Filesystem{Type: "ext4", UUID: "uuid-1"}

// mounted makes a volume with a filesystem on a host, and mounts it.
func mounted(t *testing.T, p *backendtest.Process) (fsm.VolumeID, executor.Device) {
	t.Helper()
	id := backendtest.NewID()
	require.NoError(t, p.Pools()[0].Create(t.Context(), id, 64*mib))
	d, err := p.Pools()[0].Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, p.Mounter().Format(t.Context(), d.Path, ext4, false))
	mountAndBind(t, p, d)
	return id, d
}

func mountAndBind(t *testing.T, p *backendtest.Process, d executor.Device) {
	t.Helper()
	require.NoError(t, p.Mounter().Mount(t.Context(), d, executor.MountOptions{Path: stagedAt, FSType: "ext4"}))
	require.NoError(t, p.Mounter().Bind(t.Context(), d, executor.BindOptions{StagingPath: stagedAt, Path: boundAt}))
}

func openWriter(t *testing.T, h *backendtest.Host, index uint64) *backendtest.Writer {
	t.Helper()
	w, err := h.OpenWriter(boundAt, fsm.Epoch{Incarnation: 1, Index: index})
	require.NoError(t, err)
	return w
}

func write(t *testing.T, w *backendtest.Writer) backendtest.Stamp {
	t.Helper()
	s, err := w.Write()
	require.NoError(t, err)
	return s
}

func TestAReaderFindsWhatWasWrittenAndTheDiskWhatWasSynced(t *testing.T) {
	h, p := oneHost(nil, false)
	id, d := mounted(t, p)
	w := openWriter(t, h, 1)
	first := write(t, w)
	require.NoError(t, w.Sync())
	second := write(t, w)
	found, err := h.ReadStamps(boundAt)
	require.NoError(t, err)
	require.Equal(t, []backendtest.Stamp{first, second}, found)
	require.Equal(t, []backendtest.Stamp{first}, h.DiskStamps(id))
	require.Equal(t, fsm.Busy, reasonOf(p.Mounter().Unmount(t.Context(), d, boundAt)), "a writer has it open")
	w.Close()
	for _, path := range []string{boundAt, stagedAt, stagedAt} {
		require.NoError(t, p.Mounter().Unmount(t.Context(), d, path))
	}
	require.Equal(t, []backendtest.Stamp{first, second}, h.DiskStamps(id), "the last unmount writes what is dirty")
	_, err = w.Write()
	require.ErrorIs(t, err, backendtest.ErrGone)
}

// A loss of power loses what was not synced, and only that: each block as it was chosen.
func TestALossOfPowerLosesExactlyWhatWasNotSynced(t *testing.T) {
	for outcome, survives := range []bool{false, true, false} {
		h, p := oneHost(nil, false)
		id, _ := mounted(t, p)
		w := openWriter(t, h, 1)
		synced := write(t, w)
		require.NoError(t, w.Sync())
		onDevice, inPages := write(t, w), write(t, w)
		requireEvent(t, h.World(), backendtest.EventWriteback).Do()
		asked := 0
		h.PowerLoss(func(n int) int { asked++; require.Equal(t, 3, n); return outcome })
		require.Equal(t, 1, asked, "one block is in the disk's cache")
		want := []backendtest.Stamp{synced}
		if survives {
			want = append(want, onDevice)
		}
		require.Equal(t, want, h.DiskStamps(id))
		require.NotContains(t, h.DiskStamps(id), inPages)
		require.ErrorIs(t, w.Sync(), backendtest.ErrGone)
		require.NoError(t, h.World().Ledger().CheckKept(id, h.DiskStamps(id)))
		require.Error(t, h.World().Ledger().CheckKept(id, nil))
	}
}

func TestARebootLosesPagesAndNothingThatADiskHas(t *testing.T) {
	h, p := oneHost(nil, false)
	id, _ := mounted(t, p)
	w := openWriter(t, h, 1)
	onDevice := write(t, w)
	requireEvent(t, h.World(), backendtest.EventWriteback).Do()
	write(t, w)
	boot := h.BootID()
	h.Reboot()
	require.NotEqual(t, boot, h.BootID())
	require.Equal(t, []backendtest.Stamp{onDevice}, h.DiskStamps(id))
	require.Empty(t, h.Audit().Mounts)
	require.Empty(t, h.Audit().Devices)
	require.Nil(t, h.Process())
	_, err := p.Pools()[0].Activate(t.Context(), id, false)
	require.ErrorIs(t, err, backendtest.ErrProcessGone)
}

func TestAFrozenFilesystemMakesWritersWaitUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := oneHost(nil, false)
		id, d := mounted(t, p)
		w := openWriter(t, h, 1)
		before := write(t, w)
		f, err := p.Freezer().Freeze(t.Context(), id, stagedAt, time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.Equal(t, []backendtest.Stamp{before}, h.DiskStamps(id), "a freeze writes what is dirty")
		_, err = w.Write()
		require.ErrorIs(t, err, backendtest.ErrWaits)
		_, err = p.Freezer().Freeze(t.Context(), id, stagedAt, time.Now().Add(time.Minute))
		require.Equal(t, fsm.Busy, reasonOf(err))
		p.Kill()
		_, err = w.Write()
		require.ErrorIs(t, err, backendtest.ErrWaits, "a freeze outlives its process")
		time.Sleep(time.Minute)
		write(t, w)
		require.Error(t, f.Thaw(t.Context()), "its process is gone")
		p = h.StartProcess()
		f, err = p.Freezer().Freeze(t.Context(), id, stagedAt, time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Freezer().Recover(t.Context()))
		require.ErrorContains(t, f.Run(t.Context(), nil), "has ended")
		require.NoError(t, p.Mounter().Shutdown(t.Context(), d))
		_, err = w.Write()
		require.Error(t, err)
	})
}

func TestSnapshotsOfTwoVolumesAreCheckedForOneInstant(t *testing.T) {
	h, p := oneHost(nil, false)
	first, d := mounted(t, p)
	w := openWriter(t, h, 1)
	take := func(id fsm.VolumeID) []backendtest.Stamp {
		snapshot := backendtest.NewSnapshotID()
		require.NoError(t, p.Pools()[0].(executor.SnapshotBackend).TakeSnapshot(t.Context(), id, snapshot, nil))
		stamps, exists := h.SnapshotStamps(snapshot)
		require.True(t, exists)
		return stamps
	}
	early := take(first)
	write(t, w)
	require.NoError(t, w.Sync())
	late := take(first)
	w.Close()
	for _, path := range []string{boundAt, stagedAt} {
		require.NoError(t, p.Mounter().Unmount(t.Context(), d, path))
	}
	second, _ := mounted(t, p)
	w = openWriter(t, h, 2)
	write(t, w)
	require.NoError(t, w.Sync())
	l, other := h.World().Ledger(), take(second)
	require.NoError(t, l.CheckInstant(map[fsm.VolumeID][]backendtest.Stamp{first: late, second: other}))
	require.ErrorContains(t, l.CheckInstant(map[fsm.VolumeID][]backendtest.Stamp{first: early, second: other}), "is missing")
	require.NoError(t, l.CheckInstant(map[fsm.VolumeID][]backendtest.Stamp{first: early, second: nil}))
}

func TestAFullPoolTakesNoWritesToWhatItHasNotAllocated(t *testing.T) {
	h, p := oneHost(nil, false)
	id, _ := mounted(t, p)
	w := openWriter(t, h, 1)
	kept := write(t, w)
	require.NoError(t, w.Sync())
	h.Pool(worldPool).SetFullData(true)
	write(t, w)
	require.Error(t, w.Sync())
	require.Equal(t, []backendtest.Stamp{kept}, h.World().Ledger().Acknowledged(id))
	require.Zero(t, p.Pools()[0].Facts(t.Context()).Free)
	_, err := w.Write()
	require.Error(t, err, "the filesystem stopped")
}

func TestAHangingDiskMakesWritersWait(t *testing.T) {
	h, p := oneHost(nil, false)
	id, _ := mounted(t, p)
	w := openWriter(t, h, 1)
	s := write(t, w)
	h.Pool(worldPool).SetHanging(true)
	require.ErrorIs(t, w.Sync(), backendtest.ErrWaits)
	require.Empty(t, h.World().Events())
	require.Empty(t, h.World().Ledger().Acknowledged(id))
	h.Pool(worldPool).SetHanging(false)
	require.NoError(t, w.Sync())
	require.Equal(t, []backendtest.Stamp{s}, h.World().Ledger().Acknowledged(id))
}
