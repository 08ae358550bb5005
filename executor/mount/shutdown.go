package mount

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// shutdownTimeout is how long a filesystem may take to be shut down, on a device that
// answers nothing.
const shutdownTimeout = 5 * time.Second

// Shutdown ends the device's filesystem at once, without writing. Whoever waits for it
// to be synced gets an error, also when the device says later that the write that he
// waits for was done. The device may be frozen, and whoever tells the filesystem waits
// for it then: that is a process of its own, so that this one can end before the freeze
// does. Not mounted, or shut down already: done.
func (m *Mounter) Shutdown(ctx context.Context, device executor.Device) error {
	lines, err := readTable()
	if err != nil {
		return err
	}
	var failed []error
	for _, l := range lines {
		if current, ours := l.mountOf(device); !ours || current.DeviceNode {
			continue
		}
		if err = m.shutDownAt(ctx, l.Mountpoint, device.Number); err == nil {
			return nil
		}
		failed = append(failed, err) // it may be covered there; the next may do
	}
	return errors.Join(failed...)
}

// pendingShutdown is a shutdown that was asked for. Its answer is of what was mounted then: a
// filesystem that was mounted since, perhaps another volume's, goes on.
type pendingShutdown struct {
	result     <-chan string
	mountCount uint64 // how often the device had been mounted
}

// mountCount is how often each device was mounted. It has a lock of its own: Mount must not
// wait for a shutdown, which may take seconds.
type mountCount struct {
	mu     sync.Mutex
	counts map[uint64]uint64
}

func (c *mountCount) add(device uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[uint64]uint64{}
	}
	c.counts[device]++
}

func (c *mountCount) get(device uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[device]
}

func (m *Mounter) shutDownAt(ctx context.Context, path string, device uint64) error {
	m.shutdownMu.Lock()
	defer m.shutdownMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	mountCount := m.mountCounts.get(device)
	pending, started := m.shutdowns[device]
	if !started || pending.mountCount != mountCount { // one that was too slow is waited for again: it may hang until the freeze ends
		result, err := m.startShutdown(path, device)
		if err != nil {
			return fmt.Errorf("shut down the filesystem on %s: %w", path, err)
		}
		pending = pendingShutdown{result: result, mountCount: mountCount}
		m.shutdowns[device] = pending
	}
	select {
	case answer := <-pending.result:
		delete(m.shutdowns, device)
		if answer != shutdownDone {
			return fmt.Errorf("shut down the filesystem on %s: %s", path, answer)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut down the filesystem on %s: %w", path, ctx.Err())
	}
}

// startShutdown starts the process that tells the filesystem, and answers what that
// says; empty when it ends without a word.
func (m *Mounter) startShutdown(path string, device uint64) (<-chan string, error) {
	if len(m.program) == 0 {
		return nil, errors.New("no program is configured that does it")
	}
	argv := append(m.program, path, strconv.FormatUint(device, 10))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	result := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // the line says it, or its lack does
		result <- strings.TrimSpace(line)
		_ = cmd.Wait() // as above
	}()
	return result, nil
}

const (
	// ioctlShutdown is XFS_IOC_GOINGDOWN, which ext4 calls EXT4_IOC_SHUTDOWN.
	ioctlShutdown = 0x8004587D
	// withoutLog has nothing written before: ..._GOING_FLAGS_NOLOGFLUSH.
	withoutLog = 2
	// shutdownDone is what EndFilesystem says when that is so.
	shutdownDone     = "shut down"
	markPollInterval = 10 * time.Millisecond
)

// EndFilesystem is the work of `holdfast end-filesystem`: it shuts down the filesystem
// of the device, by its number, that is mounted on a path, and says so or why not in a
// line. ext4 marks itself first and then writes its journal's superblock, for which it
// waits while the device is frozen: so it is looked for the mark as well.
func EndFilesystem(path string, device uint64, out io.Writer) error {
	err := endFilesystem(path, device)
	answer := shutdownDone
	if err != nil {
		answer = err.Error()
	}
	if _, failed := fmt.Fprintln(out, answer); failed != nil {
		return failed
	}
	return err
}

func endFilesystem(path string, device uint64) error {
	root, err := openForShutdown(path, device)
	if root == nil || err != nil {
		return err
	}
	told := make(chan error, 1)
	go func() {
		flags := int32(withoutLog)
		told <- ioctlPointer(root, ioctlShutdown, &flags)
	}()
	marked := make(chan struct{}, 1)
	for wait := markPollInterval; ; wait *= 2 {
		select {
		case err := <-told:
			return err
		case <-marked:
			return nil
		case <-time.After(wait):
			go awaitShutdownMark(root, marked)
		}
	}
}

// openForShutdown opens the root of the device's filesystem. An xfs that is shut down cannot
// be opened: nil.
func openForShutdown(path string, device uint64) (*os.File, error) {
	place, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer closeFD(place)
	if on, err := deviceAt(place); err != nil || on != device {
		return nil, errors.Join(err, errors.New("another filesystem is mounted there"))
	}
	root, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", place), os.O_RDONLY|unix.O_DIRECTORY, 0)
	var fs unix.Statfs_t
	if errors.Is(err, unix.EIO) && unix.Fstatfs(place, &fs) == nil && fs.Type == unix.XFS_SUPER_MAGIC {
		return nil, nil
	}
	return root, err
}

// deviceAt is the device of the mount that a descriptor is on. The mount is asked, as a
// filesystem that is shut down may answer nothing.
func deviceAt(fd int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "mnt_id:")
	id, err := strconv.Atoi(strings.Fields(rest + " ?")[0])
	if err != nil {
		return 0, fmt.Errorf("read which mount it is: %w", err)
	}
	lines, err := readTable()
	if err != nil {
		return 0, err
	}
	for _, l := range lines {
		if l.ID == id {
			return unix.Mkdev(uint32(l.Major), uint32(l.Minor)), nil
		}
	}
	return 0, nil
}

// awaitShutdownMark asks the filesystem to sync its root, which one that is shut down refuses
// before it looks at the device. One that is not shut down yet keeps the asker waiting.
func awaitShutdownMark(root *os.File, marked chan<- struct{}) {
	if !errors.Is(unix.Fsync(int(root.Fd())), unix.EIO) {
		return
	}
	select {
	case marked <- struct{}{}:
	default: // it is known
	}
}
