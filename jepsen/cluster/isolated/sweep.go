package isolated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// Sweep removes what killed runs left: directories whose owner is proved to be dead, with what is mounted in them. Processes
// and networks of theirs ended with the owner.
func Sweep(ctx context.Context) error {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "holdfast-*", ownerFile))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range found {
		real, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err == nil && ownerIsDead(real) {
			errs = append(errs, errors.Join(unmountAll(ctx, real), os.RemoveAll(real)))
		}
	}
	return errors.Join(errs...)
}

// ioctlThaw ends the freeze of a filesystem; x/sys does not name it.
const ioctlThaw = 0xc0045878

// unmountAll unmounts all below a directory, and detaches the loop devices of files there, the inner ones before what they
// are on.
func unmountAll(ctx context.Context, base string) error {
	return harness.Poll(ctx, harness.Patience, "nothing to be mounted in "+base, func() (bool, error) {
		mounts, err := harness.Mounts(base)
		if err != nil {
			return false, err
		}
		for _, m := range slices.Backward(mounts) {
			thaw(m.Target)
			if e := unix.Unmount(m.Target, 0); e != nil {
				err = errors.Join(err, fmt.Errorf("unmount %s: %w", m.Target, e))
			}
		}
		loops, e := harness.Loops(base)
		for _, l := range loops {
			err = errors.Join(err, detach(l.Device))
		}
		return len(mounts)+len(loops) == 0 && err == nil && e == nil, errors.Join(err, e)
	})
}

// thaw ends a freeze that a killed process left: unmounting would wait for it for ever.
func thaw(path string) {
	if !strings.Contains(path, "/mnt/") {
		return
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_ = unix.IoctlSetInt(fd, ioctlThaw, 0) // it fails for what is not frozen
	_ = unix.Close(fd)
}

// detach lets the file of a loop device go; the kernel does it when the last user is gone.
func detach(device string) error {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("detach %s: %w", device, err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if err := unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("detach %s: %w", device, err)
	}
	return nil
}
