package loopfile

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// openPoolIn returns a pool in a directory, whose loop devices are removed when the test ends.
func openPoolIn(t testing.TB, dir string) *Pool {
	t.Helper()
	_, err := Init(dir)
	require.NoError(t, err)
	p, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { detachBelow(t, p.Dir()) })
	return p
}

// supportsReflink returns a directory on an xfs that shares blocks, removed when the test ends.
func supportsReflink(t testing.TB) string {
	t.Helper()
	needLoops(t)
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		t.Skip("mkfs.xfs is not installed")
	}
	dir := t.TempDir()
	disk, at := filepath.Join(dir, "xfs.img"), filepath.Join(dir, "mnt")
	require.NoError(t, os.WriteFile(disk, nil, 0o600))
	require.NoError(t, os.Truncate(disk, 1<<30))
	require.NoError(t, os.Mkdir(at, 0o700))
	require.NoError(t, exec.Command("mkfs.xfs", "-q", "-m", "reflink=1", disk).Run())
	require.NoError(t, exec.Command("mount", "-o", "loop", disk, at).Run())
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", at).Run()) })
	return at
}

func TestSnapshotsByCopying(t *testing.T) {
	needLoops(t)
	backendtest.RunSnapshotSuite(t, func(t *testing.T) backendtest.SnapshotHarness {
		dir := filepath.Join(t.TempDir(), "pool")
		p := openPoolIn(t, dir)
		require.False(t, p.SharesBlocks(), "the tests' folder is expected on a filesystem that does not share blocks")
		return snapshotHarness(p, dir)
	})
}

func TestSnapshotsBySharing(t *testing.T) {
	at := supportsReflink(t)
	backendtest.RunSnapshotSuite(t, func(t *testing.T) backendtest.SnapshotHarness {
		dir, err := os.MkdirTemp(at, "test")
		require.NoError(t, err)
		dir = filepath.Join(dir, "pool")
		p := openPoolIn(t, dir)
		require.True(t, p.SharesBlocks())
		return snapshotHarness(p, dir)
	})
}

// On tmpfs loop devices write through the page cache, and nothing has a place.
func TestSnapshotsWithoutDirectIO(t *testing.T) {
	needLoops(t)
	at := t.TempDir()
	require.NoError(t, unix.Mount("none", at, "tmpfs", 0, "size=1g"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(at, 0)) })
	backendtest.RunSnapshotSuite(t, func(t *testing.T) backendtest.SnapshotHarness {
		dir, err := os.MkdirTemp(at, "test")
		require.NoError(t, err)
		dir = filepath.Join(dir, "pool")
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(dir))) })
		return snapshotHarness(openPoolIn(t, dir), dir)
	})
}

// A sector is less than a block of the filesystem below, which shares whole blocks.
func TestASectorWrittenAfterASnapshotIsInTheNextOne(t *testing.T) {
	p := openPoolIn(t, filepath.Join(supportsReflink(t), "pool"))
	source := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), source, 1<<20))
	d, err := p.Activate(t.Context(), source, false)
	require.NoError(t, err)
	fd, err := unix.Open(d.Path, unix.O_WRONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	var cuts []fsm.SnapshotID
	for n := range 4 {
		copy(page, bytes.Repeat([]byte{byte(n + 1)}, 512))
		_, err = unix.Pwrite(fd, page[:512], int64(n)*512)
		require.NoError(t, err)
		id := backendtest.NewSnapshotID()
		require.NoError(t, p.TakeSnapshot(t.Context(), source, id, nil))
		cuts = append(cuts, id)
	}
	require.NoError(t, unix.Close(fd))
	for n, id := range cuts {
		got, err := os.ReadFile(filepath.Join(p.dir, snapshotFile(snapshotsDir, id)))
		require.NoError(t, err)
		for sector := range 4 {
			want := byte(sector + 1)
			if sector > n {
				want = 0
			}
			require.Equal(t, bytes.Repeat([]byte{want}, 512), got[sector*512:sector*512+512], "cut %d, sector %d", n, sector)
		}
	}
}

