package freeze

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// onEachFilesystem runs a test on both filesystems.
func onEachFilesystem(t *testing.T, test func(t *testing.T, d disk)) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) { test(t, newDisk(t, fsType)) })
	}
}

func TestS19_AFreezeBlocksWritersUntilItIsThawed(t *testing.T) {
	onEachFilesystem(t, func(t *testing.T, d disk) {
		f, id := newFreezer(t), newID()
		require.False(t, f.Frozen(id))
		for range 2 {
			h := freeze(t, f, id, d, testFreeze)
			require.True(t, f.Frozen(id))
			require.FileExists(t, recordPath(f.dir, id))
			writer := d.write("data")
			requireBlocked(t, writer)
			_, err := f.Freeze(t.Context(), id, d.path, time.Now().Add(time.Second))
			requireRejected(t, fsm.Busy, err)
			ran := 0
			for range 2 {
				require.NoError(t, h.Run(t.Context(), func(context.Context) error { ran++; return nil }))
			}
			require.Equal(t, 2, ran)
			for range 2 {
				require.NoError(t, h.Thaw(t.Context()))
			}
			requireWritten(t, writer)
			require.False(t, f.Frozen(id))
			require.Positive(t, h.Elapsed())
			require.Equal(t, h.Elapsed(), h.Elapsed(), "it lasts no longer")
			requireRejected(t, fsm.Busy, h.Run(t.Context(), func(context.Context) error { ran++; return nil }))
			require.Equal(t, 2, ran, "no cut under a freeze that has ended")
			require.NoError(t, unix.Unmount(d.path, 0), "nobody holds the mount any more")
			remount(t, d)
		}
	})
}

func remount(t *testing.T, d disk) {
	t.Helper()
	kind := "ext4"
	if unix.Mount(d.device, d.path, kind, 0, "") != nil {
		require.NoError(t, unix.Mount(d.device, d.path, "xfs", 0, ""))
	}
}

func TestS19_TheDeadlineThawsByItself(t *testing.T) {
	onEachFilesystem(t, func(t *testing.T, d disk) {
		f, id := newFreezer(t), newID()
		var h *activeFreeze
		whileFrozen(t, func(lasts time.Duration) bool {
			h = freezeBriefly(t, f, id, d, lasts)
			return h != nil
		})
		writer := d.write("data")
		requireWritten(t, writer)
		require.LessOrEqual(t, h.record.remaining(), time.Duration(0), "not before the deadline")
		<-h.exited
		require.Positive(t, h.Elapsed())
		require.False(t, f.Frozen(id))
		requireRejected(t, fsm.Busy, h.Run(t.Context(), func(context.Context) error { return errors.New("must not run") }))
		require.NoError(t, h.Thaw(t.Context()))
	})
}

func TestS19_TheDeadlineThawsAlthoughTheStarterWasKilledUnderTheFreeze(t *testing.T) {
	onEachFilesystem(t, func(t *testing.T, d disk) {
		f, id := newFreezer(t), newID()
		whileFrozen(t, func(lasts time.Duration) bool {
			node, froze := tryFreezerProcess(t, f, id, d, lasts)
			writer := d.write("data")
			require.NoError(t, node.Process.Kill())
			_ = node.Wait()
			wrote := ends(writer, blockedFor)
			still := d.frozen() // looked at after the writer: it was frozen all the time before
			requireWritten(t, writer)
			require.False(t, still && wrote, "a writer passed a frozen filesystem")
			return froze && still
		})
		require.Eventually(t, func() bool { return !f.Frozen(id) }, testTimeout, 5*time.Millisecond, "its record is removed")
	})
}

func TestS19_AHangingRunDoesNotKeepTheFilesystemFrozen(t *testing.T) {
	d := newDisk(t, "ext4")
	f, id := newFreezer(t), newID()
	whileFrozen(t, func(lasts time.Duration) (ran bool) {
		h := freezeBriefly(t, f, id, d, lasts)
		if h == nil {
			return false
		}
		writer := d.write("data")
		err := h.Run(t.Context(), func(ctx context.Context) error {
			ran = true
			<-ctx.Done()
			requireWritten(t, writer) // thawed without the lock, after the grace
			return nil                // and the cut believes that it was done
		})
		requireRejected(t, fsm.Busy, err)
		<-h.exited
		return ran
	})
	require.False(t, f.Frozen(id))
}

