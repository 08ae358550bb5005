package faultfs

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"
)

// mounted is a filesystem that is unmounted, and proved to be, when the test ends.
func mounted(t *testing.T) *FS {
	t.Helper()
	if why := WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	at := t.TempDir()
	f, err := Mount(t.TempDir(), at)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.Unmount())
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(at))
		require.NoError(t, err)
		require.Empty(t, mounts)
	})
	return f
}

func (f *FS) path(name string) string { return filepath.Join(f.at, name) }

// writeFile writes a file from its beginning, and syncs it if asked to.
func (f *FS) writeFile(t *testing.T, name, content string, sync bool) {
	t.Helper()
	file, err := os.OpenFile(f.path(name), os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString(content)
	require.NoError(t, err)
	if sync {
		require.NoError(t, file.Sync())
	}
	require.NoError(t, file.Close())
}

func (f *FS) syncFolder(t *testing.T, name string) {
	t.Helper()
	folder, err := os.Open(f.path(name))
	require.NoError(t, err)
	require.NoError(t, folder.Sync())
	require.NoError(t, folder.Close())
}

func (f *FS) requireFile(t *testing.T, name, content string) {
	t.Helper()
	raw, err := os.ReadFile(f.path(name))
	require.NoError(t, err)
	require.Equal(t, content, string(raw))
}

func (f *FS) requireNames(t *testing.T, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(f.at)
	require.NoError(t, err)
	var got []string // nil when there is nothing
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.Equal(t, names, got)
}

func TestWhatIsWrittenIsSeenAtOnce(t *testing.T) {
	f := mounted(t)
	f.writeFile(t, "a", "one", false)
	f.requireFile(t, "a", "one")
	f.writeFile(t, "a", "two", false)
	f.requireFile(t, "a", "two")
	require.NoError(t, os.Truncate(f.path("a"), 1))
	f.requireFile(t, "a", "t")
	require.NoError(t, os.Rename(f.path("a"), f.path("b")))
	f.requireNames(t, "b")
}

func TestPowerLossTakesWhatWasNotSynced(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testing.T, *FS)
		after  string
	}{
		"a write":             {func(t *testing.T, f *FS) { f.writeFile(t, "a", "NEW", false) }, "durable"},
		"a longer write":      {func(t *testing.T, f *FS) { f.writeFile(t, "a", "NEW and longer", false) }, "durable"},
		"a shorter size":      {func(t *testing.T, f *FS) { require.NoError(t, os.Truncate(f.path("a"), 2)) }, "durable"},
		"a larger size":       {func(t *testing.T, f *FS) { require.NoError(t, os.Truncate(f.path("a"), 9000)) }, "durable"},
		"not a synced write":  {func(t *testing.T, f *FS) { f.writeFile(t, "a", "SYN", true) }, "SYNable"},
		"only what came last": {func(t *testing.T, f *FS) { f.writeFile(t, "a", "SYN", true); f.writeFile(t, "a", "LOST", false) }, "SYNable"},
		"the file's removal":  {func(t *testing.T, f *FS) { require.NoError(t, os.Remove(f.path("a"))) }, "durable"},
		"another that took its name": {func(t *testing.T, f *FS) {
			f.writeFile(t, "b", "other", true)
			require.NoError(t, os.Rename(f.path("b"), f.path("a")))
		}, "durable"},
		"not another that took its name durably": {func(t *testing.T, f *FS) {
			f.writeFile(t, "b", "other", true)
			require.NoError(t, os.Rename(f.path("b"), f.path("a")))
			f.syncFolder(t, ".")
		}, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			f := mounted(t)
			f.writeFile(t, "a", "durable", true)
			tc.change(t, f)
			require.NoError(t, f.PowerLoss(0))
			f.requireFile(t, "a", tc.after)
			f.writeFile(t, "a", "works on", true)
			require.NoError(t, f.PowerLoss(0))
			raw, err := os.ReadFile(f.path("a"))
			require.NoError(t, err)
			require.True(t, bytes.HasPrefix(raw, []byte("works on")))
		})
	}
}

func TestPowerLossTakesNamesThatWereNotSynced(t *testing.T) {
	f := mounted(t)
	f.writeFile(t, "kept", "x", true)
	f.writeFile(t, "lost", "x", false)
	require.NoError(t, os.Mkdir(f.path("folder"), 0o700))
	f.syncFolder(t, ".")
	f.writeFile(t, "folder/lost", "x", false)
	require.NoError(t, os.Mkdir(f.path("lost folder"), 0o700))
	require.NoError(t, os.Rename(f.path("kept"), f.path("moved")))
	f.writeFile(t, "later", "x", false)
	require.NoError(t, f.PowerLoss(0))
	f.requireNames(t, "folder", "kept", "lost")
	f.requireFile(t, "lost", "") // its name was synced, its content was not
	inside, err := os.ReadDir(f.path("folder"))
	require.NoError(t, err)
	require.Empty(t, inside)
}

