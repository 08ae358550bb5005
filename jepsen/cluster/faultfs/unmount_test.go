package faultfs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/mountns"
)

// holdForEver has a file open until the process is killed.
func holdForEver(folder string) error {
	f, err := os.Create(filepath.Join(folder, "a"))
	if err != nil {
		return err
	}
	fmt.Println(1)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return f.Close()
}

// writeOn writes and syncs until that fails.
func writeOn(folder string) error {
	f, err := os.Create(filepath.Join(folder, "a"))
	for n := 1; err == nil; n++ {
		if n == 10 {
			fmt.Println(1)
		}
		if _, err = f.WriteAt([]byte("x"), 0); err == nil {
			err = f.Sync()
		}
	}
	return err
}

// requireUnmounts fails where Unmount does not end, instead of waiting with it. What it is called beside goes on meanwhile.
func requireUnmounts(t *testing.T, f *FS) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f.Unmount() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(wide):
		require.FailNow(t, "Unmount does not end")
	}
	require.Zero(t, mountsAt(t, f.at))
	require.Zero(t, f.handles.count())
}

// TestUnmountEndsWhatHangs: a process with an operation that hangs goes on, and ends.
func TestUnmountEndsWhatHangs(t *testing.T) {
	for _, fault := range []Rule{{Fault: Hang}, {Fault: Slow, Delay: 1000 * wide}} {
		t.Run(fault.Fault.String(), func(t *testing.T) {
			f := mounted(t)
			f.writeFile(t, "a", "x", true)
			held := f.Inject(fault)
			writer := child(t, "write a", f.at)
			require.NoError(t, writer.Start())
			require.Eventually(t, func() bool { return held.Hits() > 0 }, wide, poll)
			requireUnmounts(t, f)
			requireEnds(t, writer)
		})
	}
}

// TestNothingHangsByARuleThatComesTooLate: rules that are put in force beside Unmount hold nothing that it waits for.
func TestNothingHangsByARuleThatComesTooLate(t *testing.T) {
	f := mounted(t)
	writer := start(t, "write on", f.at)
	over, injecting := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(injecting)
		for {
			select {
			case <-over:
				return
			default:
				f.Inject(Rule{Fault: Hang})
			}
		}
	}()
	requireUnmounts(t, f)
	close(over)
	<-injecting
	f.Inject(Rule{Fault: Hang})
	require.Zero(t, f.rules.check(opWrite, "a"))
	requireEnds(t, writer)
}

// TestUnmountCutsOffWhatIsHeldOpen: also where the mount was copied to another namespace.
func TestUnmountCutsOffWhatIsHeldOpen(t *testing.T) {
	f := mounted(t)
	holder := child(t, "hold a", f.at)
	mountns.New(holder)
	in := startChild(t, holder)
	requireUnmounts(t, f)
	require.NoError(t, in.Close())
	requireEnds(t, holder)
	requireUnmounts(t, f) // it may be repeated
}

// start starts a child, and returns when it has printed a line.
func start(t *testing.T, what, folder string) *exec.Cmd {
	t.Helper()
	cmd := child(t, what, folder)
	startChild(t, cmd)
	return cmd
}

func startChild(t *testing.T, cmd *exec.Cmd) (in io.Closer) {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	return in
}

// requireEnds asserts that a child ends, in whatever way.
func requireEnds(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(wide):
		require.FailNow(t, "the process does not end")
	}
}
