package node

import (
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// protectedVariable names the test process that gives up its own cores: it cannot take that back.
const protectedVariable = "HOLDFAST_TEST_PROTECTED"

// S63: neither this process nor a command that it starts leaves a core, and no debugger of another user reads it.
func TestS63_NoProcessWithAPassphraseLeavesACore(t *testing.T) {
	if os.Getenv(protectedVariable) == "" {
		again := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), protectedVariable+"=1")
		out, err := again.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	protectPassphrases(slog.New(slog.DiscardHandler))
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	require.NoError(t, err)
	require.Zero(t, dumpable)
	child := exec.Command("sh", "-c", "kill -QUIT $$")
	child.Dir = t.TempDir()
	require.Error(t, child.Run())
	status, ok := child.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, status.Signaled())
	require.False(t, status.CoreDump(), "a command died without a core")
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	require.Equal(t, unix.Rlimit{Cur: 1, Max: 1}, limit, "and a program that takes cores gets none")
	left, err := os.ReadDir(child.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
