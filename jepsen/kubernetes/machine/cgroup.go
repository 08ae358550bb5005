package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies are the host's of cgroup version 1, by folder, and the options that mount each.
func hierarchies() (map[string]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		at, kind := strings.Fields(before)[4], strings.Fields(after)
		if kind[0] == "cgroup" && filepath.Dir(at) == cgroupRoot {
			found[filepath.Base(at)] = strings.TrimPrefix(strings.TrimPrefix(kind[2], "rw,"), "ro,")
		}
	}
	if len(found) == 0 {
		return nil, errors.New("this host has no cgroups of version 1 below " + cgroupRoot + ": machines on version 2 are not built")
	}
	return found, nil
}

// makeCgroups makes the machine's cgroup in each hierarchy. That of cpuset takes its processors from above: an empty one admits nobody.
func (c Config) makeCgroups() error {
	names, err := hierarchies()
	if err != nil {
		return err
	}
	for name := range names {
		at := filepath.Join(cgroupRoot, name)
		for part := range strings.SplitSeq(c.cgroup(), "/") {
			above := at
			at = filepath.Join(at, part)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if name == "cpuset" {
				if err := errors.Join(inherit(above, at, "cpuset.cpus"), inherit(above, at, "cpuset.mems")); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func inherit(above, below, file string) error {
	value, err := os.ReadFile(filepath.Join(above, file))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(below, file), value, 0o644)
}

// joinCgroups moves this process into the machine's.
func (c Config) joinCgroups() error {
	names, err := hierarchies()
	if err != nil {
		return err
	}
	for name := range names {
		at := filepath.Join(cgroupRoot, name, c.cgroup(), "cgroup.procs")
		if err := os.WriteFile(at, []byte("0"), 0o644); err != nil {
			return fmt.Errorf("join a cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroups removes the machine's, whose processes have ended, and those above where they are empty.
func (c Config) removeCgroups() error {
	found, err := filepath.Glob(filepath.Join(cgroupRoot, "*", c.cgroup()))
	if err != nil {
		return err
	}
	var failed error
	for _, top := range found {
		failed = errors.Join(failed, removeTree(top))
		for at := filepath.Dir(top); filepath.Dir(at) != cgroupRoot; at = filepath.Dir(at) {
			unix.Rmdir(at) //nolint:errcheck // others may be in it
		}
	}
	return failed
}

func removeTree(top string) error {
	var below []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			below = append(below, path)
		}
		return err
	})
	for _, path := range slices.Backward(below) {
		err = errors.Join(err, removeWhenEmpty(path))
	}
	return err
}

// removeWhenEmpty waits for the kernel to take dead processes out of it.
func removeWhenEmpty(path string) error {
	err := unix.Rmdir(path)
	for range 100 {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
		err = unix.Rmdir(path)
	}
	return fmt.Errorf("remove the cgroup %s: %w", path, err)
}
