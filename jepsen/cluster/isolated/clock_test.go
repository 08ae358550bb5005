package isolated

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockHelper has a process of this test binary print its clocks, one line for each line that it reads.
const clockHelper = "HOLDFAST_TEST_CLOCK"

func TestHelperClock(t *testing.T) {
	if os.Getenv(clockHelper) == "" {
		t.Skip("it is a part of the tests of clocks")
	}
	for range 3 { // threads that read the clock all the time
		go func() {
			for {
				_ = time.Now()
			}
		}()
	}
	began := time.Now()
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		now := time.Now()
		fmt.Printf("%d %d\n", now.UnixNano(), now.Sub(began))
	}
	os.Exit(0)
}

// clockProcess is a process that says what its clocks show.
type clockProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	ask func() (wall time.Time, ran time.Duration)
}

func startClockProcess(t *testing.T) *clockProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHelperClock$")
	cmd.Env = append(os.Environ(), clockHelper+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	return &clockProcess{t, cmd, func() (time.Time, time.Duration) {
		_, err := fmt.Fprintln(in)
		require.NoError(t, err)
		var wall, ran int64
		_, err = fmt.Fscan(lines, &wall, &ran)
		require.NoError(t, err)
		return time.Unix(0, wall), time.Duration(ran)
	}}
}

// requireAhead asserts that the process's wall clock is so much ahead of this one's: what it showed lies between
// this one's before and after.
func (p *clockProcess) requireAhead(ahead time.Duration) {
	p.t.Helper()
	before := time.Now()
	wall, _ := p.ask()
	after := time.Now()
	require.False(p.t, wall.Add(-ahead).Before(before.Add(-time.Millisecond)), "%s ahead: %s at %s", ahead, wall, before)
	require.False(p.t, wall.Add(-ahead).After(after.Add(time.Millisecond)), "%s ahead: %s at %s", ahead, wall, after)
}

// TestStepClockSetsOneWallClock: the wall clock of one busy process jumps, its monotonic clock and this process's do not.
func TestStepClockSetsOneWallClock(t *testing.T) {
	p := startClockProcess(t)
	if _, err := findVDSO(p.cmd.Process.Pid); errors.Is(err, ErrNoClock) {
		t.Skip(err)
	}
	p.requireAhead(0)
	_, last := p.ask()
	for _, ahead := range []time.Duration{time.Hour, -90 * time.Minute, 1500 * time.Millisecond, -300 * time.Millisecond, 0} {
		require.NoError(t, stepClock(p.cmd.Process.Pid, ahead))
		p.requireAhead(ahead)
		_, ran := p.ask()
		require.GreaterOrEqual(t, ran, last, "the monotonic clock went back")
		require.Less(t, ran-last, 10*time.Minute, "the monotonic clock jumped")
		last = ran
	}
}
