package mount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.Mounter = (*Mounter)(nil)

// maxConcurrentFormats bounds how many mkfs run concurrently.
const maxConcurrentFormats = 16

// Config says what a Mounter may touch.
type Config struct {
	// Roots are the directories below which paths are allowed. Symbolic links in them are resolved
	// once, by New.
	Roots []string
	// Runner runs mkfs.
	Runner *run.Runner
	// Mounts says which mount flags are allowed beside the usual ones.
	Mounts fsm.MountPolicy
	// Program is the command that runs EndFilesystem in a process of its own; a path and a device
	// number are appended to its arguments.
	Program []string
}

// Mounter implements executor.Mounter with the kernel's calls. It is safe for concurrent use.
type Mounter struct {
	roots       []allowedRoot
	policy      fsm.MountPolicy
	runner      *run.Runner
	program     []string
	formatSlots chan struct{}
	tableCache  *tableCache

	answerTimeout   time.Duration
	shutdownTimeout time.Duration
	shutdownMu      sync.Mutex
	shutdowns       map[uint64]*pendingShutdown // by device: shutdowns that have not answered yet
	mountCounts     mountCount

	hangingLooks atomic.Int32 // of Writers, which the kernel did not answer yet
	hangingMaps  atomic.Int32 // of them, at the memory of a process
}

// New opens the roots. Until Close they cannot be unmounted.
func New(cfg Config) (*Mounter, error) {
	m := &Mounter{
		runner: cfg.Runner, policy: cfg.Mounts, program: slices.Clip(cfg.Program), formatSlots: make(chan struct{}, maxConcurrentFormats), shutdowns: map[uint64]*pendingShutdown{}, tableCache: newTableCache(),
		answerTimeout: answerTimeout, shutdownTimeout: defaultShutdownTimeout,
	}
	for _, dir := range cfg.Roots {
		r, err := openAllowedRoot(dir)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		m.roots = append(m.roots, r)
	}
	if len(m.roots) == 0 {
		return nil, errors.New("no folder is allowed for mounts: name one with --allow-root")
	}
	return m, nil
}

// Close closes the roots.
func (m *Mounter) Close() error {
	err := m.tableCache.close()
	for _, r := range m.roots {
		err = errors.Join(err, unix.Close(r.fd))
	}
	m.roots = nil
	return err
}

// Mount mounts the device's filesystem on an existing directory. It is mounted nosuid and nodev,
// unless allowed flags say otherwise. An identical existing mount is no error. The error of a device that does not answer is that of a
// command that hangs in the kernel: a mount that ends later is undone.
func (m *Mounter) Mount(ctx context.Context, device executor.Device, o executor.MountOptions) error {
	opts, err := parseFlags(m.policy, o.FSType, o.Flags)
	if err != nil {
		return err
	}
	opts.readOnly = opts.readOnly || o.ReadOnly
	p, err := m.resolveRoot(o.Path)
	if err != nil {
		return err
	}
	if done, err := m.isMountedAs(device, p, false, opts.readOnly); done || err != nil {
		return err
	}
	dir, err := p.open(unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer closeFD(dir)
	tree, err := callDevice(ctx, m.answerTimeout, func() (int, error) { return newMount(device.Path, o.FSType, opts) }, closeFD)
	if err != nil {
		return fmt.Errorf("mount %s as %s: %w", device.Path, o.FSType, err)
	}
	defer closeFD(tree)
	m.mountCounts.add(device.Number)
	return m.attach(device, tree, dir, p, false, opts.readOnly)
}

// attach moves a detached mount onto an opened file, then checks in the mount table that it is
// there.
func (m *Mounter) attach(device executor.Device, tree, onto int, p rootedPath, node, readOnly bool) error {
	if err := unix.MoveMount(tree, "", onto, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s on %s: %w", device.Path, p, err)
	}
	switch done, err := m.isMountedAs(device, p, node, readOnly); {
	case err != nil:
		return err
	case !done:
		return fmt.Errorf("mount %s on %s: the kernel's table does not show it", device.Path, p)
	}
	return nil
}

// isMountedAs reports whether the device is the topmost mount at the path, with the right
// attributes. Any other mount there is refused: mounts are not stacked.
func (m *Mounter) isMountedAs(device executor.Device, p rootedPath, node, readOnly bool) (bool, error) {
	lines, err := readTable()
	if err != nil {
		return false, err
	}
	top, ok := lines.top(p.real())
	if !ok {
		return false, nil
	}
	current, ours := top.mountOf(device)
	switch {
	case !ours || current.DeviceNode != node:
		return false, fsm.Reject(fsm.Precondition, "something else is mounted on %s", p)
	case current.ReadOnly != readOnly:
		return false, fsm.Reject(fsm.Incompatible, "%s is mounted with read-only %v, not %v", p, current.ReadOnly, readOnly)
	}
	return true, nil
}

// newMount returns a detached mount of the device's filesystem.
func newMount(device, fsType string, o options) (int, error) {
	fs, err := unix.Fsopen(fsType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("the kernel does not know this filesystem: %w", err)
	}
	defer closeFD(fs)
	err = unix.FsconfigSetString(fs, "source", device)
	settings := slices.Clip(o.fsSettings)
	if o.readOnly {
		settings = append(settings, fsSetting{key: "ro"})
	}
	for _, s := range settings {
		switch {
		case err != nil:
		case s.value != "":
			err = unix.FsconfigSetString(fs, s.key, s.value)
		default:
			err = unix.FsconfigSetFlag(fs, s.key)
		}
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return -1, fmt.Errorf("%w%s", err, fsContextLog(fs))
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, int(o.mountAttributes()))
	if err != nil {
		return -1, fmt.Errorf("%w%s", err, fsContextLog(fs))
	}
	return tree, nil
}

// fsContextLog returns the filesystem's own message about a failure.
func fsContextLog(fs int) string {
	var all strings.Builder
	buf := make([]byte, 512)
	for range 8 {
		n, err := unix.Read(fs, buf)
		if err != nil || n <= 2 {
			break
		}
		all.WriteString("; " + strings.TrimSpace(string(buf[2:n])))
	}
	return all.String()
}
