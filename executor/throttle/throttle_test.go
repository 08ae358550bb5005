package throttle

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// TestMain makes this program also the writer whose rate is measured.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "write" {
		if err := write(os.Args[2], os.Args[3]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const block = 64 << 10

// write writes so many blocks directly to a device, once it is told to begin, and tells when it has.
func write(device, blocks string) error {
	n, err := strconv.Atoi(blocks)
	if err != nil {
		return err
	}
	var go1 [1]byte
	if _, err := os.Stdin.Read(go1[:]); err != nil { // until then it is put into its group
		return err
	}
	fd, err := unix.Open(device, unix.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	buf, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	for i := range int64(n) {
		if _, err := unix.Pwrite(fd, buf, i*block); err != nil {
			return err
		}
	}
	_, err = os.Stdout.Write([]byte{1}) // not by its end: a process under the race detector ends a second later
	return err
}

// newGroup creates a control group that is removed when the test ends.
func newGroup(t *testing.T) (*Throttle, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("control groups need root")
	}
	th, err := New(Config{})
	if err != nil {
		t.Skipf("nothing bounds I/O on this machine: %v", err)
	}
	dir, err := os.MkdirTemp(th.root, "holdfast-test-")
	if err != nil {
		t.Skipf("no control group can be made on this machine: %v", err)
	}
	name := filepath.Base(dir)
	th, err = New(Config{Group: name})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.Remove(filepath.Join(th.root, th.group)) == nil }, time.Minute, 10*time.Millisecond)
	})
	if err := th.Check(); err != nil {
		t.Skipf("the control groups of this machine do not bound I/O: %v", err)
	}
	return th, name
}

// newDevice sets up a loop device that is removed when the test ends.
func newDevice(t *testing.T) executor.Device {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, make([]byte, 16<<20), 0o600))
	out, err := exec.Command("losetup", "-f", "--show", image).Output()
	if err != nil {
		t.Skipf("no loop devices on this machine: %v", err)
	}
	path := strings.TrimSpace(string(out))
	t.Cleanup(func() { require.NoError(t, exec.Command("losetup", "-d", path).Run()) })
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	return executor.Device{Exists: true, Path: path, Number: st.Rdev}
}

func TestApplyIsReadBackAndEndsWithZero(t *testing.T) {
	th, _ := newGroup(t)
	d := newDevice(t)
	for name, limits := range map[string]fsm.Limits{
		"all":          {ReadIOPS: 100, WriteIOPS: 200, ReadBPS: 1 << 20, WriteBPS: 2 << 20},
		"one":          {WriteBPS: 3 << 20},
		"others":       {ReadIOPS: 7},
		"very large":   {ReadIOPS: 1 << 40, WriteBPS: 1 << 50},
		"none, at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.NoError(t, th.Apply(t.Context(), d, limits))
				for _, s := range th.limitLines(filepath.Join(th.root, th.group), limits) {
					got, err := s.current(deviceNumber(d))
					require.NoError(t, err)
					require.Equal(t, s.expected, got)
				}
			}
		})
	}
	for range 2 {
		require.NoError(t, th.Apply(t.Context(), d, fsm.Limits{}))
		for _, s := range th.limitLines(filepath.Join(th.root, th.group), fsm.Limits{}) {
			text, err := os.ReadFile(s.file)
			require.NoError(t, err)
			require.NotContains(t, string(text), deviceNumber(d)+" ")
		}
	}
}

func TestAMissingGroupRefusesLimitsAndNeedsNoCleanup(t *testing.T) {
	th, name := newGroup(t)
	none := &Throttle{root: th.root, group: th.group + "-none", version: th.version}
	d := executor.Device{Path: "/dev/loop0", Number: unix.Mkdev(7, 0)}
	require.NoError(t, none.Apply(t.Context(), d, fsm.Limits{}))
	var rej *fsm.Rejection
	require.ErrorAs(t, none.Apply(t.Context(), d, fsm.Limits{ReadBPS: 1}), &rej)
	require.Equal(t, fsm.Precondition, rej.Reason)
	require.ErrorAs(t, none.Check(), &rej)
	require.ErrorAs(t, th.Apply(t.Context(), executor.Device{}, fsm.Limits{}), &rej, "not attached")
	for _, bad := range []string{"../" + name, "/etc"} {
		_, err := New(Config{Group: bad})
		require.Error(t, err)
	}
}

