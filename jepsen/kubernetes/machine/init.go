package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Main is to be called first by a program that starts machines: where it was started as a machine's first process, it is that and does
// not return.
func Main() {
	if i := slices.Index(os.Args, guestArg); i > 0 && os.Getpid() == 1 {
		fmt.Fprintln(os.Stderr, bootGuest(os.Args[i+1:]))
		os.Exit(1)
	}
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
	return c.begin([]step{
		{"name the machine", func() error { return setHostname(c.Name) }},
		{"make its root", func() error { return c.makeRoot(cgroups) }},
		{"change to its root", c.pivot},
		{"write its files", c.writeFiles},
		{"pretend settings of the kernel", pretendSettings},
		{"raise its loopback", func() error { return run("ip", "link", "set", "lo", "up") }},
		{"forward packets", forwardPackets},
	})
}

// step is a part of how a machine begins.
type step struct {
	does string
	do   func() error
}

// begin takes the steps, and runs the machine's units for ever.
func (c Config) begin(steps []step) error {
	for _, s := range steps {
		fmt.Fprintln(os.Stderr, s.does)
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.does, err)
		}
	}
	return c.supervise()
}

// bootGuest is what the first process of a machine's own kernel does.
func bootGuest(args []string) error {
	if err := errors.Join(os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), os.Setenv("HOME", "/root")); err != nil {
		return err
	}
	if len(args) < 2 {
		return errors.New("the guest is told neither its folder nor its name")
	}
	c, err := Open(args[0], args[1])
	if err != nil {
		return err
	}
	c.guest = true
	return c.begin(guest{c}.steps())
}

func forwardPackets() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) }

func setHostname(name string) error { return unix.Sethostname([]byte(name)) }

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
