package mount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S122, CSI-NODE-NodeStageVolume-02: ten times, one mount.
func TestMountTenTimesIsOneMount(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			h := newHost(t)
			d, dir := h.stageNew(fsType)
			for range 10 {
				require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: fsType}))
			}
			require.Equal(t, []executor.Mount{{Path: dir}}, h.mounts(d))
			lines, err := readTable()
			require.NoError(t, err)
			top, _ := lines.top(dir)
			require.True(t, top.hasOption("nosuid"))
			require.True(t, top.hasOption("nodev"))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), []byte("kept"), 0o600))
			for range 2 {
				require.NoError(t, h.Unmount(t.Context(), d, dir))
				require.Empty(t, h.mounts(d))
			}
			require.NoFileExists(t, filepath.Join(dir, "data"))
			require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: fsType}))
			require.FileExists(t, filepath.Join(dir, "data"))
		})
	}
}

func TestNothingIsMountedOverSomethingElse(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	other := h.device(testSize)
	require.NoError(t, h.Format(t.Context(), other.Path, executor.Filesystem{Type: "ext4", UUID: uuid.NewString()}, false))
	for range 2 {
		requireRejected(t, fsm.Precondition, h.Mount(t.Context(), other, executor.MountOptions{Path: dir, FSType: "ext4"}))
		require.NoError(t, h.Unmount(t.Context(), other, dir), "what is not mounted is not unmounted")
		require.Len(t, h.mounts(d), 1)
	}
}

func TestABusyMountStays(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	f, err := os.Create(filepath.Join(dir, "open"))
	require.NoError(t, err)
	for range 2 {
		requireRejected(t, fsm.Busy, h.Unmount(t.Context(), d, dir))
		require.Len(t, h.mounts(d), 1)
	}
	require.NoError(t, f.Close())
	require.NoError(t, h.Unmount(t.Context(), d, dir))
}

func TestAReadOnlyMountRefusesWrites(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: "ext4", ReadOnly: true, Flags: []string{"noatime"}}))
	require.Equal(t, []executor.Mount{{Path: dir, ReadOnly: true}}, h.mounts(d))
	require.ErrorIs(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600), unix.EROFS)
	requireRejected(t, fsm.Incompatible, h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: "ext4"}))
}

func TestFlags(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	for name, tc := range map[string]struct {
		flags []string
		sees  string
	}{
		"no flag":             {nil, "relatime"},
		"one of the mount":    {[]string{"noatime"}, "noatime"},
		"one of the fs":       {[]string{"discard"}, "discard"},
		"several":             {[]string{"rw", "sync", "noexec"}, "sync"},
		"one with a value":    {[]string{"errors=remount-ro"}, "errors=remount-ro"},
		"what is done anyway": {[]string{"nosuid", "nodev", "defaults"}, "nosuid"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: "ext4", Flags: tc.flags}))
			lines, err := readTable()
			require.NoError(t, err)
			top, _ := lines.top(dir)
			require.Contains(t, strings.Split(top.Options+","+top.VFSOptions, ","), tc.sees)
			require.NoError(t, h.Unmount(t.Context(), d, dir))
		})
	}
	for served := range perMount {
		require.Nil(t, fsm.MountPolicy{}.Check("ext4", []string{served}))
	}
	for _, flag := range []string{"suid", "dev", "exec", "password=hunter2", "noatime,password=hunter2", "inode64", "nouuid", ""} {
		err := h.CheckMount(dir, "ext4", []string{"noatime", flag})
		requireRejected(t, fsm.Invalid, err)
		require.NotContains(t, err.Error(), "hunter2", "a flag may hold a secret")
		requireRejected(t, fsm.Invalid, h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: "ext4", Flags: []string{flag}}))
	}
}

