package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// sleeper starts a process that has the file open, in a mount namespace of its own, as services of a host may have it, and that is no
// child of this program.
func sleeper(t *testing.T, file *os.File) (pid int) {
	t.Helper()
	return sleeperIn(t, file, "")
}

// sleeperIn does commands in the namespace before, as one that starts containers.
func sleeperIn(t *testing.T, file *os.File, before string) (pid int) {
	t.Helper()
	said := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command("unshare", "-m", "sh", "-e", "-c", before+"\nsleep 1000 & echo $! >"+said)
	cmd.ExtraFiles = []*os.File{file}
	require.NoError(t, cmd.Run())
	text, err := os.ReadFile(said)
	require.NoError(t, err)
	pid, err = strconv.Atoi(string(text[:len(text)-1]))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it may be gone
	return pid
}

func open(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() }) // the test may have
	return f
}

func writersOf(t *testing.T, h *testHost, device executor.Device) []executor.Process {
	t.Helper()
	all, err := h.Writers(t.Context(), device)
	require.NoError(t, err)
	return all
}

func find(all []executor.Process, pid int) (executor.Process, bool) {
	i := slices.IndexFunc(all, func(p executor.Process) bool { return p.PID == pid })
	if i < 0 {
		return executor.Process{}, false
	}
	return all[i], true
}

// Whoever has a file of the filesystem or the device itself open for writing is found, in whichever namespace, and killed;
// who reads, and who writes to another volume, is not.
func TestS9_TheWritersOfADeviceAreFoundAndKilled(t *testing.T) {
	h := newHost(t)
	device, dir := h.stageNew("ext4")
	raw := h.device(testSize)
	file := filepath.Join(dir, "file")
	writing := open(t, file, os.O_CREATE|os.O_WRONLY)
	onFile, reader := sleeper(t, writing), sleeper(t, open(t, file, os.O_RDONLY))
	onNode := sleeper(t, open(t, raw.Path, os.O_RDWR))
	require.NoError(t, os.Remove(file), "it need not have a name")
	for _, d := range []executor.Device{device, raw} {
		victim, other := onFile, onNode
		if d == raw {
			victim, other = onNode, onFile
		}
		all := writersOf(t, h, d)
		for _, pid := range []int{other, reader} {
			_, found := find(all, pid)
			require.False(t, found)
		}
		own, found := find(all, os.Getpid())
		require.True(t, found && own.Own && !own.Dying)
		p, found := find(all, victim)
		require.True(t, found && !p.Own && !p.Dying)
		require.Equal(t, "sleep", p.Name)
		another := p
		another.Start++
		require.NoError(t, h.Kill(t.Context(), another), "its number is another process's now")
		require.NoError(t, unix.Kill(victim, 0))
		require.NoError(t, h.Kill(t.Context(), p))
		require.Eventually(t, func() bool {
			p, found := find(writersOf(t, h, d), victim)
			return !found || p.Dying
		}, 10*time.Second, 10*time.Millisecond)
		require.NoError(t, h.Kill(t.Context(), p), "it is gone")
	}
	require.ErrorContains(t, h.Kill(t.Context(), executor.Process{PID: 1}), "is never killed")
}

func TestS9_AThreadThatRunsNoMoreIsDying(t *testing.T) {
	for name, tc := range map[string]struct {
		stat threadStat
		want bool
	}{
		"it runs":                           {stat: threadStat{state: 'R', pending: killPending}},
		"it sleeps, and may wake":           {stat: threadStat{state: 'S'}},
		"it waits for a device":             {stat: threadStat{state: 'D'}},
		"it waits for a device, killed":     {stat: threadStat{state: 'D', pending: killPending}, want: true},
		"it waits for a device, terminated": {stat: threadStat{state: 'D', pending: 1 << (unix.SIGTERM - 1)}},
		"it ends, and waits for a device":   {stat: threadStat{state: 'D', flags: exiting}, want: true},
		"it ended":                          {stat: threadStat{state: 'Z'}, want: true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, tc.stat.dying()) })
	}
}

// A thread may begin another one and end, between the list of threads and the look at them.
func TestS9_AThreadThatBeganSinceIsNotDying(t *testing.T) {
	const dying, runs = "1 (a) Z 1 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 0 31\n", "2 (a) R 1 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 0 31\n"
	folder := t.TempDir()
	for thread, stat := range map[string]string{"1": dying, "2": runs} {
		dir := filepath.Join(folder, "task", thread)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o600))
	}
	all, err := allDying(folder, []int{1})
	require.NoError(t, err)
	require.False(t, all)
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "task", "2")))
	all, err = allDying(folder, []int{1})
	require.NoError(t, err)
	require.True(t, all)
}

