package freeze

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// TestMain makes this program also the one that thaws, and a node process that
// freezes and can be killed.
func TestMain(m *testing.M) {
	startTimeout = testTimeout
	if len(os.Args) == 3 && os.Args[1] == "thaw" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := Thaw(ctx, os.Args[2], os.Stdout)
		stop()
		exit(err)
	}
	if len(os.Args) == 6 && os.Args[1] == "freeze" {
		exit(freezeAndHang(os.Args[2], fsm.VolumeID(os.Args[3]), os.Args[4], os.Args[5]))
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func freezeAndHang(dir string, id fsm.VolumeID, path, lasts string) error {
	d, err := time.ParseDuration(lasts)
	if err != nil {
		return err
	}
	f, err := New(Config{Dir: dir, Program: program()})
	if err != nil {
		return err
	}
	h, err := f.Freeze(context.Background(), id, path, time.Now().Add(d))
	if err != nil {
		return err
	}
	return h.Run(context.Background(), func(context.Context) error {
		fmt.Println("frozen")
		select {}
	})
}

func program() []string { return []string{"/proc/self/exe", "thaw"} }

// disk is a mounted filesystem that is thawed, unmounted and removed when the test
// ends, whatever the test did.
type disk struct {
	t      *testing.T
	path   string
	device string
}

func newDisk(t *testing.T, fsType string) disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("freezing needs root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("no loop devices on this machine: %v", err)
	}
	dir := t.TempDir()
	image, path := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 320<<20))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, exec.Command("mkfs."+fsType, "-q", image).Run())
	out, err := exec.Command("losetup", "-f", "--show", image).Output()
	require.NoError(t, err)
	d := disk{t, path, strings.TrimSpace(string(out))}
	t.Cleanup(func() { require.NoError(t, exec.Command("losetup", "-d", d.device).Run()) })
	require.NoError(t, exec.Command("mount", d.device, path).Run())
	t.Cleanup(d.clean)
	return d
}

func (d disk) clean() {
	if f, p, err := openRoot(d.path); err == nil {
		if p.DevPath == d.device {
			_ = thawNow(f)
		}
		f.Close()
	}
	require.Eventually(d.t, func() bool {
		err := unix.Unmount(d.path, 0)
		return err == nil || err == unix.EINVAL
	}, testTimeout, 10*time.Millisecond)
}

func (d disk) frozen() bool {
	d.t.Helper()
	f, _, err := openRoot(d.path)
	require.NoError(d.t, err)
	defer f.Close()
	is, err := isFrozen(f)
	require.NoError(d.t, err)
	return is
}

// write writes in the background; the channel is closed when it is done.
func (d disk) write(name string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = os.WriteFile(filepath.Join(d.path, name), []byte("data"), 0o600)
	}()
	return done
}

func requireBlocked(t *testing.T, done <-chan struct{}) {
	t.Helper()
	require.False(t, ends(done, blockedFor), "a writer passed a frozen filesystem")
}

// ends tells whether a writer is done within a while.
func ends(done <-chan struct{}, within time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(within):
		return false
	}
}

func requireWritten(t *testing.T, done <-chan struct{}) {
	t.Helper()
	require.True(t, ends(done, 2*testTimeout), "a writer is still blocked")
}

const (
	// testTimeout is for what takes milliseconds where nobody else uses the machine; no freeze that
	// ends by its deadline lasts longer.
	testTimeout = time.Minute
	// blockedFor is how long a writer is watched that must not pass.
	blockedFor = 100 * time.Millisecond
	// testFreeze is a freeze that does not end by its deadline in a test.
	testFreeze = 5 * time.Minute
)

// whileFrozen calls test with deadlines that are ever later, until one was not over before test had
// looked at what it is about.
func whileFrozen(t *testing.T, test func(lasts time.Duration) (inTime bool)) {
	t.Helper()
	for lasts := time.Second / 2; !test(lasts); lasts *= 2 {
		require.Less(t, lasts, testTimeout, "a freeze always ends before it can be looked at")
	}
}

// freezeBriefly freezes until a deadline that is soon; nil: it was over before all was frozen.
func freezeBriefly(t *testing.T, f *Freezer, id fsm.VolumeID, d disk, lasts time.Duration) *activeFreeze {
	t.Helper()
	got, err := f.Freeze(t.Context(), id, d.path, time.Now().Add(lasts))
	if err != nil {
		requireRejected(t, fsm.Busy, err)
		return nil
	}
	t.Cleanup(func() { _ = got.Thaw(context.Background()) })
	return got.(*activeFreeze)
}

func newFreezer(t *testing.T) *Freezer {
	t.Helper()
	f, err := New(Config{Dir: filepath.Join(t.TempDir(), "freezes"), Program: program()})
	require.NoError(t, err)
	return f
}

func newID() fsm.VolumeID { return fsm.VolumeID("hf-" + uuid.NewString()) }

func freeze(t *testing.T, f *Freezer, id fsm.VolumeID, d disk, lasts time.Duration) *activeFreeze {
	t.Helper()
	got, err := f.Freeze(t.Context(), id, d.path, time.Now().Add(lasts))
	require.NoError(t, err)
	h, ok := got.(*activeFreeze)
	require.True(t, ok)
	t.Cleanup(func() { _ = h.Thaw(context.Background()) })
	return h
}

// startFreezerProcess starts another node process, which is taking a snapshot.
func startFreezerProcess(t *testing.T, f *Freezer, id fsm.VolumeID, d disk) *exec.Cmd {
	t.Helper()
	cmd, froze := tryFreezerProcess(t, f, id, d, testFreeze)
	require.True(t, froze)
	return cmd
}

// tryFreezerProcess also tells whether the process had frozen before the deadline.
func tryFreezerProcess(t *testing.T, f *Freezer, id fsm.VolumeID, d disk, lasts time.Duration) (cmd *exec.Cmd, froze bool) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", "freeze", f.dir, string(id), d.path, lasts.String())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	return cmd, line == "frozen\n"
}

// thawProcessOf is the process that thaws for the starter, found by its record.
func thawProcessOf(t *testing.T, f *Freezer, id fsm.VolumeID) *os.Process {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		parts := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		if len(parts) == 3 && parts[1] == "thaw" && parts[2] == recordPath(f.dir, id) {
			var pid int
			_, err := fmt.Sscan(e.Name(), &pid)
			require.NoError(t, err)
			p, err := os.FindProcess(pid)
			require.NoError(t, err)
			return p
		}
	}
	t.Fatal("nobody is there to thaw")
	return nil
}

func requireRejected(t *testing.T, reason fsm.Reason, err error) {
	t.Helper()
	var rej *fsm.Rejection
	require.ErrorAs(t, err, &rej)
	require.Equal(t, reason, rej.Reason, rej.Message)
}

var _ executor.Freezer = (*Freezer)(nil)