func snapshotHarness(p *Pool, dir string) backendtest.SnapshotHarness {
	device := func(t *testing.T, id fsm.VolumeID) *os.File {
		t.Helper()
		d, err := p.Observe(t.Context(), id)
		require.NoError(t, err)
		path := d.Path
		if !d.Active() {
			path = filepath.Join(dir, image(volumesDir, id))
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	return backendtest.SnapshotHarness{
		Harness:         harness(p, dir),
		Snapshots:       p,
		ReopenSnapshots: func() executor.SnapshotBackend { return reopen(p, dir) },
		Write: func(t *testing.T, id fsm.VolumeID, at int64, data []byte) {
			f := device(t, id)
			_, err := f.WriteAt(data, at)
			require.NoError(t, errors.Join(err, f.Close()))
		},
		Discard: func(t *testing.T, id fsm.VolumeID, at, length int64) {
			f := device(t, id)
			require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, length))
			require.NoError(t, f.Close())
		},
		Read: func(t *testing.T, id fsm.VolumeID) []byte {
			f := device(t, id)
			size, err := f.Seek(0, 2)
			require.NoError(t, err)
			b := make([]byte, size)
			_, err = f.ReadAt(b, 0)
			require.NoError(t, errors.Join(err, f.Close()))
			return b
		},
		ReadSnapshot: func(t *testing.T, id fsm.SnapshotID) []byte {
			b, err := os.ReadFile(filepath.Join(dir, snapshotFile(snapshotsDir, id)))
			require.NoError(t, err)
			return b
		},
		InterruptSnapshot: func(t *testing.T, id fsm.SnapshotID) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, snapshotFile(tmpDir, id)), []byte("half"), 0o600))
		},
		InterruptRevert: harness(p, dir).InterruptCreate,
	}
}

func TestASnapshotIsOneReadOnlyFileInItsFolder(t *testing.T) {
	p, dir := newPool(t)
	source, id := backendtest.NewID(), backendtest.NewSnapshotID()
	require.NoError(t, p.Create(t.Context(), source, 8<<20))
	require.NoError(t, p.TakeSnapshot(t.Context(), source, id, nil))
	info, err := os.Lstat(filepath.Join(dir, "snapshots", string(id)+".img"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o400), info.Mode())
	require.EqualValues(t, 8<<20, info.Size())
	require.Less(t, allocatedBytes(info), int64(1<<20), "holes are kept")
	left, err := os.ReadDir(filepath.Join(dir, "tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestASnapshotOnASharingPoolTakesNoSpace(t *testing.T) {
	p := openPoolIn(t, filepath.Join(supportsReflink(t), "pool"))
	source := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), source, 256<<20))
	f, err := os.OpenFile(filepath.Join(p.dir, image(volumesDir, source)), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.Write(incompressible(128 << 20))
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	before := p.Facts(t.Context()).Free
	for range 16 { // 16 copies would not fit
		require.NoError(t, p.TakeSnapshot(t.Context(), source, backendtest.NewSnapshotID(), nil))
	}
	require.Less(t, before-p.Facts(t.Context()).Free, int64(16<<20))
}

func TestASymbolicLinkIsNoSnapshot(t *testing.T) {
	p, dir := newPool(t)
	id := backendtest.NewSnapshotID()
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, make([]byte, 4096), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, snapshotFile(snapshotsDir, id))))
	_, err := p.ObserveSnapshot(t.Context(), id)
	require.ErrorContains(t, err, "not a regular file")
	require.Error(t, p.CreateFrom(t.Context(), backendtest.NewID(), 4096, fsm.Source{Snapshot: id}, 0, nil))
	require.Error(t, p.RemoveSnapshot(t.Context(), id))
	require.FileExists(t, outside)
}

func TestExtentsAreEqualOnlyWhereBothAreKnownToBeShared(t *testing.T) {
	at := func(offset, length, physical int64, shared bool) cursor {
		return cursor{current: extent{Extent: executor.Extent{Offset: offset, Length: length}, physical: physical, shared: shared}}
	}
	for name, tc := range map[string]struct {
		a, b cursor
		want bool
	}{
		"one place, shared":                {at(0, 8192, 100<<10, true), at(0, 8192, 100<<10, true), true},
		"one place within longer extents":  {at(0, 8192, 100<<10, true), at(4096, 8192, 104<<10, true), true},
		"two places":                       {at(0, 8192, 100<<10, true), at(0, 8192, 200<<10, true), false},
		"a place that says nothing":        {at(0, 8192, 100<<10, false), at(0, 8192, 100<<10, true), false},
		"data and a hole":                  {at(0, 8192, 100<<10, true), cursor{done: true}, false},
		"two holes":                        {cursor{done: true}, cursor{done: true}, true},
		"two holes, one before more data":  {at(8192, 8192, 100<<10, true), cursor{done: true}, true},
		"shifted by a block, in one place": {at(0, 8192, 100<<10, true), at(4096, 8192, 100<<10, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, sameBlocks(tc.a, tc.b, 4096))
			require.Equal(t, tc.want, sameBlocks(tc.b, tc.a, 4096))
		})
	}
}

func BenchmarkSnapshotSharing(b *testing.B) {
	p := openPoolIn(b, filepath.Join(supportsReflink(b), "pool"))
	source := backendtest.NewID()
	require.NoError(b, p.Create(b.Context(), source, 20<<30))
	for b.Loop() {
		id := backendtest.NewSnapshotID()
		require.NoError(b, p.TakeSnapshot(b.Context(), source, id, nil))
		require.NoError(b, p.RemoveSnapshot(b.Context(), id))
	}
}