// S73: nosuid and nodev are always there, but where they are allowed and asked for.
func TestSuidAndDevAreOptIn(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	target := h.mkdir("pod") + "/target"
	seen := func(path string) string {
		lines, err := readTable()
		require.NoError(t, err)
		top, _ := lines.top(path)
		return "," + top.Options + ","
	}
	for name, tc := range map[string]struct {
		flags        []string
		nosuid, node bool
	}{
		"nothing":                  {nil, true, true},
		"both":                     {[]string{"suid", "dev"}, false, false},
		"one":                      {[]string{"suid"}, false, true},
		"one, and what forbids it": {[]string{"suid", "nosuid", "dev"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h.Mounter.policy = fsm.MountPolicy{Suid: true, Dev: true}
			require.NoError(t, h.Unmount(t.Context(), d, dir))
			require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: "ext4", Flags: tc.flags}))
			require.NoError(t, h.Bind(t.Context(), d, executor.BindOptions{StagingPath: dir, Path: target, FSType: "ext4", Flags: tc.flags}))
			for _, path := range []string{dir, target} {
				require.Equal(t, tc.nosuid, strings.Contains(seen(path), ",nosuid,"), path)
				require.Equal(t, tc.node, strings.Contains(seen(path), ",nodev,"), path)
			}
			require.NoError(t, h.Unmount(t.Context(), d, target))
			h.Mounter.policy = fsm.MountPolicy{}
			if tc.flags != nil {
				requireRejected(t, fsm.Invalid, h.CheckMount(dir, "ext4", tc.flags))
			}
		})
	}
}

func TestQuotasOfProjectsOnXFS(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("xfs")
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	if err := h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: "xfs", Flags: []string{"prjquota"}}); err != nil {
		t.Skipf("this kernel's xfs has no quotas: %v", err)
	}
	lines, err := readTable()
	require.NoError(t, err)
	top, _ := lines.top(dir)
	require.Contains(t, top.VFSOptions, "prjquota")
}

// CSI-NODE-NodeStageVolume-05, 06, 07.
func TestPaths(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	outside := t.TempDir()
	file := filepath.Join(h.dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(h.dir, "link")))
	require.NoError(t, os.Symlink(dir, filepath.Join(h.dir, "inside")))
	require.NoError(t, os.Mkdir(filepath.Join(outside, "sub"), 0o755))
	for name, tc := range map[string]struct {
		path string
		want fsm.Reason
	}{
		"a relative path":               {"rel/path", fsm.Invalid},
		"no path":                       {"", fsm.Invalid},
		"a path outside the root":       {outside, fsm.Invalid},
		"a path that climbs out":        {h.dir + "/../x", fsm.Invalid},
		"the root itself":               {h.dir, fsm.Invalid},
		"a link at the end":             {h.dir + "/link", fsm.Invalid},
		"a link to the inside":          {h.dir + "/inside", fsm.Invalid},
		"a link on the way":             {h.dir + "/link/sub", fsm.Invalid},
		"a file":                        {file, fsm.Invalid},
		"a file on the way":             {file + "/x", fsm.Invalid},
		"a path that does not exist":    {h.dir + "/none", fsm.Precondition},
		"a path longer than the system": {h.dir + strings.Repeat("/x", 2100), fsm.Invalid},
		"a zero byte":                   {h.dir + "/a\x00b", fsm.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				requireRejected(t, tc.want, h.Mount(t.Context(), d, executor.MountOptions{Path: tc.path, FSType: "ext4"}))
			}
		})
	}
	require.Empty(t, h.mounts(d))

	require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: dir + "/", FSType: "ext4"}), "a slash at the end is the same path")
	require.NoError(t, h.Unmount(t.Context(), d, dir))
}

func TestALongPathWorks(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	long := h.dir
	for len(long) < 3600 {
		long += "/" + strings.Repeat("x", 120)
	}
	require.NoError(t, os.MkdirAll(long, 0o755))
	require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: long, FSType: "ext4"}))
	require.Equal(t, []executor.Mount{{Path: long}}, h.mounts(d))
	require.NoError(t, h.Unmount(t.Context(), d, long))
	require.Empty(t, h.mounts(d))
}

func TestMountsAreFoundUnderAnyPath(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	odd := h.mkdir("a b\tc\\d#é")
	require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: odd, FSType: "ext4"}))
	require.Equal(t, []executor.Mount{{Path: odd}}, h.mounts(d))
	require.NoError(t, h.Unmount(t.Context(), d, odd))
}

func TestADamagedFilesystemIsAnErrorThatSaysSo(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, 64<<10), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	err = h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: "ext4"})
	require.ErrorContains(t, err, "mount "+d.Path+" as ext4")
	require.Empty(t, h.mounts(d))
}

// S125.
func TestSelfTestNamesARootWithoutSharedPropagation(t *testing.T) {
	h := newHost(t)
	dir := h.mkdir("kubelet")
	require.NoError(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	m, err := New(Config{Roots: []string{dir}})
	require.NoError(t, err)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_PRIVATE, ""))
	require.ErrorContains(t, m.SelfTest(), dir+" is not shared")
	require.NoError(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	require.NoError(t, m.SelfTest())
	require.NoError(t, m.Close())
}
