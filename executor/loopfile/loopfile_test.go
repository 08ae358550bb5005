package loopfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// needLoops skips where there are no loop devices to be had.
func needLoops(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no loop devices on this machine: %v", err)
	}
	f.Close()
}

// newPool returns a pool whose loop devices are removed when the test ends.
func newPool(t testing.TB) (*Pool, string) {
	t.Helper()
	needLoops(t)
	dir := filepath.Join(t.TempDir(), "pool")
	_, err := Init(dir)
	require.NoError(t, err)
	p, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { detachBelow(t, p.Dir()) })
	return p, dir
}

func detachBelow(t testing.TB, dir string) {
	all, err := listBound()
	require.NoError(t, err)
	for _, b := range all {
		if strings.HasPrefix(b.file, dir) {
			if l, err := loopStatus(b.number); err == nil {
				var left error // others on the machine open each loop device when they look for theirs
				require.Eventually(t, func() bool { left = detachLoop(l); return !errors.Is(left, errInUse) }, time.Minute, 10*time.Millisecond)
				require.NoError(t, left)
			}
		}
	}
}

func TestPoolPassesTheSuite(t *testing.T) {
	backendtest.RunBackendSuite(t, func(t *testing.T) backendtest.Harness {
		p, dir := newPool(t)
		return harness(p, dir)
	})
}

func harness(p *Pool, dir string) backendtest.Harness {
	away := dir + ".away"
	return backendtest.Harness{
		Backend: p,
		Reopen:  func() executor.Backend { return reopen(p, dir) },
		InterruptCreate: func(t *testing.T, id fsm.VolumeID) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, image(tmpDir, id)), []byte("half"), 0o600))
		},
		SetAbsent: func(t *testing.T, absent bool) {
			if absent { // as an unmount does: an empty folder is left
				require.NoError(t, os.Rename(dir, away))
				require.NoError(t, os.Mkdir(dir, 0o700))
				return
			}
			require.NoError(t, os.Remove(dir))
			require.NoError(t, os.Rename(away, dir))
		},
		RequireUntouched: func(t *testing.T) {
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
		},
	}
}

// reopen is the pool as another process finds it.
func reopen(p *Pool, dir string) *Pool { return newPoolAt(dir, p.ID(), nil) }

func TestDirectIOIsUsedWhereTheFilesystemAllowsIt(t *testing.T) {
	p, dir := newPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 1<<20))
	f, err := os.OpenFile(filepath.Join(dir, image(volumesDir, id)), os.O_RDWR|unix.O_DIRECT, 0)
	direct := err == nil
	if direct {
		f.Close()
	}
	_, err = p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	found, err := p.loops.table.devicesOf(id, nil, p.poolDir)
	require.NoError(t, err)
	require.Equal(t, direct, found[0].flags&flagDirectIO != 0)
	require.Zero(t, found[0].flags&flagAutoclear)
}

func TestWhatIsWrittenToTheDeviceIsInTheImage(t *testing.T) {
	p, dir := newPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 1<<20))
	d, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	dev, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = dev.WriteAt([]byte("holdfast"), 4096)
	require.NoError(t, err)
	require.NoError(t, errors.Join(dev.Sync(), dev.Close()))
	require.NoError(t, p.Deactivate(t.Context(), id))
	file, err := os.Open(filepath.Join(dir, image(volumesDir, id)))
	require.NoError(t, err)
	defer file.Close()
	got := make([]byte, 8)
	_, err = file.ReadAt(got, 4096)
	require.NoError(t, err)
	require.Equal(t, "holdfast", string(got))
}

func TestDeactivateOfAnOpenDeviceIsBusy(t *testing.T) {
	p, _ := newPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 1<<20))
	d, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	for _, exclusive := range []int{0, unix.O_EXCL} {
		user, err := os.OpenFile(d.Path, os.O_RDONLY|exclusive, 0)
		require.NoError(t, err)
		var rej *fsm.Rejection
		require.ErrorAs(t, p.Deactivate(t.Context(), id), &rej)
		require.Equal(t, fsm.Busy, rej.Reason)
		again, err := p.Activate(t.Context(), id, false)
		require.NoError(t, err)
		require.Equal(t, d.Path, again.Path, "staged again while somebody has it open")
		require.NoError(t, user.Close())
		now, err := p.Observe(t.Context(), id)
		require.NoError(t, err)
		require.True(t, now.Active(), "it does not vanish with its last user after it was adopted")
	}
	require.NoError(t, p.Deactivate(t.Context(), id))
}

