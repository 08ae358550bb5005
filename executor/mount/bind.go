package mount

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// atimeMask is MOUNT_ATTR__ATIME: all bits that select how access times are updated.
const atimeMask = 0x70

// Bind binds the staged filesystem, or the device's node, to a path. A bind is made read-only
// before it is attached, so it is never visible as writable. An identical existing bind is no
// error.
func (m *Mounter) Bind(ctx context.Context, device executor.Device, b executor.BindOptions) error {
	opts, err := parseFlags(m.policy, b.FSType, b.Flags)
	if err != nil {
		return err
	}
	opts.readOnly = opts.readOnly || b.ReadOnly
	group, err := parseGroup(b.MountGroup)
	if err != nil {
		return err
	}
	p, err := m.resolveRoot(b.Path)
	if err != nil {
		return err
	}
	if done, err := m.isMountedAs(device, p, b.DeviceNode, opts.readOnly); done || err != nil {
		return err
	}
	source, err := m.openBindSource(ctx, device, b, opts.readOnly)
	if err != nil {
		return err
	}
	defer closeFD(source)
	onto, err := p.openOrCreate(b.DeviceNode)
	if err != nil {
		return err
	}
	defer closeFD(onto)
	tree, err := unix.OpenTree(source, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("bind %s to %s: %w", device.Path, p, err)
	}
	defer closeFD(tree)
	if !b.DeviceNode && !opts.readOnly {
		if err := group.chownTree(ctx, tree); err != nil {
			return fmt.Errorf("give the filesystem on %s to group %s: %w", device.Path, b.MountGroup, err)
		}
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, opts.bindAttributes(b.DeviceNode)); err != nil {
		return fmt.Errorf("bind %s to %s: set its attributes: %w", device.Path, p, err)
	}
	return m.attach(device, tree, onto, p, b.DeviceNode, opts.readOnly)
}

// bindAttributes are set in addition to those of the bound mount. The node of a raw volume must
// stay usable as a device.
func (o options) bindAttributes(node bool) *unix.MountAttr {
	o.dev = o.dev || node
	attr := &unix.MountAttr{Attr_set: o.mountAttributes()}
	if o.perMount&unix.MOUNT_ATTR_NOATIME != 0 {
		attr.Attr_clr = atimeMask
	}
	return attr
}

// openBindSource opens what is to be bound and checks that it is the device's.
func (m *Mounter) openBindSource(ctx context.Context, device executor.Device, b executor.BindOptions, readOnly bool) (int, error) {
	if b.DeviceNode {
		return m.openNodeSource(ctx, device, readOnly)
	}
	staging, err := m.resolveRoot(b.StagingPath)
	if err != nil {
		return -1, err
	}
	fd, err := staging.open(unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != device.Number {
		closeFD(fd)
		return -1, fsm.Reject(fsm.Precondition, "the volume is not staged at %s", staging)
	}
	return fd, nil
}

// openNodeSource opens the device's node. A read-only bind does not prevent writes to a device, so
// the device itself is set read-only; that is one setting for all targets.
func (m *Mounter) openNodeSource(ctx context.Context, device executor.Device, readOnly bool) (int, error) {
	mounts, err := m.Mounts(ctx, device)
	if err != nil {
		return -1, err
	}
	for _, other := range mounts {
		if other.DeviceNode && other.ReadOnly != readOnly {
			return -1, fsm.Reject(fsm.Precondition, "a raw volume is read-only at all of its targets or at none, and is bound to %s with read-only %v", other.Path, other.ReadOnly)
		}
	}
	if err := setReadOnly(device.Path, readOnly); err != nil {
		return -1, err
	}
	fd, err := unix.Open(device.Path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", device.Path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK || st.Rdev != device.Number {
		closeFD(fd)
		return -1, fmt.Errorf("%s is not the device that it was", device.Path)
	}
	return fd, nil
}

func setReadOnly(device string, readOnly bool) error {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", device, err)
	}
	defer f.Close()
	var value int32
	if readOnly {
		value = 1
	}
	if err := ioctlPointer(f, unix.BLKROSET, &value); err != nil {
		return fmt.Errorf("make %s read-only %v: %w", device, readOnly, err)
	}
	return nil
}

// openOrCreate opens the path to bind to, and creates its last element when it is missing: a
// directory for a filesystem, an empty file for a node.
func (p rootedPath) openOrCreate(node bool) (int, error) {
	parent, base, err := p.parent()
	if err != nil {
		return -1, p.pathRejection(err)
	}
	defer closeFD(parent)
	if node {
		var fd int
		if fd, err = unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
			closeFD(fd)
		}
	} else {
		err = unix.Mkdirat(parent, base, 0o750)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, p.pathRejection(err)
	}
	fd, err := openBelow(parent, base, unix.O_PATH)
	if err != nil {
		return -1, p.pathRejection(err)
	}
	if err := p.checkBindable(fd, node); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}
