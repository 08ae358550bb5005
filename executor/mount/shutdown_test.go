package mount

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// envAsProgram makes this test binary do the work of `holdfast end-filesystem`.
const envAsProgram = "HOLDFAST_TEST_END_FILESYSTEM"

func TestEndFilesystemProcess(t *testing.T) {
	if os.Getenv(envAsProgram) == "" {
		t.Skip("it runs as a child of the tests of Shutdown only")
	}
	device, err := strconv.ParseUint(flag.Arg(1), 10, 64)
	require.NoError(t, err)
	if err := EndFilesystem(flag.Arg(0), device, os.Stdout); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func TestS9_AFilesystemIsShutDown(t *testing.T) {
	t.Setenv(envAsProgram, "1")
	for _, fs := range []string{"ext4", "xfs"} {
		t.Run(fs, func(t *testing.T) {
			h := newHost(t)
			h.program = []string{os.Args[0], "-test.run", "^TestEndFilesystemProcess$", "--"}
			require.NoError(t, h.Shutdown(t.Context(), h.device(testSize)), "not mounted: done")
			device, dir := h.stageNew(fs)
			file, err := os.Create(filepath.Join(dir, "file"))
			require.NoError(t, err)
			defer file.Close()
			require.NoError(t, file.Sync())
			for range 2 {
				require.NoError(t, h.Shutdown(t.Context(), device))
				_, err = file.WriteString("more")
				require.ErrorIs(t, err, unix.EIO)
			}
			require.ErrorContains(t, h.shutDownAt(t.Context(), dir, device.Number+1), "another filesystem is mounted there")
			require.ErrorContains(t, h.shutDownAt(t.Context(), h.dir+"/nothing", device.Number), "no such file")
			require.NoError(t, file.Close())
			require.Eventually(t, func() bool { return h.Unmount(t.Context(), device, dir) == nil }, time.Minute, 20*time.Millisecond,
				"the program that told it has the root open until it ends")
			require.NoError(t, h.Mount(t.Context(), device, executor.MountOptions{Path: dir, FSType: fs}), "it recovers")
		})
	}
}

// What is slow is not started a second time, and its answer counts when it comes.
func TestAShutdownThatIsSlowIsJoined(t *testing.T) {
	h := newHost(t)
	pending := newPendingShutdown(0)
	h.shutdowns[7] = pending
	h.program = []string{"/bin/false"}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.shutDownAt(ctx, "/", 7), context.DeadlineExceeded)
	pending.end(shutdownDone)
	require.NoError(t, h.shutDownAt(t.Context(), "/", 7))
	require.ErrorContains(t, h.shutDownAt(t.Context(), "/", 7), "shut down the filesystem on /: ")
	require.Empty(t, h.shutdowns)
	h.program = nil
	require.ErrorContains(t, h.shutDownAt(t.Context(), "/", 7), "no program is configured")
}

// A result that no caller waited for applies to what was mounted then. It does not shut down what
// was mounted since on a device with that number.
func TestAShutdownOfAnEarlierMountIsNotJoined(t *testing.T) {
	m, err := New(Config{Roots: []string{t.TempDir()}, Program: []string{"/bin/false"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	m.shutdownTimeout = time.Minute
	pending := newPendingShutdown(0)
	pending.end(shutdownDone)
	m.shutdowns[7] = pending
	m.mountCounts.add(7) // as Mount does
	require.ErrorContains(t, m.shutDownAt(t.Context(), "/", 7), "shut down the filesystem on /: ")
	require.Empty(t, m.shutdowns)
}

// A device that does not answer makes only its own callers wait, and each of them gets the answer.
func TestAShutdownWaitsForItsOwnDeviceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, ended := newPendingShutdown(0), newPendingShutdown(0)
		ended.end(shutdownDone)
		m := &Mounter{shutdownTimeout: time.Hour, shutdowns: map[uint64]*pendingShutdown{7: hanging, 8: ended}}
		answers := make(chan error)
		for range 2 {
			go func() { answers <- m.shutDownAt(t.Context(), "/seven", 7) }()
		}
		synctest.Wait()
		require.NoError(t, m.shutDownAt(t.Context(), "/eight", 8))
		hanging.end(shutdownDone)
		for range 2 {
			require.NoError(t, <-answers)
		}
		require.Empty(t, m.shutdowns)
	})
}