func TestNamesInARenamedFolderAreUndoneWhereTheyAre(t *testing.T) {
	f := mounted(t)
	require.NoError(t, os.Mkdir(f.path("a.tmp"), 0o700))
	f.syncFolder(t, ".")
	f.writeFile(t, "a.tmp/synced", "x", true)
	f.writeFile(t, "a.tmp/lost", "x", false)
	require.NoError(t, os.Rename(f.path("a.tmp"), f.path("a")))
	f.syncFolder(t, ".")
	require.NoError(t, f.PowerLoss(0))
	f.requireFile(t, "a/synced", "x")
	require.NoFileExists(t, f.path("a/lost"))
}

// A directory may be removed durably while what was removed from it before was never synced.
func TestWhatWasInADurablyRemovedFolderStaysGone(t *testing.T) {
	f := mounted(t)
	require.NoError(t, os.Mkdir(f.path("folder"), 0o700))
	f.syncFolder(t, ".")
	f.writeFile(t, "folder/a", "x", true)
	f.syncFolder(t, "folder")
	require.NoError(t, os.Remove(f.path("folder/a")))
	require.NoError(t, os.Remove(f.path("folder")))
	f.syncFolder(t, ".")
	require.NoError(t, f.PowerLoss(0))
	f.requireNames(t)
}

func TestManyChangesOfNamesBecomeDurableInTheirOrder(t *testing.T) {
	f := mounted(t)
	f.writeFile(t, "first", "x", false)
	for range maxChanges {
		f.writeFile(t, "other", "x", false)
		require.NoError(t, os.Remove(f.path("other")))
	}
	_, names := f.Unsynced()
	require.Equal(t, maxChanges, names)
	require.NoError(t, f.PowerLoss(0))
	f.requireNames(t, "first")
}

func TestATornWriteLeavesWholeSectors(t *testing.T) {
	f := mounted(t)
	const size = 4 * pageSize
	before, after := bytes.Repeat([]byte("o"), size), bytes.Repeat([]byte("n"), size)
	mixed := 0
	for seed := range uint64(8) {
		f.writeFile(t, "a", string(before), true)
		f.writeFile(t, "a", string(after), false)
		require.NoError(t, f.PowerLoss(seed+1))
		raw, err := os.ReadFile(f.path("a"))
		require.NoError(t, err)
		require.Len(t, raw, size)
		for at := 0; at < size; at += sectorSize {
			sector := raw[at : at+sectorSize]
			require.True(t, bytes.Equal(sector, before[:sectorSize]) || bytes.Equal(sector, after[:sectorSize]))
		}
		if bytes.Contains(raw, []byte("on")) || bytes.Contains(raw, []byte("no")) {
			mixed++
		}
	}
	require.Positive(t, mixed, "no write was torn")
}

func TestAFailedSyncLosesOnlyWhatItForgets(t *testing.T) {
	for fault, after := range map[Fault]string{FailSync: "new", FailSyncForget: "old"} {
		t.Run(fault.String(), func(t *testing.T) {
			f := mounted(t)
			f.writeFile(t, "a", "old", true)
			failing := f.Inject(Rule{Fault: fault, Times: 1})
			file, err := os.OpenFile(f.path("a"), os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = file.WriteString("new")
			require.NoError(t, err)
			require.ErrorIs(t, file.Sync(), syscall.EIO)
			f.requireFile(t, "a", "new")
			require.NoError(t, file.Sync(), "the second sync finds nothing wrong")
			require.NoError(t, file.Close())
			require.Equal(t, 1, failing.Hits())
			require.NoError(t, f.PowerLoss(1))
			f.requireFile(t, "a", after)
		})
	}
}

func TestWhatASyncForgotIsDurableWhenItIsWrittenAgain(t *testing.T) {
	f := mounted(t)
	f.writeFile(t, "a", "old", true)
	f.Inject(Rule{Fault: FailSyncForget, Times: 1})
	file, err := os.OpenFile(f.path("a"), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString("new")
	require.NoError(t, err)
	require.Error(t, file.Sync())
	_, err = file.WriteAt([]byte("new"), 0)
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	require.NoError(t, file.Close())
	require.NoError(t, f.PowerLoss(0))
	f.requireFile(t, "a", "new")
}
