package dev

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/loopfile"
	"github.com/holdfast-storage/holdfast/executor/run"
)

func TestCleanRemovesOnlyWhatAClusterMade(t *testing.T) {
	l := layout{filepath.Join(t.TempDir(), "d")}
	ctx := context.Background()
	require.NoError(t, Clean(ctx, l.dir), "there is nothing")
	s := &settings{Version: 1, Controllers: 1, Nodes: 1, Ports: map[string]map[string]int{}}
	require.NoError(t, os.MkdirAll(l.pool("n1"), 0o700))
	require.NoError(t, s.save(l))
	mine := l.path("mine.txt")
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	for range 2 {
		require.NoError(t, Clean(ctx, l.dir))
		left, err := os.ReadDir(l.dir)
		require.NoError(t, err)
		require.Len(t, left, 1)
	}
	require.NoError(t, os.Remove(mine))
	require.NoError(t, s.save(l))
	require.NoError(t, Clean(ctx, l.dir))
	require.NoDirExists(t, l.dir)
}

func TestCleanRefusesWhileTheClusterRuns(t *testing.T) {
	l := layout{t.TempDir()}
	require.NoError(t, (&settings{Version: 1}).save(l))
	held, err := lock(l)
	require.NoError(t, err)
	for range 2 {
		err = Clean(context.Background(), l.dir)
		require.ErrorContains(t, err, "stop it first")
		require.Equal(t, exit.Refused, exit.Code(err))
	}
	require.NoError(t, held.Close())
}

func TestCleanReleasesDevicesAndRefusesForeignMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root for loop devices and mounts")
	}
	l := layout{t.TempDir()}
	require.NoError(t, (&settings{Version: 1}).save(l))
	require.NoError(t, os.MkdirAll(l.pool("n1"), 0o700))
	device := attachLoop(t, filepath.Join(l.pool("n1"), "x.img"))
	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	require.NoError(t, unix.Mount("/dev/"+device.name, target, "", unix.MS_BIND, ""))
	foreign := l.path("foreign")
	require.NoError(t, os.MkdirAll(foreign, 0o700))
	require.NoError(t, unix.Mount("none", foreign, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(foreign, 0) }) // done below when all goes well

	err := Clean(context.Background(), l.dir)
	require.ErrorContains(t, err, foreign)
	require.False(t, device.attached())
	var st unix.Stat_t
	require.NoError(t, unix.Stat(target, &st))
	require.EqualValues(t, unix.S_IFREG, st.Mode&unix.S_IFMT, "the bound node is unmounted")
	require.NoError(t, unix.Unmount(foreign, 0))
	require.NoError(t, os.Remove(foreign))
	require.NoError(t, Clean(context.Background(), l.dir))
	require.NoDirExists(t, l.dir)
}

// attachLoop makes a loop device of a new file.
func attachLoop(t *testing.T, path string) loop {
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(1<<20))
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(control)) }()
	for range 20 {
		number, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		require.NoError(t, err)
		l := loop{name: "loop" + strconv.Itoa(number)}
		fd, err := unix.Open("/dev/"+l.name, unix.O_RDWR|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		err = unix.IoctlSetInt(fd, unix.LOOP_SET_FD, int(file.Fd()))
		require.NoError(t, unix.Close(fd))
		if err == nil {
			t.Cleanup(func() {
				if l.attached() {
					_ = l.detach(context.Background()) // the test failed before
				}
			})
			require.NoError(t, file.Close())
			return l
		}
	}
	t.Fatal("no loop device is free")
	return loop{}
}

// A pool's own filesystem is unmounted after what is in it, whatever the kernel's order of devices.
func TestCleanUnmountsAPoolsOwnFilesystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root for loop devices and mounts")
	}
	l := layout{filepath.Join(t.TempDir(), "d")}
	require.NoError(t, os.MkdirAll(l.pool("n1"), 0o700))
	require.NoError(t, (&settings{Version: 1, Nodes: 1, Ports: map[string]map[string]int{}}).save(l))
	f, err := loopfile.OpenFilesystem(t.Context(), l.pool("n1"), run.New(), true)
	require.NoError(t, err)
	if f == nil {
		t.Skip("the tests' folder shares blocks")
	}
	require.NoError(t, f.Close())
	attachLoop(t, filepath.Join(l.pool("n1"), "x.img"))
	for range 2 {
		require.NoError(t, Clean(t.Context(), l.dir))
		require.NoDirExists(t, l.dir)
	}
}
