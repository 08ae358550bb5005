package guests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExt4GrowsWhileMounted: growing a mounted ext4 takes CAP_SYS_RESOURCE, which the
// root of a container often lacks; the root of a guest has it.
// CSI-NODE-NodeExpandVolume-04, -08.
func TestExt4GrowsWhileMounted(t *testing.T) {
	out, dmesg := guest(t, "./executor/mount", "TestGrowAMountedExt4NeedsACapability")
	require.Contains(t, out, "--- PASS: TestGrowAMountedExt4NeedsACapability")
	require.Contains(t, dmesg, "resized filesystem to", "the kernel grew it online")
}

// guest runs tests of a package in a guest, and answers what they and the guest's
// kernel said. It fails when the tests do.
func guest(t *testing.T, pkg, run string) (out, dmesg string) {
	t.Helper()
	for _, needed := range []string{"linux.uml", "busybox", "unshare"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("needs %s; the packages are in deploy/packages.sh", needed)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to keep the host's files from the guest")
	}
	lab := shortDir(t)
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(lab, "guest.test"), pkg)
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	script, err := os.ReadFile("init.sh")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(lab, "init.sh"), script, 0o700))
	boot(t, lab, run)
	out = read(t, lab, "out")
	require.Equal(t, "0", strings.TrimSpace(read(t, lab, "rc")), out)
	return out, read(t, lab, "dmesg")
}

// shortDir is outside the test's own folder, whose path is too long for the kernel's sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guest-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// boot runs a guest to its end. It sees the host's files through a mount namespace in
// which all but its own folder is read-only, and ends with this process. It holds no mount
// of a loop device, whose owner could not detach it meanwhile.
func boot(t *testing.T, lab, run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "-m", "--propagation", "private", "sh", "-c",
		`while read -r device where rest; do case $device in /dev/loop*) umount -l "$where";; esac; done </proc/self/mounts
mount --bind "$1" "$1" && mount -o remount,bind,ro / && exec linux.uml mem=1200M umid=guest uml_dir="$1/uml" \
root=/dev/root rootfstype=hostfs rootflags=/ ro init="$1/init.sh" lab="$1" run="$2" panic=1 noreboot con=null con0=null,fd:1 ssl=null`,
		"sh", lab, run)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/dev/shm"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
}

func read(t *testing.T, lab, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(lab, name))
	require.NoError(t, err)
	return string(text)
}
