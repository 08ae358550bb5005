package lab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The share of a session is that of the process that started it.
func TestASessionIsLoweredAsItsStarter(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_NICED") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestASessionIsLoweredAsItsStarter$", "-test.v")
		cmd.Env = append(os.Environ(), "HOLDFAST_TEST_NICED=1")
		require.NoError(t, cmd.Start())
		require.NoError(t, cmd.Wait())
		return
	}
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skip("the kernel has no autogroups: ", err)
	}
	runtime.LockOSThread() // the value is the thread's
	require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, 7))
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.NoError(t, lowerAs(cmd.Process.Pid))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", cmd.Process.Pid))
	require.NoError(t, err)
	require.Regexp(t, ` nice 7\n$`, string(text))
}
