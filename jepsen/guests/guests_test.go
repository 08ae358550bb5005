package guests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestExt4GrowsWhileMounted: growing a mounted ext4 takes CAP_SYS_RESOURCE, which the
// root of a container often lacks; the root of a guest has it.
// CSI-NODE-NodeExpandVolume-04, -08.
func TestExt4GrowsWhileMounted(t *testing.T) {
	out, dmesg := runTestInGuest(t, "github.com/holdfast-storage/holdfast/executor/mount", "TestGrowAMountedExt4NeedsACapability")
	require.Contains(t, out, "--- PASS: TestGrowAMountedExt4NeedsACapability")
	require.Contains(t, dmesg, "resized filesystem to", "the kernel grew it online")
}

// runTestInGuest runs tests of a package in a guest, and answers what they and the guest's
// kernel said. It fails when the tests do.
func runTestInGuest(t *testing.T, pkg, run string) (out, dmesg string) {
	t.Helper()
	l := lab.New(t, lab.Config{Guests: 1, Memory: 1200 << 20, Disks: []int64{}, NoHoldfast: true})
	g := l.Guest(1)
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(g.Shared(), "guest.test"), pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	l.MustBoot(t)
	g.MustExec(t, "mount -o remount,size=900m /tmp")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	out, code, err := g.Exec(ctx, "cd /tmp && /lab/guest.test -test.v -test.run '^"+run+"$' 2>&1")
	require.NoError(t, err, out)
	require.Zero(t, code, out)
	dmesg, err = g.Dmesg(t.Context())
	require.NoError(t, err)
	return out, dmesg
}