func TestThreadsAreReadByTheirNames(t *testing.T) {
	s, err := parseThreadStat("12 (a) b (c) D 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 999 22 23 24 25 26 27 28 29 256 31\n")
	require.NoError(t, err)
	require.Equal(t, threadStat{name: "a) b (c", state: 'D', parent: 3, flags: 8, start: 999, pending: 256}, s)
	require.True(t, s.dying())
	for _, text := range []string{"", "12 (a", "12 (a) D 3"} {
		_, err := parseThreadStat(text)
		require.Error(t, err)
	}
}

// What an encrypted or logical device is on is found as well as what is above that again.
func TestS9_DevicesAboveADeviceCount(t *testing.T) {
	folder := t.TempDir()
	hold := func(below, name, above string) {
		dir := filepath.Join(folder, below, "holders", name)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "dev"), []byte(above+"\n"), 0o600))
	}
	hold("147:107", "dm-3", "253:3")
	hold("253:3", "dm-4", "253:4")
	hold("147:108", "dm-5", "253:5")
	all, err := stackAbove(folder, unix.Mkdev(147, 107))
	require.NoError(t, err)
	require.Equal(t, map[uint64]bool{unix.Mkdev(147, 107): true, unix.Mkdev(253, 3): true, unix.Mkdev(253, 4): true}, all)
}

// A pipe that has its name on the filesystem is none of its content: who writes to it is not killed.
func TestS9_WhoWritesToAPipeOnAVolumeIsNoWriter(t *testing.T) {
	h := newHost(t)
	device, dir := h.stageNew("ext4")
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	_, found := find(writersOf(t, h, device), sleeper(t, open(t, pipe, os.O_RDWR)))
	require.False(t, found)
}

// A container's root may be an overlay whose changes are on a volume, as where a pod runs containers itself: its files have the
// number of no device.
func TestS9_WhoWritesThroughAnOverlayIsFound(t *testing.T) {
	h := newHost(t)
	device, dir := h.stageNew("ext4")
	other := h.device(testSize)
	for _, name := range []string{"lower", "upper", "work"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	for _, lower := range []string{filepath.Join(dir, "lower"), h.mkdir("lower")} {
		at := h.mkdir("merged")
		require.NoError(t, unix.Mount("overlay", at, "overlay", 0, "lowerdir="+lower+",upperdir="+dir+"/upper,workdir="+dir+"/work"))
		victim := sleeper(t, open(t, filepath.Join(at, "file"), os.O_CREATE|os.O_WRONLY))
		_, found := find(writersOf(t, h, device), victim)
		require.True(t, found, lower)
		_, found = find(writersOf(t, h, other), victim)
		require.False(t, found, lower)
		require.True(t, writesSeenAlone(t, device, victim), lower)
		require.NoError(t, unix.Unmount(at, unix.MNT_DETACH))
	}
}

// writesSeenAlone looks at one process before any other, as where the kernel's numbers of processes began anew since the others started.
func writesSeenAlone(t *testing.T, device executor.Device, victim int) bool {
	t.Helper()
	devices, err := stackAbove(deviceFolder, device.Number)
	require.NoError(t, err)
	mounts, err := mountsOfAll([]int{victim, os.Getpid()})
	require.NoError(t, err)
	addAbove(devices, mounts)
	scan, err := newWriterScan(devices, mounts, new(atomic.Int32))
	require.NoError(t, err)
	defer scan.close()
	_, writes, err := scan.lookAt(victim)
	require.NoError(t, err)
	return writes
}

// A process that has changed its root, as many servers do, reaches few of its namespace's mounts.
func TestS9_TheMountsOfANamespaceAreNotThoseOfOneRoot(t *testing.T) {
	h := newHost(t)
	own, err := readTable()
	require.NoError(t, err)
	inEmptyRoot(t, h.mkdir("root"), func(thread int) {
		all, err := mountsOfAll([]int{thread, os.Getpid(), thread})
		require.NoError(t, err)
		defer closeAll(all)
		require.Len(t, all, 2)
		require.Empty(t, all[0].table)
		require.GreaterOrEqual(t, len(all[1].table), len(own))
	})
}

// inEmptyRoot calls do while a thread of this process has an empty folder as its root. Nothing is mounted for it: what a test mounts in a
// temporary folder may be removed with that.
func inEmptyRoot(t *testing.T, folder string, do func(thread int)) {
	t.Helper()
	began, done := make(chan int), make(chan struct{})
	var failed error
	goOnThread(func() {
		if failed = unix.Unshare(unix.CLONE_FS); failed == nil {
			failed = unix.Chroot(folder)
		}
		began <- unix.Gettid()
		<-done
	})
	thread := <-began
	defer close(done)
	require.NoError(t, failed)
	do(thread)
}

// goOnThread begins do on a thread that ends with it. The program's first thread does not end, and is what /proc/self shows.
func goOnThread(do func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			do()
			return
		}
		defer runtime.UnlockOSThread()
		other := make(chan struct{})
		goOnThread(func() { close(other); do() })
		<-other // so long this thread is held
	}()
}