func TestS19_ARunFailsWhenSomebodyElseThawed(t *testing.T) {
	onEachFilesystem(t, func(t *testing.T, d disk) {
		for name, during := range map[string]bool{"before it": false, "meanwhile": true} {
			t.Run(name, func(t *testing.T) {
				f := newFreezer(t)
				h := freeze(t, f, newID(), d, testFreeze)
				if !during {
					require.NoError(t, thawNow(h.target))
				}
				ran := false
				err := h.Run(t.Context(), func(context.Context) error {
					ran = true
					return thawNow(h.target) // as fsfreeze --unfreeze does
				})
				requireRejected(t, fsm.Busy, err)
				require.Equal(t, during, ran)
				require.NoError(t, h.Thaw(t.Context()))
			})
		}
	})
}

func TestAFailureUnderAFreezeSaysWhy(t *testing.T) {
	d := newDisk(t, "ext4")
	h := freeze(t, newFreezer(t), newID(), d, testFreeze)
	broken := errors.New("the disk is full")
	require.ErrorIs(t, h.Run(t.Context(), func(context.Context) error { return broken }), broken)
	require.True(t, d.frozen(), "the freeze goes on; it is for the caller to end it")
}

func TestS19_WithoutItsProcessAFreezeEndsAtOnce(t *testing.T) {
	d := newDisk(t, "ext4")
	f, id := newFreezer(t), newID()
	h := freeze(t, f, id, d, testFreeze)
	writer := d.write("data")
	require.NoError(t, h.child.Process.Kill())
	requireWritten(t, writer)
	<-h.exited
	require.False(t, f.Frozen(id))
	requireRejected(t, fsm.Busy, h.Run(t.Context(), func(context.Context) error { return nil }))
}

func TestS19_RecoverThawsWhatWasLeftFrozen(t *testing.T) {
	onEachFilesystem(t, func(t *testing.T, d disk) {
		f, id := newFreezer(t), newID()
		node := startFreezerProcess(t, f, id, d)
		thaws := thawProcessOf(t, f, id)
		writer := d.write("data")
		require.NoError(t, node.Process.Kill())
		_ = node.Wait()
		require.NoError(t, thaws.Kill()) // as when a container's processes are all killed
		requireBlocked(t, writer)
		for range 2 {
			require.NoError(t, f.Recover(t.Context()))
			require.False(t, f.Frozen(id))
		}
		requireWritten(t, writer)
		require.NoError(t, freeze(t, f, id, d, testFreeze).Thaw(t.Context()))
	})
}

func TestS19_RecoverThawsWhatIsMountedNowhere(t *testing.T) {
	onEachFilesystem(t, func(t *testing.T, d disk) {
		f, id := newFreezer(t), newID()
		node := startFreezerProcess(t, f, id, d)
		thaws := thawProcessOf(t, f, id)
		require.ErrorIs(t, unix.Unmount(d.path, 0), unix.EBUSY, "the process that thaws holds the mount")
		require.NoError(t, node.Process.Kill())
		_ = node.Wait()
		require.NoError(t, thaws.Kill())
		require.Eventually(t, func() bool { return unix.Unmount(d.path, 0) == nil }, testTimeout, 5*time.Millisecond)
		require.NoError(t, f.Recover(t.Context()))
		require.False(t, f.Frozen(id))
		remount(t, d)
		requireWritten(t, d.write("data"))
	})
}

func TestRecoverOfAnEarlierBootOrAnotherDiskOnlyRemovesTheRecord(t *testing.T) {
	d := newDisk(t, "ext4")
	f := newFreezer(t)
	target, location, err := openRoot(d.path)
	require.NoError(t, err)
	defer target.Close()
	require.NotZero(t, location.DiskSeq)
	require.Equal(t, d.device, location.DevPath)
	boot, err := bootID()
	require.NoError(t, err)
	gone := location
	gone.Device, gone.DiskSeq = unix.Mkdev(7, 1<<19), location.DiskSeq+1<<40
	for name, r := range map[string]record{
		"an earlier boot": {Boot: "earlier", fsLocation: location},
		"another disk":    {Boot: boot, fsLocation: gone},
	} {
		t.Run(name, func(t *testing.T) {
			r.Version, r.Volume = recordVersion, newID()
			l, err := create(f.dir, r)
			require.NoError(t, err)
			require.NoError(t, l.file.Close())
			require.NoError(t, freezeNow(target))
			require.NoError(t, f.Recover(t.Context()))
			require.False(t, f.Frozen(r.Volume))
			is, err := isFrozen(target)
			require.NoError(t, err)
			require.True(t, is, "a freeze of somebody else is not ended")
			require.NoError(t, thawNow(target))
		})
	}
}

