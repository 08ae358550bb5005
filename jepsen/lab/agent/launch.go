package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// launch executes a program that sees the host's files read-only, except one directory and the guests'
// memory. Root in a guest may mount any directory of the host; this prevents it from writing there.
func launch(dir string, argv []string) error {
	if len(argv) == 0 {
		return fmt.Errorf("launch in %s: no program is named", dir)
	}
	runtime.LockOSThread() // the namespace is the thread's
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := restrict(dir, "/dev/shm"); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, argv, os.Environ())
}

func restrict(writable ...string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make all mounts private: %w", err)
	}
	if err := unmountLoops(writable); err != nil {
		return err
	}
	for _, dir := range writable {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", dir, err)
		}
	}
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, readOnly); err != nil {
		return fmt.Errorf("make all mounts read-only: %w", err)
	}
	for _, dir := range writable {
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make %s writable: %w", dir, err)
		}
	}
	return nil
}

// unmountLoops unmounts in this namespace other mounts of loop devices: a copy of such a mount would keep
// the device in use for as long as the guest runs.
func unmountLoops(needed []string) error {
	loops, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(m.Source, "/dev/loop") || containsAny(m.Mountpoint, needed), false
	})
	if err != nil {
		return fmt.Errorf("read the table of mounts: %w", err)
	}
	for _, m := range loops {
		_ = unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // its owner may have unmounted it
	}
	return nil
}

// containsAny reports whether one of the directories is the mount or below it.
func containsAny(mount string, folders []string) bool {
	return mount == "/" || slices.ContainsFunc(folders, func(dir string) bool {
		return dir == mount || strings.HasPrefix(dir, mount+"/")
	})
}
