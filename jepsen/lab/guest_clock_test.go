package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// The environment variables that make the test binary suppress the alarms of the process with that pid for some time.
const (
	loseAlarmsOf  = "HOLDFAST_LOSE_ALARMS_OF"
	loseAlarmsFor = "HOLDFAST_LOSE_ALARMS_FOR"
)

// TestMain runs the tracer when it was started as one. The tracer is a process of its own, because the
// lab waits for its children's exit, and a tracer's wait also reports the stops of what it traces.
func TestMain(m *testing.M) {
	traced := os.Getenv(loseAlarmsOf)
	if traced == "" {
		os.Exit(m.Run())
	}
	pid, err := strconv.Atoi(traced)
	within, werr := time.ParseDuration(os.Getenv(loseAlarmsFor))
	if err = errors.Join(err, werr); err == nil {
		err = loseAlarms(pid, within)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lose the alarms of", traced+":", err)
		os.Exit(1)
	}
}

// testLostAlarms loses the alarms of a kernel that is busy: one that idles arms its timer anew when
// it wakes.
func testLostAlarms(t *testing.T, l *lab.Lab) {
	g := l.Guest(2)
	g.MustExec(t, "(for ((i = 0; i < 1500000; i++)); do :; done) >/dev/null 2>&1 & echo")
	tracer := exec.Command(os.Args[0])
	tracer.Env = append(os.Environ(), loseAlarmsOf+"="+kernelPID(t, g), loseAlarmsFor+"=150ms")
	said, err := tracer.CombinedOutput()
	require.NoError(t, err, string(said))
	require.NoError(t, g.CheckClock(t.Context()), "the clock goes on")
}

// testStandingClock shows the agent a file in place of the kernel's clock: it answers, and always the same.
func testStandingClock(t *testing.T, l *lab.Lab) {
	g := l.Guest(2)
	g.MustExec(t, "cat /proc/timer_list >/run/timer_list && mount --bind /run/timer_list /proc/timer_list")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := g.CheckClock(ctx)
	g.MustExec(t, "umount /proc/timer_list")
	require.ErrorIs(t, err, lab.ErrClockStands)
	require.NoError(t, g.CheckClock(t.Context()), "the clock goes on")
}

// testWithheldAlarms keeps all alarms from a busy kernel until that was noticed: as often as it takes,
// because the kernel may have just slept. What keeps it busy is of the idle policy, so that the agent has its turn;
// but an agent that waits for a timer of that kernel does not answer at all, which is noticed too.
func testWithheldAlarms(t *testing.T, l *lab.Lab) {
	g := l.Guest(2)
	g.MustExec(t, "chrt --idle 0 bash -c 'while [ ! -e /run/enough ]; do :; done' >/dev/null 2>&1 & echo")
	tracer := exec.Command(os.Args[0])
	tracer.Env = append(os.Environ(), loseAlarmsOf+"="+kernelPID(t, g), loseAlarmsFor+"=10m")
	require.NoError(t, tracer.Start())
	t.Cleanup(func() { _ = tracer.Process.Kill() }) // where the test failed before: it may be gone
	lab.Await(t, 5*time.Minute, "the standing clock is noticed", func() (bool, string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := g.CheckClock(ctx)
		return err != nil, fmt.Sprint(err)
	})
	require.NoError(t, tracer.Process.Kill())
	_ = tracer.Wait() // it was killed
	require.NoError(t, g.CheckClock(t.Context()), "the clock goes on")
	g.MustExec(t, ": >/run/enough")
}

func kernelPID(t *testing.T, g *lab.Guest) string {
	raw, err := os.ReadFile(filepath.Join(g.Dir(), "uml", g.Name(), "pid"))
	require.NoError(t, err)
	return strings.TrimSpace(string(raw))
}

// loseAlarms traces a process and keeps all alarms from it.
func loseAlarms(pid int, within time.Duration) error {
	runtime.LockOSThread() // a tracer is a thread
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	for end := time.Now().Add(within); time.Now().Before(end); {
		if err := passSignal(pid); err != nil {
			return err
		}
	}
	return nil // the end of a tracer lets go of what it traced
}

// passSignal delivers the signal with which the process is stopped, except an alarm.
func passSignal(pid int) error {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WNOHANG|unix.WALL, nil); err != nil {
		return err
	}
	switch {
	case !status.Stopped():
		time.Sleep(time.Millisecond)
		return nil
	case status.StopSignal() == unix.SIGALRM:
		return unix.PtraceCont(pid, 0)
	default:
		return unix.PtraceCont(pid, int(status.StopSignal()))
	}
}
