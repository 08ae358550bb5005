package lab_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestExt4GrowsWhileMounted: growing a mounted ext4 takes CAP_SYS_RESOURCE, which the
// root of a container often lacks; the root of a guest has it. The image is in the guest's memory.
// CSI-NODE-NodeExpandVolume-04, -08.
func TestExt4GrowsWhileMounted(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Config{Guests: 1, Memory: 1200 << 20, Disks: []int64{}, NoHoldfast: true})
	program := l.InstallTests(t, "executor/mount")
	l.MustBoot(t)
	g := l.Guest(1)
	g.MustExec(t, "mount -o remount,size=900m /tmp")
	out, err := g.RunTests(t, program, "", "-test.run '^TestGrowAMountedExt4NeedsACapability$'")
	require.NoError(t, err)
	require.Contains(t, out, "--- PASS: TestGrowAMountedExt4NeedsACapability")
	dmesg, err := g.Dmesg(t.Context())
	require.NoError(t, err)
	require.Contains(t, dmesg, "resized filesystem to", "the kernel grew it online")
}