// The kernel keeps what BLKROSET said of a number when its device is taken down.
func TestADeviceIsWritableWhateverItsNumberWasBefore(t *testing.T) {
	p, _ := newPool(t)
	before, after := backendtest.NewID(), backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), before, 1<<20))
	require.NoError(t, p.Create(t.Context(), after, 1<<20))
	for range 2 {
		d, err := p.Activate(t.Context(), before, false)
		require.NoError(t, err)
		fd, err := unix.Open(d.Path, unix.O_RDONLY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.IoctlSetPointerInt(fd, unix.BLKROSET, 1))
		require.NoError(t, unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0), "taken down by somebody else")
		require.NoError(t, unix.Close(fd))
		d, err = p.Activate(t.Context(), after, false)
		require.NoError(t, err)
		require.False(t, d.ReadOnly)
		dev, err := os.OpenFile(d.Path, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = dev.WriteAt([]byte("x"), 0)
		require.NoError(t, errors.Join(err, dev.Close()))
		require.NoError(t, p.Deactivate(t.Context(), after))
	}
}

// S124: the one in use is kept, the others are detached.
func TestOfTwoDevicesOnOneImageOneIsKept(t *testing.T) {
	p, dir := newPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 1<<20))
	f, err := os.OpenFile(filepath.Join(p.dir, image(volumesDir, id)), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	var made []loop
	for range 3 {
		l, err := p.loops.table.setUp(f, false)
		require.NoError(t, err)
		made = append(made, l)
	}
	used, err := os.OpenFile(made[1].path(), os.O_RDONLY|unix.O_EXCL, 0)
	require.NoError(t, err)
	again, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	d, err := again.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.Equal(t, made[1].path(), d.Path, "the one in use")
	found, err := again.loops.table.scan(id, nil, again.poolDir)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, used.Close())
	require.NoError(t, again.Deactivate(t.Context(), id))
}

// S124: a device outlives its image, and is found and detached all the same.
func TestTheLoopDeviceOfADeletedImageIsFound(t *testing.T) {
	p, dir := newPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 1<<20))
	_, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, image(volumesDir, id))))
	again, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	d, err := again.Observe(t.Context(), id)
	require.NoError(t, err)
	require.False(t, d.Exists)
	require.True(t, d.Active())
	items, err := again.Inventory(t.Context())
	require.NoError(t, err)
	require.Equal(t, []executor.InventoryItem{{Kind: "loop", Volume: id, Path: d.Path}}, items)
	require.NoError(t, again.Deactivate(t.Context(), id))
}

// S174: a device whose file was opened through a mount that is gone is adopted, and no second one is set up.
func TestS174_TheLoopDeviceOfAnEarlierContainerIsAdopted(t *testing.T) {
	_, dir := newPool(t)
	id, through := backendtest.NewID(), filepath.Join(t.TempDir(), filepath.Base(dir))
	require.NoError(t, os.Mkdir(through, 0o700))
	require.NoError(t, unix.Mount(dir, through, "", unix.MS_BIND, ""))
	earlier, err := Open(Config{Dir: through})
	require.NoError(t, err)
	require.NoError(t, earlier.Create(t.Context(), id, 1<<20))
	had, err := earlier.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, unix.Unmount(through, unix.MNT_DETACH))
	for range 2 {
		p, err := Open(Config{Dir: dir})
		require.NoError(t, err)
		d, err := p.Observe(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, had.Path, d.Path)
		d, err = p.Activate(t.Context(), id, false)
		require.NoError(t, err)
		require.Equal(t, had.Path, d.Path)
		items, err := p.Inventory(t.Context())
		require.NoError(t, err)
		require.Contains(t, items, executor.InventoryItem{Kind: "loop", Volume: id, Path: had.Path})
	}
	requireNotOfAnotherPool(t, id)
	require.NoError(t, os.Remove(filepath.Join(dir, image(volumesDir, id))))
	p, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	d, err := p.Observe(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, had.Path, d.Path, "the device of a deleted image")
	require.NoError(t, p.Deactivate(t.Context(), id))
}

