package mount

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// How long the kernel may take to release a device after its last mount was unmounted.
const (
	releaseTimeout      = 10 * time.Second
	releasePollInterval = 5 * time.Millisecond
)

// withDetachedMount mounts a filesystem without attaching it to a path, calls do with its root,
// and unmounts it. Afterwards the kernel has released the device, and the filesystem's journal is
// clean.
func withDetachedMount(device, fsType string, settings []fsSetting, do func(root *os.File) error) error {
	tree, err := newMount(device, fsType, options{fsSettings: settings, perMount: unix.MOUNT_ATTR_NOEXEC})
	if err != nil {
		return fmt.Errorf("mount %s as %s: %w", device, fsType, err)
	}
	err = useDetachedMount(tree, device, do)
	if err = errors.Join(err, unix.Close(tree)); err != nil {
		return err
	}
	return awaitRelease(device)
}

func useDetachedMount(tree int, device string, do func(root *os.File) error) error {
	fd, err := unix.Openat(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the filesystem on %s: %w", device, err)
	}
	root := os.NewFile(uintptr(fd), device)
	return errors.Join(do(root), root.Close())
}

// awaitRelease waits until nothing holds the device exclusively.
func awaitRelease(device string) error {
	for deadline := time.Now().Add(releaseTimeout); ; time.Sleep(releasePollInterval) {
		used, err := inUse(device)
		switch {
		case err != nil || !used:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("the filesystem on %s is in use although its mount ended", device)
		}
	}
}

// inUse reports whether a mount or a process holds the device exclusively.
func inUse(device string) (bool, error) {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("open %s: %w", device, err)
	}
	return false, unix.Close(fd)
}
