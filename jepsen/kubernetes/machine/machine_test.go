package machine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// started is a machine with a second disk at /pool, which is removed when the test ends.
func started(t *testing.T) (context.Context, Config) {
	if os.Getuid() != 0 {
		t.Skip("machines need root")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c := Config{Name: "m1", Dir: t.TempDir(), Kept: []string{"/var/lib/kept"}, Files: map[string]string{"/etc/mine": "mine\n"},
		Disks: []Disk{{Name: "pool", Size: 512 << 20, At: "/pool"}}}
	require.NoError(t, Start(ctx, c))
	t.Cleanup(func() { require.NoError(t, RemoveAll(c.Dir)) })
	return ctx, c
}

func says(t *testing.T, c Config, command, want string) {
	t.Helper()
	got, err := c.Exec(t.Context(), "sh", "-c", command)
	require.NoError(t, err)
	require.Equal(t, want, strings.TrimSpace(got))
}

func TestAMachineIsOneOfItsOwn(t *testing.T) {
	ctx, c := started(t)
	says(t, c, "hostname; cat /etc/mine; ls /sys/class/net; cat /proc/1/comm", "m1\nmine\nlo\nexe")
	says(t, c, "touch /etc/only-here /var/lib/kept/file && cat /proc/sys/kernel/panic", settings["kernel/panic"])
	require.NoFileExists(t, "/etc/only-here")
	require.ErrorContains(t, Start(ctx, c), "runs already")
}

// TestALossOfPowerLeavesNothingButDisks has a filesystem on a loop device of a file on a disk of the machine, as volumes are.
func TestALossOfPowerLeavesNothingButDisks(t *testing.T) {
	ctx, c := started(t)
	says(t, c, "truncate -s 64M /pool/volume && mkfs.ext4 -q /pool/volume && mkdir /mnt/v && mount -o loop /pool/volume /mnt/v && echo kept >/pool/file && sync", "")
	require.NoError(t, Run(c, Unit{Name: "sleeper", Args: []string{"/bin/sleep", "1000"}}))
	require.Eventually(t, func() bool { pids, _ := c.Processes("sleep 1000"); return len(pids) == 1 }, 10*time.Second, 10*time.Millisecond)
	for range 2 {
		require.NoError(t, Stop(c))
		requireNothing(t, c)
	}
	require.NoError(t, Start(ctx, c))
	says(t, c, "cat /pool/file; ls -d /mnt/v", "kept\n/mnt/v")
}

// requireNothing wants no process, loop device or cgroup of the machine to be left.
func requireNothing(t *testing.T, c Config) {
	t.Helper()
	_, err := c.PID()
	require.Error(t, err)
	pids, err := c.Processes("sleep 1000")
	require.NoError(t, err)
	require.Empty(t, pids)
	all, err := loops()
	require.NoError(t, err)
	for _, l := range all {
		require.NotContains(t, l.file, c.Dir)
		require.NotEqual(t, "/pool/volume", l.file)
	}
	found, err := filepath.Glob(filepath.Join(cgroupRoot, "*", c.cgroup()))
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestAUnitThatEndsIsStartedAgain(t *testing.T) {
	_, c := started(t)
	require.NoError(t, Run(c, Unit{Name: "sleeper", Args: []string{"/bin/sleep", "1000"}}))
	one := func() int {
		pids, err := c.Processes("sleep 1000")
		require.NoError(t, err)
		if len(pids) != 1 {
			return 0
		}
		return pids[0]
	}
	require.Eventually(t, func() bool { return one() != 0 }, 10*time.Second, 10*time.Millisecond)
	first := one()
	killed, err := c.Signal("sleep", syscall.SIGKILL)
	require.NoError(t, err)
	require.Equal(t, 1, killed)
	require.Eventually(t, func() bool { return one() != 0 && one() != first }, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, Run(c))
	require.Eventually(t, func() bool { return one() == 0 }, 10*time.Second, 10*time.Millisecond)
}

func TestMachinesReachEachOtherByTheirSwitch(t *testing.T) {
	ctx, c := started(t)
	other := Config{Name: "m2", Dir: c.Dir}
	require.NoError(t, Start(ctx, other))
	require.NoError(t, c.MakeSwitch(ctx, "10.90.0.1/24"))
	require.NoError(t, other.Plug(ctx, c, "10.90.0.2/24", "10.90.0.1"))
	says(t, other, "busybox ping -c 1 -W 20 10.90.0.1 >/dev/null && echo reached", "reached")
	require.NoError(t, other.Unplug(ctx, true, "10.90.0.1"))
	_, err := other.Exec(ctx, "busybox", "ping", "-c", "1", "-W", "1", "10.90.0.1")
	require.Error(t, err)
	require.NoError(t, other.Unplug(ctx, false, "10.90.0.1"))
	says(t, other, "busybox ping -c 1 -W 20 10.90.0.1 >/dev/null && echo reached", "reached")
}