// S174: a device whose file has the same path, and is another node's on this kernel, is not adopted, and is no orphan here.
func TestS174_TheLoopDeviceOfAnotherNodeIsNotAdopted(t *testing.T) {
	theirs, dir := newPool(t)
	id := backendtest.NewID()
	require.NoError(t, theirs.Create(t.Context(), id, 1<<20))
	had, err := theirs.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "")) // it hides their pool
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // where the test failed
	_, err = Init(dir)
	require.NoError(t, err)
	ours, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	for range 2 {
		items, err := ours.Inventory(t.Context())
		require.NoError(t, err)
		require.NotContains(t, items, executor.InventoryItem{Kind: "loop", Volume: id, Path: had.Path})
		require.NotContains(t, items, executor.InventoryItem{Kind: "loop", Path: had.Path})
		d, err := ours.Observe(t.Context(), id)
		require.NoError(t, err)
		require.False(t, d.Active())
		if !d.Exists {
			require.NoError(t, ours.Create(t.Context(), id, 1<<20)) // of the same name
		}
	}
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	d, err := theirs.Observe(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, had.Path, d.Path)
	require.NoError(t, theirs.Deactivate(t.Context(), id))
}

// S12: a process that starts while the pool is absent knows its devices, so that no second one is set up when it is back.
func TestS12_AProcessThatStartsWithoutThePoolKnowsItsDevices(t *testing.T) {
	before, dir := newPool(t)
	id := backendtest.NewID()
	require.NoError(t, before.Create(t.Context(), id, 1<<20))
	had, err := before.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	hidden := true
	t.Cleanup(func() {
		if hidden {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	p, err := Open(Config{Dir: dir, KnownID: before.ID()})
	require.NoError(t, err)
	d, err := p.Observe(t.Context(), id)
	require.NoError(t, err)
	require.True(t, d.Absent)
	require.Equal(t, had.Path, d.Path)
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	hidden = false
	d, err = p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.Equal(t, had.Path, d.Path)
	require.NoError(t, p.Deactivate(t.Context(), id))
}

// requireNotOfAnotherPool: another pool with an image of the same name has no device.
func requireNotOfAnotherPool(t *testing.T, id fsm.VolumeID) {
	t.Helper()
	other, _ := newPool(t)
	require.NoError(t, other.Create(t.Context(), id, 1<<20))
	d, err := other.Observe(t.Context(), id)
	require.NoError(t, err)
	require.False(t, d.Active())
}

func TestConcurrentAttachesGetDifferentDevices(t *testing.T) {
	p, _ := newPool(t)
	const n = 24
	paths := make([]string, n)
	ids := make([]fsm.VolumeID, n)
	var wg sync.WaitGroup
	for i := range n {
		ids[i] = backendtest.NewID()
		wg.Go(func() {
			if err := p.Create(t.Context(), ids[i], 1<<20); err != nil {
				t.Error(err)
			}
			d, err := p.Activate(t.Context(), ids[i], false)
			if err != nil {
				t.Error(err)
			}
			paths[i] = d.Path
		})
	}
	wg.Wait()
	distinct := map[string]bool{}
	for i := range n {
		distinct[paths[i]] = true
		wg.Go(func() {
			if err := errors.Join(p.Deactivate(t.Context(), ids[i]), p.Remove(t.Context(), ids[i])); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, distinct, n)
	items, err := p.Inventory(t.Context())
	require.NoError(t, err)
	require.Empty(t, items)
}

func TestASymbolicLinkIsNoImage(t *testing.T) {
	p, dir := newPool(t)
	id := backendtest.NewID()
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, make([]byte, 4096), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, image(volumesDir, id))))
	_, err := p.Observe(t.Context(), id)
	require.ErrorContains(t, err, "not a regular file")
	_, err = p.Activate(t.Context(), id, false)
	require.ErrorContains(t, err, "not a regular file")
	require.ErrorContains(t, p.Remove(t.Context(), id), "not a regular file")
	require.FileExists(t, outside)
}

func BenchmarkAttachDetach(b *testing.B) {
	p, _ := newPool(b)
	id := backendtest.NewID()
	require.NoError(b, p.Create(b.Context(), id, 1<<30))
	for b.Loop() {
		_, err := p.Activate(b.Context(), id, false)
		require.NoError(b, err)
		require.NoError(b, p.Deactivate(b.Context(), id))
	}
}

func BenchmarkCreateRemove(b *testing.B) {
	p, _ := newPool(b)
	for b.Loop() {
		id := backendtest.NewID()
		require.NoError(b, p.Create(b.Context(), id, 1<<30))
		require.NoError(b, p.Remove(b.Context(), id))
	}
}
