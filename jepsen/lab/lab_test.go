package lab_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestGuests boots one lab for all that does not need one of its own.
func TestGuests(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Config{NoHoldfast: true})
	begun := time.Now()
	l.MustBoot(t)
	t.Logf("3 guests answer after %s", time.Since(begun))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *lab.Lab)
	}{
		{"a script's output and exit code come back", testScripts},
		{"a script that takes too long is an error in time", testLateScripts},
		{"a script that cannot be killed is an error in time", testStuckScripts},
		{"files go into a guest and come back", testFiles},
		{"programs go on by themselves and are signalled", testJobs},
		{"each network is cut alone and healed", testIsolate},
		{"one direction between two guests is blocked", testBlock},
		{"a network is split between two sides", testPartition},
		{"a paused guest answers again when it goes on", testPause},
		{"a guest whose kernel lost an alarm goes on", testLostAlarms},
		{"a guest whose clock stands still is noticed", testStandingClock},
		{"a guest from which all alarms are kept is noticed", testWithheldAlarms},
		{"a disk is added while a guest runs, and stays", testDisks},
		{"a guest cannot write to the host", testReadOnlyHost},
		{"a loss of power keeps what was synced and loses the rest", testCrash},
		{"a guest that is powered off keeps everything", testStop},
		{"a guest whose kernel panics is down and boots again", testPanic},
		{"logs are collected", testCollect},
	} {
		if !t.Run(test.name, func(t *testing.T) { test.run(t, l) }) {
			require.NoError(t, l.ReconnectAll(context.Background()))
		}
	}
}

func testScripts(t *testing.T, l *lab.Lab) {
	for _, g := range l.Guests() {
		for range 2 {
			out, code, err := g.Exec(t.Context(), "hostname; echo to stderr >&2; exit 3")
			require.NoError(t, err)
			require.Equal(t, 3, code)
			require.Equal(t, g.Name()+"\nto stderr\n", out)
		}
	}
	_, code, err := l.Guest(1).Exec(t.Context(), "kill -9 $$")
	require.NoError(t, err)
	require.Equal(t, 137, code, "a script that was killed has the shell's exit code")
	_, code, err = l.Guest(1).Exec(t.Context(), "exit 124")
	require.NoError(t, err, "124 is an exit code like others")
	require.Equal(t, 124, code)
	out := l.Guest(1).MustExec(t, "setsid sleep 100 & echo done")
	require.Equal(t, "done\n", out, "what goes on holds no answer")
}

func testLateScripts(t *testing.T, l *lab.Lab) {
	out := runTooLate(t, l.Guest(1), context.DeadlineExceeded, "echo begun; sleep 1000; echo never")
	require.Equal(t, "begun\n", out, "what was printed until then is there")
	require.Empty(t, l.Guest(1).MustExec(t, "pgrep -f '[s]leep 1000; echo never' || true"), "it was killed")
}

// runTooLate runs a script that never ends by itself, with more time until it is late enough
// to have begun, and answers what it printed.
func runTooLate(t *testing.T, g *lab.Guest, want error, script string) string {
	t.Helper()
	for within := 500 * time.Millisecond; ; within *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		begun := time.Now()
		out, _, err := g.Exec(ctx, script)
		cancel()
		require.Less(t, time.Since(begun), within+time.Minute)
		if out == "" && within < time.Minute {
			require.Error(t, err)
			continue // not even begun: the machine does something else
		}
		require.ErrorIs(t, err, want)
		return out
	}
}

func testCollect(t *testing.T, l *lab.Lab) {
	dir := filepath.Join(t.TempDir(), "logs")
	for range 2 {
		require.NoError(t, l.Collect(dir))
	}
	for _, name := range []string{"n1-console.log", "n1-talker.log", "n3-console.log"} {
		require.FileExists(t, filepath.Join(dir, name))
	}
}

