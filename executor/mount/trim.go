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

// trimRange is the kernel's struct fstrim_range, in bytes.
type trimRange struct{ Start, Length, MinLength uint64 }

// ioctlTrim is FITRIM.
const ioctlTrim = 0xc0185879

// Trim has the filesystem discard what it does not use (FITRIM), one step after the other. Cached
// writes are written out first: blocks that were freed in an open transaction are not trimmed.
func (m *Mounter) Trim(ctx context.Context, device executor.Device, t executor.TrimOptions) error {
	if t.Step <= 0 {
		return fsm.Reject(fsm.Invalid, "a filesystem is not trimmed by %d bytes at a time", t.Step)
	}
	trim := func(root *os.File) error { return trimMounted(ctx, root, device, &t) }
	if t.Path == "" {
		return withDetachedMount(device.Path, t.FSType, nil, trim)
	}
	root, err := m.openMounted(device, t.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	return trim(root)
}

func trimMounted(ctx context.Context, root *os.File, device executor.Device, t *executor.TrimOptions) error {
	size, err := devicePathSize(device.Path)
	if err != nil {
		return err
	}
	if err := unix.Syncfs(int(root.Fd())); err != nil {
		return fmt.Errorf("write out the filesystem on %s: %w", device.Path, err)
	}
	for at := t.From; at < size; at += t.Step {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.Before(ctx, at); err != nil {
			return err
		}
		more, err := trimStep(root, device, trimRange{Start: uint64(at), Length: uint64(t.Step)})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// trimStep trims one range; more is false when that begins behind the end of the filesystem, which
// may be smaller than its device.
func trimStep(root *os.File, device executor.Device, r trimRange) (more bool, err error) {
	start := r.Start
	switch err := ioctlStruct(root, ioctlTrim, &r); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EINVAL) && start > 0:
		return false, nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY):
		return false, fsm.Reject(fsm.Unsupported, "the device %s cannot discard blocks", device.Path)
	default:
		return false, fmt.Errorf("trim the filesystem on %s from byte %d on: %w", device.Path, start, err)
	}
}
