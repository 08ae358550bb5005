package lab_test

import (
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

// loseAlarmsOf is the environment variable that makes the test binary suppress the alarms of the process with that pid.
const loseAlarmsOf = "HOLDFAST_LOSE_ALARMS_OF"

// TestMain runs the tracer when it was started as one. The tracer is a process of its own, because the
// lab waits for its children's exit, and a tracer's wait also reports the stops of what it traces.
func TestMain(m *testing.M) {
	traced := os.Getenv(loseAlarmsOf)
	if traced == "" {
		os.Exit(m.Run())
	}
	pid, err := strconv.Atoi(traced)
	if err == nil {
		err = loseAlarms(pid)
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
	tracer.Env = append(os.Environ(), loseAlarmsOf+"="+kernelPID(t, g))
	said, err := tracer.CombinedOutput()
	require.NoError(t, err, string(said))
	lost := jiffies(t, g)
	lab.Await(t, 30*time.Second, "the clock to go on", func() (bool, string) {
		now := jiffies(t, g)
		return now != lost, now
	})
}

// jiffies is the clock that the kernel's timers go by.
func jiffies(t *testing.T, g *lab.Guest) string {
	return strings.TrimSpace(g.MustExec(t, "grep -m 1 ^jiffies: /proc/timer_list"))
}

func kernelPID(t *testing.T, g *lab.Guest) string {
	raw, err := os.ReadFile(filepath.Join(g.Dir(), "uml", g.Name(), "pid"))
	require.NoError(t, err)
	return strings.TrimSpace(string(raw))
}

// loseAlarms traces a process and keeps all alarms from it for many ticks.
func loseAlarms(pid int) error {
	runtime.LockOSThread() // a tracer is a thread
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	for end := time.Now().Add(150 * time.Millisecond); time.Now().Before(end); {
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