func TestADamagedRecordIsAnErrorAndDoesNotBlockOtherThaws(t *testing.T) {
	d := newDisk(t, "ext4")
	f, id := newFreezer(t), newID()
	node := startFreezerProcess(t, f, id, d)
	thaws := thawProcessOf(t, f, id)
	require.NoError(t, node.Process.Kill())
	require.NoError(t, thaws.Kill())
	damaged := newID()
	require.NoError(t, os.WriteFile(recordPath(f.dir, damaged), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(recordPath(f.dir, newID())+tempSuffix, []byte("{"), 0o600))
	require.ErrorContains(t, f.Recover(t.Context()), string(damaged))
	require.False(t, f.Frozen(id))
	require.True(t, f.Frozen(damaged), "what is not known is taken for frozen")
	require.False(t, d.frozen())
}

func TestFreezeRefuses(t *testing.T) {
	d := newDisk(t, "ext4")
	f := newFreezer(t)
	require.NoError(t, os.Mkdir(filepath.Join(d.path, "sub"), 0o700))
	inside, err := New(Config{Dir: filepath.Join(d.path, "freezes"), Program: program()})
	require.NoError(t, err)
	mute, err := New(Config{Dir: f.dir, Program: []string{"/bin/false"}})
	require.NoError(t, err)
	soon := time.Now().Add(testFreeze)
	for name, tc := range map[string]struct {
		freezer *Freezer
		id      fsm.VolumeID
		path    string
		until   time.Time
	}{
		"a folder that is no mount":                {f, newID(), d.path + "/sub", soon},
		"a path that is not there":                 {f, newID(), d.path + "/none", soon},
		"an id that is none":                       {f, "../../x", d.path, soon},
		"a deadline that has passed":               {f, newID(), d.path, time.Now().Add(-time.Second)},
		"the filesystem that holds its records":    {inside, newID(), d.path, soon},
		"what nobody would thaw":                   {mute, newID(), d.path, soon},
		"a filesystem that is neither ext4 or xfs": {f, newID(), "/proc", soon},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := tc.freezer.Freeze(t.Context(), tc.id, tc.path, tc.until)
				require.Error(t, err)
				require.False(t, d.frozen())
			}
			left, err := filepath.Glob(tc.freezer.dir + "/*")
			require.NoError(t, err)
			require.Empty(t, left, "no record is left")
		})
	}
	t.Run("what somebody else froze, which stays so", func(t *testing.T) {
		target, _, err := openRoot(d.path)
		require.NoError(t, err)
		defer target.Close()
		require.NoError(t, freezeNow(target))
		id := newID()
		_, err = f.Freeze(t.Context(), id, d.path, soon)
		requireRejected(t, fsm.Busy, err)
		require.True(t, d.frozen())
		require.False(t, f.Frozen(id))
		require.NoError(t, thawNow(target))
	})
}

// A group snapshot's volumes are frozen concurrently, and none is thawed before the last is taken.
func TestS19_SeveralAreFrozenAtOnce(t *testing.T) {
	const members = 4
	f := newFreezer(t)
	disks := make([]disk, members)
	for i := range disks {
		disks[i] = newDisk(t, "ext4")
	}
	freezes := make([]executor.Freeze, members)
	parallel(members, func(i int) {
		h, err := f.Freeze(t.Context(), newID(), disks[i].path, time.Now().Add(testFreeze))
		if err != nil {
			t.Error(err)
			return
		}
		freezes[i] = h
	})
	for _, h := range freezes {
		require.NotNil(t, h)
		t.Cleanup(func() { _ = h.Thaw(context.Background()) })
	}
	parallel(members, func(i int) {
		if err := freezes[i].Run(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	for _, d := range disks {
		require.True(t, d.frozen())
	}
	parallel(members, func(i int) {
		if err := freezes[i].Thaw(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for _, d := range disks {
		requireWritten(t, d.write("data"))
	}
	left, err := os.ReadDir(f.dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func parallel(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}
