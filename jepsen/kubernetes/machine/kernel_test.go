package machine

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAMachineHasAKernelOfItsOwn boots a guest beside another machine that it reaches, and lets it lose its power.
func TestAMachineHasAKernelOfItsOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("machines need root")
	}
	kernel, err := InstalledKernel()
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	dir := t.TempDir()
	t.Cleanup(func() { require.NoError(t, RemoveAll(dir)) })
	near := Config{Name: "near", Dir: dir}
	require.NoError(t, Start(ctx, near))
	require.NoError(t, near.MakeSwitch(ctx, "10.93.0.1/24"))
	kernel.Memory, kernel.Load, kernel.Address, kernel.Gateway = 256<<20, []string{"loop", "drbd"}, "10.93.0.2/24", "10.93.0.1"
	c := Config{Name: "guest", Dir: dir, Kernel: &kernel, Kept: []string{"/var/lib/kept"}, Files: map[string]string{"/etc/mine": "mine\n"},
		Disks: []Disk{{Name: "pool", Size: 512 << 20, At: "/pool"}, {Name: "raw", Size: 64 << 20}}}
	for boot := range 2 {
		require.NoError(t, Start(ctx, c))
		require.NoError(t, c.PlugGuest(ctx, near))
		require.NoError(t, c.Boot(ctx))
		says(t, c, "hostname; cat /etc/mine; cat /proc/mounts | grep -c ' /pool xfs '; blockdev --getsz /dev/ubdd; ls -d /sys/module/drbd", "guest\nmine\n1\n131072\n/sys/module/drbd")
		says(t, c, "ip -4 -o addr show vec0 | grep -c 10.93.0.2; busybox ping -c1 -W5 10.93.0.1 >/dev/null && echo reached", "1\nreached")
		if boot == 0 {
			says(t, c, "echo kept | tee /pool/file /var/lib/kept/file; sync", "kept")
		}
		says(t, c, "cat /pool/file /var/lib/kept/file", "kept\nkept")
		_, err := c.Exec(ctx, "sh", "-c", "echo out of order >&2; exit 3")
		require.ErrorContains(t, err, "exit code 3: out of order")
		require.NoError(t, Stop(c))
		pids, err := c.Processes("linux.uml")
		require.NoError(t, err)
		require.Empty(t, pids)
	}
}