// The files of cgroup v2 are written as its documentation says; whether the kernel
// obeys is measured only where v2 bounds I/O.
func TestLimitLinesOfBothVersions(t *testing.T) {
	all := fsm.Limits{ReadIOPS: 1, WriteIOPS: 2, ReadBPS: 3, WriteBPS: 4}
	v2 := func(l fsm.Limits) []limitLine { return (&Throttle{version: 2}).limitLines("/g", l) }
	require.Equal(t, []limitLine{{"/g/io.max", "rbps=3 wbps=4 riops=1 wiops=2", "rbps=3 wbps=4 riops=1 wiops=2"}}, v2(all))
	require.Equal(t, []limitLine{{"/g/io.max", "rbps=max wbps=4 riops=max wiops=max", "rbps=max wbps=4 riops=max wiops=max"}}, v2(fsm.Limits{WriteBPS: 4}))
	require.Equal(t, []limitLine{{"/g/io.max", "rbps=max wbps=max riops=max wiops=max", ""}}, v2(fsm.Limits{}))
	v1 := func(l fsm.Limits) []limitLine { return (&Throttle{version: 1}).limitLines("/g", l) }
	require.Equal(t, []limitLine{
		{"/g/blkio.throttle.read_bps_device", "3", "3"}, {"/g/blkio.throttle.write_bps_device", "4", "4"},
		{"/g/blkio.throttle.read_iops_device", "1", "1"}, {"/g/blkio.throttle.write_iops_device", "0", ""},
	}, v1(fsm.Limits{ReadIOPS: 1, ReadBPS: 3, WriteBPS: 4}))
}

// requireFaster waits until a writer gets its blocks through at more than a rate, which others on
// the machine may keep it from for a while.
func requireFaster(t *testing.T, th *Throttle, d executor.Device, blocks int, rate float64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); writeTime(t, th, d, blocks) >= timeAt(blocks, rate); {
		require.True(t, time.Now().Before(end), "a writer never gets %.1f MiB/s", rate/(1<<20))
	}
}

// timeAt is how long blocks take at a rate in bytes a second.
func timeAt(blocks int, rate float64) time.Duration {
	return time.Duration(float64(blocks*block) / rate * float64(time.Second))
}

// writeTime is how long a writer in the group takes for its blocks.
func writeTime(t *testing.T, th *Throttle, d executor.Device, blocks int) time.Duration {
	t.Helper()
	writer := exec.Command("/proc/self/exe", "write", d.Path, strconv.Itoa(blocks))
	in, err := writer.StdinPipe()
	require.NoError(t, err)
	out, err := writer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())
	t.Cleanup(func() { _ = writer.Process.Kill() })
	require.NoError(t, os.WriteFile(filepath.Join(th.root, th.group, "cgroup.procs"), []byte(strconv.Itoa(writer.Process.Pid)), 0))
	began := time.Now()
	_, err = in.Write([]byte{1})
	require.NoError(t, err)
	_, err = io.ReadFull(out, make([]byte, 1))
	took := time.Since(began)
	require.NoError(t, err)
	require.NoError(t, writer.Wait())
	return took
}

func TestALimitBoundsAWriter(t *testing.T) {
	th, _ := newGroup(t)
	d := newDevice(t)
	for name, tc := range map[string]struct {
		limits fsm.Limits
		rate   float64 // bytes a second
	}{
		"bytes a second":      {fsm.Limits{WriteBPS: 4 << 20}, 4 << 20},
		"operations a second": {fsm.Limits{WriteIOPS: 32}, 32 * block},
	} {
		t.Run(name, func(t *testing.T) {
			blocks := int(tc.rate / block) // for a second
			requireFaster(t, th, d, blocks, 1.5*tc.rate)
			require.NoError(t, th.Apply(t.Context(), d, tc.limits))
			require.Greater(t, writeTime(t, th, d, blocks), timeAt(blocks, 1.5*tc.rate))
			requireFaster(t, th, d, blocks, 0.2*tc.rate) // it is bounded, not stopped
			require.NoError(t, th.Apply(t.Context(), d, fsm.Limits{}))
			requireFaster(t, th, d, blocks, 1.5*tc.rate)
		})
	}
}
