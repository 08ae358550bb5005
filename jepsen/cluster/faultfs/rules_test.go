package faultfs

import (
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOperationsFailAsTheRulesSay(t *testing.T) {
	for fault, tc := range map[Fault]struct {
		errno syscall.Errno
		left  string
	}{
		FailWrite: {syscall.EIO, ""}, NoSpace: {syscall.ENOSPC, ""}, TornWrite: {syscall.EIO, "ha"},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			f := mounted(t)
			file, err := os.Create(f.path("a.log"))
			require.NoError(t, err)
			other := f.Inject(Rule{Fault: fault, Files: "*.db"})
			failing := f.Inject(Rule{Fault: fault, Files: "*.log"})
			_, err = file.WriteString("half")
			require.ErrorIs(t, err, tc.errno)
			f.requireFile(t, "a.log", tc.left)
			failing.End()
			_, err = file.WriteAt([]byte("whole"), 0)
			require.NoError(t, err)
			f.requireFile(t, "a.log", "whole")
			require.NoError(t, file.Close())
			require.Equal(t, 1, failing.Hits())
			require.Zero(t, other.Hits())
		})
	}
}

func TestNoSpaceForNames(t *testing.T) {
	f := mounted(t)
	f.Inject(Rule{Fault: NoSpace})
	require.ErrorIs(t, os.Mkdir(f.path("folder"), 0o700), syscall.ENOSPC)
	_, err := os.Create(f.path("file"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	f.Heal()
	require.NoError(t, os.Mkdir(f.path("folder"), 0o700))
}

func TestReadsFail(t *testing.T) {
	f := mounted(t)
	f.writeFile(t, "a", "x", true)
	f.Inject(Rule{Fault: FailRead, Files: "a"})
	_, err := os.ReadFile(f.path("a"))
	require.ErrorIs(t, err, syscall.EIO)
	f.Heal()
	f.requireFile(t, "a", "x")
}

// The writer is a process of its own: this one could not end while it hangs by its own filesystem.
func TestWhatHangsGoesOnWhenTheInjectionEnds(t *testing.T) {
	f := mounted(t)
	f.writeFile(t, "a", "x", true)
	hanging := f.Inject(Rule{Fault: Hang, Files: "a"})
	writer := child(t, "write a", f.at)
	require.NoError(t, writer.Start())
	require.Eventually(t, func() bool { return hanging.Hits() > 0 }, wide, poll)
	f.writeFile(t, "b", "goes on", true)
	require.NoError(t, writer.Process.Signal(syscall.Signal(0)), "the write did not hang")
	hanging.End()
	hanging.End()
	require.NoError(t, writer.Wait())
	f.requireFile(t, "a", "y")
}

func TestWhatIsSlowComesLate(t *testing.T) {
	f := mounted(t)
	slow := f.Inject(Rule{Fault: Slow, Delay: 20 * time.Millisecond})
	began := time.Now()
	f.writeFile(t, "a", "x", true)
	require.GreaterOrEqual(t, time.Since(began), 40*time.Millisecond, "the file was written and synced")
	require.GreaterOrEqual(t, slow.Hits(), 2)
	f.requireFile(t, "a", "x")
}

func TestManyAtOnce(t *testing.T) {
	f := mounted(t)
	var wait sync.WaitGroup
	for worker := range 8 {
		name := string(rune('a' + worker))
		wait.Go(func() {
			for range 20 {
				f.writeFile(t, name+".tmp", "x", true)
				if err := os.Rename(f.path(name+".tmp"), f.path(name)); err != nil {
					t.Error(err)
				}
				f.syncFolder(t, ".")
			}
		})
	}
	wait.Wait()
	require.NoError(t, f.PowerLoss(0))
	for worker := range 8 {
		f.requireFile(t, string(rune('a'+worker)), "x")
	}
}
