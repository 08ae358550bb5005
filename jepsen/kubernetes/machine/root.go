package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	diskAt = "/run" // where the machine's disk is mounted until it has its root: any folder that is on every host
	rootAt = diskAt + "/root"
)

// makeRoot puts the machine's disk above the host's root filesystem, of which no mount is taken over: a copy of others' would keep their
// devices in use.
func (c Config) makeRoot(cgroups []string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := run("mount", "-t", "xfs", "-o", "loop,discard", c.path("disk.img"), diskAt); err != nil {
		return err
	}
	if err := c.makeOverlay(""); err != nil {
		return err
	}
	if err := c.mountKernel(cgroups); err != nil {
		return err
	}
	if c.Kernel != nil {
		return bind(c.Dir, c.Dir) // the guest mounts the rest
	}
	return errors.Join(c.mountKept(), c.mountDisks(func(i int, at string) error {
		return run("mount", "-t", "xfs", "-o", "loop,discard", c.path(c.Disks[i].Name+".img"), at)
	}), bind(c.Dir, c.Dir))
}

// makeOverlay lays the mounted disk above what is the root.
func (c Config) makeOverlay(options string) error {
	for _, dir := range []string{"upper", "work", "root", "kept"} {
		if err := os.MkdirAll(filepath.Join(diskAt, dir), 0o755); err != nil {
			return err
		}
	}
	return mount("overlay", rootAt, "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%[1]s/upper,workdir=%[1]s/work", diskAt)+options)
}

func (c Config) mountKernel(cgroups []string) error {
	err := errors.Join(
		within("proc", "/proc", "proc", 0, ""),
		within("sysfs", "/sys", "sysfs", 0, ""),
		bind("/dev", "/dev"),
		within("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5"),
		within("shm", "/dev/shm", "tmpfs", 0, "mode=1777"),
		within("run", "/run", "tmpfs", 0, "mode=0755"),
		within("tmp", "/tmp", "tmpfs", 0, "mode=1777"),
		within("cgroup", cgroupRoot, "tmpfs", 0, "mode=0755"),
	)
	for _, told := range cgroups {
		name, options, _ := strings.Cut(told, ":")
		err = errors.Join(err, within("cgroup", filepath.Join(cgroupRoot, name), "cgroup", 0, strings.ReplaceAll(options, "+", ",")))
	}
	return err
}

func (c Config) mountKept() error {
	for _, dir := range c.Kept {
		source := filepath.Join(diskAt, "kept", strings.ReplaceAll(strings.Trim(dir, "/"), "/", "_"))
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
		if err := bind(source, dir); err != nil {
			return err
		}
	}
	return nil
}

// mountDisks mounts those that are not raw, by their number.
func (c Config) mountDisks(mount func(number int, at string) error) error {
	for i, d := range c.Disks {
		if d.At == "" {
			continue
		}
		at := filepath.Join(rootAt, d.At)
		if err := errors.Join(os.MkdirAll(at, 0o755), mount(i, at)); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes the new root the root, and every mount in it one that is shared with what is started in it, as systemd does.
func (c Config) pivot() error {
	if err := os.Chdir(rootAt); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

func bind(source, at string) error { return within(source, at, "", unix.MS_BIND, "") }

// within mounts at a path of the root that is made.
func within(source, at, kind string, flags uintptr, options string) error {
	at = filepath.Join(rootAt, at)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	return mount(source, at, kind, flags, options)
}

func mount(source, at, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, at, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s %s on %s: %w", kind, source, at, err)
	}
	return nil
}

// run runs a program of the host to its end, whose output is part of the error.
func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
