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

// defaultShutdownTimeout is how long shutting down a filesystem may take, on a device that does not
// answer.
const defaultShutdownTimeout = 5 * time.Second

// Shutdown shuts the device's filesystem down at once, without writing. A process that waits for a
// sync gets an error, even if the device later reports that write as done. I/O of the device may
// be suspended, and the call that shuts the filesystem down then blocks: it is made by a process
// of its own, so that this one can exit before I/O is resumed. Not mounted, or shut down already:
// done.
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
		failed = append(failed, err) // the path may be covered by another mount; the next one may not be
	}
	return errors.Join(failed...)
}

// pendingShutdown is a shutdown that was started. Its result applies to what was mounted then: a
// filesystem mounted since, perhaps another volume's, is not shut down.
type pendingShutdown struct {
	mountCount uint64 // how often the device had been mounted when it started
	done       chan struct{}
	answer     string // valid after done
}

func newPendingShutdown(mountCount uint64) *pendingShutdown {
	return &pendingShutdown{mountCount: mountCount, done: make(chan struct{})}
}

// end has all callers that wait for it get the answer.
func (p *pendingShutdown) end(answer string) {
	p.answer = answer
	close(p.done)
}

// mountCount counts how often each device was mounted. It has a lock of its own: Mount must not
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

// shutDownAt shuts down what is mounted at the path, and waits for that without a lock: a device
// that does not answer must not make another one's shutdown wait.
func (m *Mounter) shutDownAt(ctx context.Context, path string, device uint64) error {
	ctx, cancel := context.WithTimeout(ctx, m.shutdownTimeout)
	defer cancel()
	pending, err := m.joinShutdown(path, device)
	if err != nil {
		return fmt.Errorf("shut down the filesystem on %s: %w", path, err)
	}
	select {
	case <-pending.done:
		m.forgetShutdown(device, pending)
		if pending.answer != shutdownDone {
			return fmt.Errorf("shut down the filesystem on %s: %s", path, pending.answer)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut down the filesystem on %s: %w", path, ctx.Err())
	}
}

// joinShutdown returns the device's shutdown that is under way, or starts one. One that timed out
// is awaited again: it may block until I/O is resumed.
func (m *Mounter) joinShutdown(path string, device uint64) (*pendingShutdown, error) {
	m.shutdownMu.Lock()
	defer m.shutdownMu.Unlock()
	mountCount := m.mountCounts.get(device)
	if pending := m.shutdowns[device]; pending != nil && pending.mountCount == mountCount {
		return pending, nil
	}
	pending := newPendingShutdown(mountCount)
	if err := m.startShutdown(path, device, pending.end); err != nil {
		return nil, err
	}
	m.shutdowns[device] = pending
	return pending, nil
}

// forgetShutdown forgets a shutdown that has ended: the next one is started anew.
func (m *Mounter) forgetShutdown(device uint64, ended *pendingShutdown) {
	m.shutdownMu.Lock()
	defer m.shutdownMu.Unlock()
	if m.shutdowns[device] == ended {
		delete(m.shutdowns, device)
	}
}

// startShutdown starts the process that shuts the filesystem down, and calls end with the line that
// it prints; empty when it exits without printing.
func (m *Mounter) startShutdown(path string, device uint64, end func(answer string)) error {
	if len(m.program) == 0 {
		return errors.New("no program is configured that does it")
	}
	argv := append(m.program, path, strconv.FormatUint(device, 10))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // the line, or an empty one, is the answer
		end(strings.TrimSpace(line))
		_ = cmd.Wait() // as above
	}()
	return nil
}

const (
	// ioctlShutdown is XFS_IOC_GOINGDOWN, equal to EXT4_IOC_SHUTDOWN.
	ioctlShutdown = 0x8004587D
	// withoutLog is ..._GOING_FLAGS_NOLOGFLUSH: nothing is written before.
	withoutLog = 2
	// shutdownDone is what EndFilesystem prints when the filesystem is shut down.
	shutdownDone     = "shut down"
	markPollInterval = 10 * time.Millisecond
)

// EndFilesystem is the command `holdfast end-filesystem`: it shuts down the filesystem of the
// device, given by its number, that is mounted on a path, and prints that or the reason why not on
// one line. ext4 first sets its shutdown flag and then writes its journal's superblock, which
// blocks while the device's I/O is suspended: so the flag is checked for as well.
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
	result := make(chan error, 1)
	go func() {
		flags := int32(withoutLog)
		result <- ioctlPointer(root, ioctlShutdown, &flags)
	}()
	marked := make(chan struct{}, 1)
	for wait := markPollInterval; ; wait *= 2 {
		select {
		case err := <-result:
			return err
		case <-marked:
			return nil
		case <-time.After(wait):
			go awaitShutdownMark(root, marked)
		}
	}
}

// openForShutdown opens the root of the device's filesystem. An xfs that is shut down cannot be
// opened: nil.
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

// deviceAt returns the device of the mount that a descriptor is on. It is read from the mount,
// since a filesystem that is shut down may not answer stat.
func deviceAt(fd int) (uint64, error) {
	info, err := readFDInfo(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, fmt.Errorf("read which mount it is: %w", err)
	}
	lines, err := readTable()
	if err != nil {
		return 0, err
	}
	for _, l := range lines {
		if l.ID == info.mount {
			return l.number(), nil
		}
	}
	return 0, nil
}

// awaitShutdownMark asks the filesystem to sync its root, which one that is shut down refuses
// before it accesses the device. On one that is not shut down yet the call blocks.
func awaitShutdownMark(root *os.File, marked chan<- struct{}) {
	if !errors.Is(unix.Fsync(int(root.Fd())), unix.EIO) {
		return
	}
	select {
	case marked <- struct{}{}:
	default: // reported already
	}
}
