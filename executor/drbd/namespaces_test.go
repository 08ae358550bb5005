package drbd

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// inNamespace is set for a test that was started again in namespaces of its own.
const inNamespace = "HOLDFAST_TEST_IN_NAMESPACE"

// The kernel's own namespaces are told apart as those of a pod without hostPID or hostNetwork would be.
func TestS13_NamespacesOfTheKernelAreToldApart(t *testing.T) {
	check := New(Config{}).check
	if want := os.Getenv(inNamespace); want != "" {
		require.ErrorContains(t, check.checkNamespaces(t.Context()), want)
		return
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	require.NoError(t, err)
	if own != initialPIDNamespace || os.Geteuid() != 0 {
		t.Skip("this test is in a container itself, or is not root's")
	}
	for want, flags := range map[string]uintptr{
		"set hostPID: true":                         syscall.CLONE_NEWPID,
		"a uts namespace of its own, and DRBD is":   syscall.CLONE_NEWUTS,
		"a net namespace of its own, and DRBD is":   syscall.CLONE_NEWNET,
		"which the host's root cannot be seen: set": syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
	} {
		if _, err := os.Readlink("/proc/1/ns/net"); err != nil && flags&syscall.CLONE_NEWPID == 0 {
			t.Logf("the first process's namespaces cannot be seen here: %v", err)
			continue
		}
		again := exec.Command(os.Args[0], "-test.run=^TestS13_NamespacesOfTheKernelAreToldApart$", "-test.count=1")
		again.Env = append(os.Environ(), inNamespace+"="+want)
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		out, err := again.CombinedOutput()
		require.NoError(t, err, "%s: %s", want, out)
	}
}
