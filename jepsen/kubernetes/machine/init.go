package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Main is to be called first by a program that starts machines: where it was started as a machine's first process, it is that and does
// not return.
func Main() {
	if len(os.Args) != 4 && len(os.Args) != 5 || os.Args[1] != initArg {
		return
	}
	c, err := Open(os.Args[2], os.Args[3])
	if err == nil && len(os.Args) == 4 {
		err = c.enterCgroups()
	} else if err == nil {
		err = c.boot(strings.Split(os.Args[4], ","))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// enterCgroups makes the machine's cgroups the root of what it sees of them, for which a process has to be in them, and executes this
// program again: a thread alone can change its namespace, and what it executes is in the namespace whole. The names of the hierarchies
// are told, because they are mounted as the host has them.
func (c Config) enterCgroups() error {
	runtime.LockOSThread()
	found, err := hierarchies()
	if err != nil {
		return err
	}
	told := make([]string, 0, len(found))
	for name, options := range found {
		told = append(told, name+":"+strings.ReplaceAll(options, ",", "+"))
	}
	if err := c.joinCgroups(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	return unix.Exec("/proc/self/exe", append(os.Args, strings.Join(told, ",")), os.Environ())
}

// boot makes the machine's root, and runs its units for ever.
func (c Config) boot(cgroups []string) error {
	for _, step := range []struct {
		does string
		do   func() error
	}{
		{"name the machine", func() error { return unix.Sethostname([]byte(c.Name)) }},
		{"make its root", func() error { return c.makeRoot(cgroups) }},
		{"change to its root", c.pivot},
		{"write its files", c.writeFiles},
		{"pretend settings of the kernel", pretendSettings},
		{"raise its loopback", func() error { return run("ip", "link", "set", "lo", "up") }},
		{"forward packets", func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.does, err)
		}
	}
	return c.supervise()
}

func (c Config) writeFiles() error {
	var failed error
	for path, content := range c.Files {
		failed = errors.Join(failed, os.MkdirAll(filepath.Dir(path), 0o755), replaceFile(path, content))
	}
	return failed
}

// replaceFile removes what is there first: a link would lead to another file.
func replaceFile(path, content string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// settings of the kernel that kubelet writes unless they are so already. They are of the whole host and no machine's.
var settings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// pretendSettings puts files above the kernel's settings, so that a machine finds them as it likes them and changes none.
func pretendSettings() error {
	for name, value := range settings {
		file := filepath.Join("/run/settings", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount above %s: %w", name, err)
		}
	}
	return nil
}
