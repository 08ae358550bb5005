package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newRing makes an io_uring. Containers may be forbidden to.
func newRing(t *testing.T) *os.File {
	t.Helper()
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		t.Skipf("this machine allows no io_uring: %v", errno)
	}
	ring := os.NewFile(fd, "io_uring")
	t.Cleanup(func() { _ = ring.Close() }) // the test may have
	return ring
}

// register has the ring keep the file, and closes the descriptor.
func register(t *testing.T, ring, file *os.File) {
	t.Helper()
	const registerFiles = 2
	fds := []int32{int32(file.Fd())}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, ring.Fd(), registerFiles, uintptr(unsafe.Pointer(&fds[0])), 1, 0, 0)
	require.Zero(t, errno)
	runtime.KeepAlive(fds)
	require.NoError(t, file.Close())
}

// A file that an io_uring keeps has no descriptor. On the host, whose processes reach every volume, its name tells.
func TestS9_WhoHasAFileInARingIsFound(t *testing.T) {
	h := newHost(t)
	device, dir := h.stageNew("ext4")
	other, raw := h.device(testSize), h.device(testSize)
	file := filepath.Join(dir, "a file")
	for _, path := range []string{file, raw.Path} {
		ring := newRing(t)
		register(t, ring, open(t, path, os.O_CREATE|os.O_RDWR))
		require.Equal(t, path == file, writesSeenAlone(t, device, os.Getpid()), path)
		require.Equal(t, path == raw.Path, writesSeenAlone(t, raw, os.Getpid()), path)
		require.False(t, writesSeenAlone(t, other, os.Getpid()), path)
		require.NoError(t, ring.Close())
	}
	ring := newRing(t)
	register(t, ring, open(t, file, os.O_RDWR))
	require.NoError(t, os.Remove(file))
	require.True(t, writesSeenAlone(t, device, os.Getpid()), "it need not have a name")
}

// A write that was begun keeps a file that no table names. So whoever has the volume in a container of its own, and an io_uring, counts.
func TestS9_WhoHasARingAndTheVolumeInAContainerIsFound(t *testing.T) {
	h := newHost(t)
	device, dir := h.stageNew("ext4")
	other, inside := h.device(testSize), h.mkdir("inside")
	bind := "mount --bind " + dir + " " + inside
	victim, without := sleeperIn(t, newRing(t), bind), sleeperIn(t, open(t, os.DevNull, os.O_RDWR), bind)
	require.True(t, writesSeenAlone(t, device, victim))
	require.False(t, writesSeenAlone(t, other, victim), "it does not have that one")
	require.False(t, writesSeenAlone(t, device, without))
	require.False(t, writesSeenAlone(t, device, sleeper(t, newRing(t))), "a service of the host, which has all of its mounts")
	require.False(t, writesSeenAlone(t, device, sleeperIn(t, newRing(t), bind+"; mount -o remount,bind,ro "+inside)), "it cannot write")
}

// The descriptor of an io_uring itself may be closed: its memory is there.
func TestS9_AsynchronousIOIsSeenInAProcessesMemory(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		want bool
	}{
		"io_uring":  {line: "7f19298ed000-7f19298ee000 rw-s 00000000 00:10 1475264                    anon_inode:[io_uring]", want: true},
		"io_submit": {line: "7f1929000000-7f1929002000 rw-s 00000000 00:0f 77                         /[aio] (deleted)", want: true},
		"a file":    {line: "7f1929000000-7f1929002000 rw-s 00000000 08:01 77                         /var/[aio]"},
	} {
		t.Run(name, func(t *testing.T) {
			process := t.TempDir()
			text := "00400000-00401000 r-xp 00000000 08:01 1 /bin/a\n" + tc.line + "\n7f1929100000-7f1929200000 rw-p 00000000 00:00 0\n"
			require.NoError(t, os.WriteFile(filepath.Join(process, "maps"), []byte(text), 0o600))
			async, err := mapsAsync(process)
			require.NoError(t, err)
			require.Equal(t, tc.want, async)
		})
	}
}

// A process of a container whose memory cannot be read has the volume, and waits for something.
func TestS9_AProcessWhoseMemoryHangsCounts(t *testing.T) {
	h := newHost(t)
	device, _ := h.stageNew("ext4")
	process := t.TempDir()
	thread := filepath.Join(process, "task", "8")
	require.NoError(t, os.MkdirAll(filepath.Join(thread, "ns"), 0o700))
	require.NoError(t, os.Symlink("mnt:[1]", filepath.Join(thread, "ns/mnt")))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(thread, "root")))
	require.NoError(t, exec.Command("cp", "/proc/self/mountinfo", thread).Run())
	maps := filepath.Join(thread, "maps")
	require.NoError(t, unix.Mkfifo(maps, 0o600)) // who opens it waits for a writer
	var hanging atomic.Int32
	scan, err := newWriterScan(map[uint64]bool{device.Number: true}, nil, &hanging)
	require.NoError(t, err)
	defer scan.close()
	writes, err := scan.asyncWrites(process, []int{7, 8}) // its first thread has ended
	require.NoError(t, err)
	require.True(t, writes)
	require.NoError(t, open(t, maps, os.O_RDWR).Close(), "the memory is empty")
	require.Eventually(t, func() bool { return hanging.Load() == 0 }, time.Minute, time.Millisecond)
}
