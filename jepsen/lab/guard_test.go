package lab_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
	"github.com/holdfast-storage/holdfast/jepsen/lab/place"
)

// endVariable makes this program a driver that ends as its value says.
const endVariable = "HOLDFAST_LAB_END"

// TestDriver is the driver of TestALabLeavesNothingBehind, in a process of its own.
func TestDriver(t *testing.T) {
	end := os.Getenv(endVariable)
	if end == "" {
		t.Skip("it runs as a child of TestALabLeavesNothingBehind only")
	}
	l := lab.New(t, lab.Config{Guests: 1, NoHoldfast: true})
	l.MustBoot(t)
	require.NoError(t, l.Block(t.Context(), lab.API, 1, 1))
	_, err := os.Stdout.WriteString("lab " + strconv.Itoa(l.Number) + "\n")
	require.NoError(t, err)
	switch end {
	case "return":
	case "panic":
		panic("on purpose")
	case "goroutine":
		go func() { panic("on purpose, where no cleanup runs") }()
		select {}
	case "killed":
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
}

// TestALabLeavesNothingBehind: processes, bridges, taps, filters, mounts and files are removed after the driver ends, however
// it ends. The short form has the end in which the lab closes itself and the one in which nothing of the driver runs any more;
// a panic is one or the other.
func TestALabLeavesNothingBehind(t *testing.T) {
	lab.RequireLab(t)
	ends := []string{"return", "killed"}
	if longForm {
		ends = append(ends, "panic", "goroutine")
	}
	for _, end := range ends {
		t.Run(end, func(t *testing.T) {
			number := runDriver(t, end)
			p := place.PathsOf(number)
			awaitFree(t, p)
			require.Empty(t, place.Processes(p.Dir()))
			require.Empty(t, p.Devices())
			require.False(t, p.HasTable())
			require.NoDirExists(t, p.Dir())
			mounts, err := os.ReadFile("/proc/self/mounts")
			require.NoError(t, err)
			require.NotContains(t, string(mounts), p.Dir())
		})
	}
}

// runDriver runs a driver to its end and answers the number of its lab.
func runDriver(t *testing.T, end string) int {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	driver := exec.CommandContext(t.Context(), self, "-test.run", "^TestDriver$", "-test.v")
	driver.Env = append(os.Environ(), endVariable+"="+end)
	out, err := driver.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, driver.Start())
	number := 0
	var output strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		output.WriteString(lines.Text() + "\n")
		if text, ok := strings.CutPrefix(lines.Text(), "lab "); ok {
			number, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
	}
	ended := driver.Wait()
	require.NotZero(t, number, output.String())
	require.Equal(t, end == "return", ended == nil, output.String())
	return number
}

// awaitFree waits until the guard has released the lock of the lab's number.
func awaitFree(t *testing.T, p place.Paths) {
	t.Helper()
	require.Eventually(t, func() bool {
		lock, err := os.Open(p.Lock())
		require.NoError(t, err)
		defer func() { _ = lock.Close() }() // lets go of the lock, too
		return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	}, 2*time.Minute, 20*time.Millisecond, "the guard removes the lab")
}

// TestLeftoversAreRemoved: what a killed guard left is removed by the next lab of the number.
func TestLeftoversAreRemoved(t *testing.T) {
	lab.RequireLab(t)
	l, stale := labOverLeftovers(t)
	t.Cleanup(func() { _ = l.Close() }) // in case the test failed
	require.NoFileExists(t, stale)
	p := place.PathsOf(l.Number)
	_, err := lab.Start(t.Context(), lab.Config{Number: l.Number, Guests: 1})
	require.ErrorContains(t, err, "in use", "a lab's number is its own")
	require.NoDirExists(t, p.Guest(2))
	for range 2 {
		require.NoError(t, l.Close())
	}
	lock := lockNumber(t, p.Number)
	if lock == nil {
		return // another lab has the number already, and it removed what was there
	}
	defer func() { _ = lock.Close() }() // lets go of the lock, too
	require.NoDirExists(t, p.Dir())
	require.Empty(t, p.Devices())
}

// labOverLeftovers starts a lab where a killed guard left a tap and a file: the path is the file's. Other labs of this
// machine take the lowest number that is free, so it takes the highest.
func labOverLeftovers(t *testing.T) (over *lab.Lab, stale string) {
	t.Helper()
	for number := place.Last; number > 0; number-- {
		lock := lockNumber(t, number)
		if lock == nil {
			continue
		}
		stale = leaveRemains(t, place.PathsOf(number))
		require.NoError(t, lock.Close())
		l, err := lab.Start(t.Context(), lab.Config{Number: number, Guests: 1, NoHoldfast: true})
		if err == nil {
			return l, stale
		}
		require.ErrorContains(t, err, "in use", "only another lab that came first is in the way")
	}
	require.Fail(t, "no number of a lab is free")
	return nil, ""
}

// leaveRemains is for the holder of the lock of the number. The next lab of the number removes what it leaves, also when
// the test fails.
func leaveRemains(t *testing.T, p place.Paths) (stale string) {
	t.Helper()
	require.NoError(t, p.Sweep())
	require.NoError(t, exec.CommandContext(t.Context(), "ip", "tuntap", "add", "dev", p.Tap("r", 1), "mode", "tap").Run())
	stale = filepath.Join(p.Guest(7), "disk-b")
	require.NoError(t, os.MkdirAll(filepath.Dir(stale), 0o700))
	require.NoError(t, os.WriteFile(stale, nil, 0o600))
	return stale
}

// lockNumber locks the number of a lab: nil when another holds it.
func lockNumber(t *testing.T, number int) *os.File {
	t.Helper()
	path := place.PathsOf(number).Lock()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		require.NoError(t, lock.Close())
		return nil
	}
	return lock
}