func testStuckScripts(t *testing.T, l *lab.Lab) {
	g := l.Guest(3)
	g.MustExec(t, "echo 0 2048 linear /dev/ubdc 0 | dmsetup create frozen && dmsetup suspend frozen")
	// It learns that dd began once that is in the kernel, where nothing kills it.
	out := runTooLate(t, g, lab.ErrStuck, `(until grep -q '^State:.D' /proc/$$/status; do sleep .05; done; echo begun) &
exec dd if=/dev/mapper/frozen of=/dev/null iflag=direct count=1`)
	require.Equal(t, "begun\n", out)
	g.MustExec(t, "dmsetup resume frozen && dmsetup remove --retry frozen")
}

func testPanic(t *testing.T, l *lab.Lab) {
	g := l.Guest(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err := g.Exec(ctx, "echo c >/proc/sysrq-trigger")
	require.Error(t, err)
	lab.Await(t, time.Minute, "the guest to be down", func() (bool, string) { return !g.Running(), "up" })
	require.Contains(t, g.Console(), "sysrq triggered crash")
	require.NoError(t, g.Boot(t.Context()))
	g.MustExec(t, "true")
}

func testFiles(t *testing.T, l *lab.Lab) {
	g := l.Guest(2)
	for _, content := range []string{"one\n", "another"} {
		require.NoError(t, g.Put(t.Context(), "/root/made/file", []byte(content), 0o640))
		got, err := g.Get(t.Context(), "/root/made/file")
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	require.Equal(t, "640 700\n", g.MustExec(t, "echo $(stat -c %a /root/made/file /root/made)"))
	_, err := g.Get(t.Context(), "/root/none")
	require.ErrorContains(t, err, "no such file")
	require.ErrorIs(t, err, fs.ErrNotExist)
	g.MustExec(t, "echo from the guest >/lab/note")
	note, err := os.ReadFile(g.Shared() + "/note")
	require.NoError(t, err)
	require.Equal(t, "from the guest\n", string(note), "/lab is the host's")
}

func testJobs(t *testing.T, l *lab.Lab) {
	g := l.Guest(1)
	job, err := g.Start(t.Context(), "talker", nil, "/bin/bash", "-c", "echo said; exec sleep 1000")
	require.NoError(t, err)
	_, err = g.Start(t.Context(), "talker", nil, "/bin/true")
	require.ErrorContains(t, err, "runs already")
	lab.Await(t, time.Minute, "its output", func() (bool, string) { return strings.Contains(job.Log(), "said\n"), job.Log() })
	require.True(t, job.Running(t.Context()))
	require.NoError(t, job.Kill(t.Context()))
	code, err := job.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, 137, code)
	require.False(t, job.Running(t.Context()))
	require.NoError(t, job.Kill(t.Context()), "killing it again changes nothing")
	again, err := g.Start(t.Context(), "talker", []string{"WORD=again"}, "/bin/bash", "-c", "echo $WORD")
	require.NoError(t, err)
	code, err = again.Wait(t.Context())
	require.NoError(t, err)
	require.Zero(t, code)
	require.Contains(t, again.Log(), "said\n")
	require.Contains(t, again.Log(), "again\n")
}

// reaches reports whether a guest reaches another on a network, by one packet and within a second:
// a guest that does not may also have been stalled.
func reaches(t *testing.T, from, to *lab.Guest, n lab.Network) bool {
	t.Helper()
	_, code, err := from.Exec(t.Context(), fmt.Sprintf("busybox ping -q -c 1 -W 1 %s", to.IP(n)))
	require.NoError(t, err)
	return code == 0
}

// awaitReachable waits until a guest reaches another: it may have to ask for its address anew.
func awaitReachable(t *testing.T, from, to *lab.Guest, n lab.Network) {
	t.Helper()
	lab.Await(t, time.Minute, n.String()+" to be whole", func() (bool, string) { return reaches(t, from, to, n), "cut" })
}

func testIsolate(t *testing.T, l *lab.Lab) {
	one, two := l.Guest(1), l.Guest(2)
	for _, n := range []lab.Network{lab.Replication, lab.API} {
		for range 2 {
			require.NoError(t, l.Isolate(t.Context(), n, 2))
		}
		require.False(t, reaches(t, one, two, n), "%s is cut", n)
		require.False(t, reaches(t, two, one, n), "%s is cut", n)
		for _, other := range lab.Networks {
			if other != n {
				awaitReachable(t, two, one, other)
			}
		}
		for range 2 {
			require.NoError(t, l.Reconnect(t.Context(), n, 2))
			awaitReachable(t, one, two, n)
		}
	}
	require.NoError(t, l.Isolate(t.Context(), lab.Management, 2))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := two.Exec(ctx, "true")
	require.Error(t, err, "the driver is cut off too")
	awaitReachable(t, one, two, lab.Replication)
	awaitReachable(t, one, two, lab.API)
	require.NoError(t, l.ReconnectAll(t.Context()))
	awaitReachable(t, two, one, lab.Management)
}

func testBlock(t *testing.T, l *lab.Lab) {
	one, two, three := l.Guest(1), l.Guest(2), l.Guest(3)
	hears := func(n lab.Network) bool { // whether what guest 1 sends arrives in guest 2
		before := echoCount(t, two)
		one.MustExec(t, fmt.Sprintf("busybox ping -q -c 1 -W 1 %s || true", two.IP(n)))
		return echoCount(t, two) > before
	}
	awaitReachable(t, one, two, lab.API) // and both know the other's hardware address
	require.NoError(t, l.Block(t.Context(), lab.API, 2, 1))
	require.False(t, reaches(t, one, two, lab.API), "no answer comes back")
	lab.Await(t, time.Minute, "the other direction to go on", func() (bool, string) { return hears(lab.API), "blocked" })
	awaitReachable(t, one, two, lab.Replication)
	awaitReachable(t, three, two, lab.API)
	require.NoError(t, l.Unblock(t.Context(), lab.API, 2, 1))
	awaitReachable(t, one, two, lab.API)
	require.NoError(t, l.Block(t.Context(), lab.API, 1, 2))
	require.False(t, hears(lab.API))
	require.NoError(t, l.ReconnectAll(t.Context()))
	awaitReachable(t, one, two, lab.API)
}

// echoCount is how many questions of ping the guest has received.
func echoCount(t *testing.T, g *lab.Guest) int {
	t.Helper()
	out := g.MustExec(t, `awk '/^Icmp:/ { if (!at) { for (at = 1; $at != "InEchos"; at++); } else print $at }' /proc/net/snmp`)
	count, err := strconv.Atoi(strings.TrimSpace(out))
	require.NoError(t, err)
	return count
}

func testPartition(t *testing.T, l *lab.Lab) {
	require.NoError(t, l.Partition(t.Context(), lab.Replication, []int{1}, []int{2, 3}))
	require.False(t, reaches(t, l.Guest(1), l.Guest(2), lab.Replication))
	require.False(t, reaches(t, l.Guest(3), l.Guest(1), lab.Replication))
	awaitReachable(t, l.Guest(2), l.Guest(3), lab.Replication)
	awaitReachable(t, l.Guest(1), l.Guest(2), lab.API)
	require.NoError(t, l.ReconnectAll(t.Context()))
	awaitReachable(t, l.Guest(1), l.Guest(2), lab.Replication)
}

func testPause(t *testing.T, l *lab.Lab) {
	g := l.Guest(3)
	up := g.MustExec(t, "cat /proc/sys/kernel/random/boot_id")
	require.NoError(t, g.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := g.Exec(ctx, "true")
	require.Error(t, err)
	require.NoError(t, g.Resume())
	lab.Await(t, time.Minute, "it answers in the same boot", func() (bool, string) {
		out, code, err := g.Exec(t.Context(), "cat /proc/sys/kernel/random/boot_id")
		return out == up, fmt.Sprintf("exit code %d, %v: %q", code, err, out)
	})
}

func testDisks(t *testing.T, l *lab.Lab) {
	g := l.Guest(3)
	device, err := g.AddDisk(t.Context(), 64<<20)
	require.NoError(t, err)
	require.Equal(t, "/dev/ubdd", device)
	require.Equal(t, "67108864\n", g.MustExec(t, "blockdev --getsize64 "+device))
	g.MustExec(t, "echo mine | dd of="+device+" conv=fsync,notrunc 2>/dev/null")
	require.NoError(t, g.Crash())
	require.NoError(t, g.Boot(t.Context()))
	require.Equal(t, "mine", g.MustExec(t, "head -c 4 "+device))
}

func testReadOnlyHost(t *testing.T, l *lab.Lab) {
	g := l.Guest(1)
	for _, dir := range []string{"/etc", "/sys/class/net", l.Dir()} {
		out := g.MustExec(t, "mount -t hostfs -o "+dir+" none /mnt && ! touch /mnt/planted 2>&1; umount /mnt")
		require.Contains(t, out, "Read-only file system", dir)
	}
	g.MustExec(t, "touch /etc/planted")
	require.NoFileExists(t, "/etc/planted")
}

func testCrash(t *testing.T, l *lab.Lab) {
	g := l.Guest(1)
	// Its journal is not committed by itself before the crash, however late that is.
	before := g.MustExec(t, `cat /proc/sys/kernel/random/boot_id; mount -o remount,commit=900 /disk; cd /var/lib/holdfast
dd if=/dev/urandom of=synced bs=1M count=4 conv=fsync 2>/dev/null; sync -f .
md5sum synced >/lab/sum; echo kept >/var/lib/drbd/note; sync /var/lib/drbd/note; echo gone >/root/note; echo lost >unsynced`)
	require.True(t, g.Running())
	for range 2 {
		require.NoError(t, g.Crash())
		require.False(t, g.Running())
	}
	_, _, err := g.Exec(t.Context(), "true")
	require.ErrorIs(t, err, lab.ErrDown)
	require.NoError(t, g.Boot(t.Context()))
	g.MustExec(t, "cd /var/lib/holdfast && md5sum -c --quiet /lab/sum")
	out := g.MustExec(t, "ls /var/lib/holdfast /root; cat /var/lib/drbd/note; cat /proc/sys/kernel/random/boot_id")
	require.NotContains(t, out, "unsynced", "what was not synced is lost")
	require.NotContains(t, out, "note", "the root was in memory")
	require.Contains(t, out, "kept")
	require.NotContains(t, out, strings.TrimSpace(before))
	said, err := g.Dmesg(t.Context())
	require.NoError(t, err)
	require.Contains(t, said, "recovery complete")
	require.Contains(t, g.Console(), "recovery complete")
}

func testStop(t *testing.T, l *lab.Lab) {
	g := l.Guest(2)
	g.MustExec(t, "echo all >/var/lib/holdfast/everything")
	for range 2 {
		require.NoError(t, g.Stop(t.Context()))
		require.False(t, g.Running())
	}
	require.NoError(t, g.Boot(t.Context()))
	require.Equal(t, "all\n", g.MustExec(t, "cat /var/lib/holdfast/everything"))
}

// TestAMachineWithoutThePackagesSkipsOrFails: by hand it is a skip with the reason, and
// where the lab is required a failure.
func TestAMachineWithoutThePackagesSkipsOrFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CI", "")
	for required, want := range map[string]string{"": "skipped: ", "1": "failed: "} {
		t.Setenv(lab.RequireVariable, required)
		for range 2 {
			told := &recordingTB{TB: t}
			lab.RequireLab(told)
			require.Contains(t, told.message, want+lab.ErrUnavailable.Error())
		}
	}
	_, err := lab.Start(t.Context(), lab.Config{})
	require.ErrorIs(t, err, lab.ErrUnavailable)
}

// recordingTB is a test that keeps how it ended.
type recordingTB struct {
	testing.TB
	message string
}

func (t *recordingTB) Skipf(format string, args ...any) {
	t.message = "skipped: " + fmt.Sprintf(format, args...)
}
func (t *recordingTB) Fatalf(format string, args ...any) {
	t.message = "failed: " + fmt.Sprintf(format, args...)
}

func TestALabThatCannotBeMadeIsRefused(t *testing.T) {
	lab.RequireLab(t)
	for name, config := range map[string]lab.Config{
		"too many guests": {Guests: 10},
		"too many disks":  {Disks: make([]int64, 20)},
		"no such binary":  {Holdfast: filepath.Join(t.TempDir(), "none")},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := lab.Start(t.Context(), config)
				require.Error(t, err)
			}
		})
	}
}
