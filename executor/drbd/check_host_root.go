package drbd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The kernel runs its helper in the root of the host's first process, and that reads its configuration and runs the
// handler there: nothing of a container's root counts. A container sees that root as /proc/1/root with the host's pid
// namespace. Its own drbdadm need not be the host's; the configuration that both read must be the same files.

// initialPIDNamespace is what the kernel calls the pid namespace of the host; the number is part of its interface.
const initialPIDNamespace = "pid:[4026531836]"

// checkNamespaces checks that /proc/1 is the host's first process, and that this process has the host's name and network:
// resources are configured by the name, and the kernel's DRBD is of the host's network only.
func (c *hostCheck) checkNamespaces(context.Context) error {
	pid, err := os.Readlink(filepath.Join(c.config.procDir, "self/ns/pid"))
	if err != nil {
		return fmt.Errorf("look at this process's namespaces: %w", err)
	}
	if pid != initialPIDNamespace {
		return errors.New("this process has a pid namespace of its own, from which the host's root cannot be seen: set hostPID: true")
	}
	for _, kind := range []string{"net", "uts"} {
		own, err := os.Readlink(filepath.Join(c.config.procDir, "self/ns", kind))
		if err != nil {
			return fmt.Errorf("look at this process's namespaces: %w", err)
		}
		host, err := os.Readlink(filepath.Join(c.config.procDir, "1/ns", kind))
		if err != nil {
			return fmt.Errorf("look at the host's namespaces: %w", err)
		}
		if own != host {
			return fmt.Errorf("this process has a %s namespace of its own, and DRBD is the host's: set hostNetwork: true", kind)
		}
	}
	return nil
}

func (c *hostCheck) root() hostRoot { return hostRoot{dir: filepath.Join(c.config.procDir, "1/root")} }

// hostRoot is the root of the host's first process.
type hostRoot struct{ dir string }

// isOwn tells whether it is the root of this process, too.
func (h hostRoot) isOwn() bool { return sameFile("/", h.dir) }

// shares tells whether a path is the same file there and here, or nowhere.
func (h hostRoot) shares(path string) bool {
	host, hostErr := h.stat(path)
	var own unix.Stat_t
	ownErr := unix.Stat(path, &own)
	if hostErr != nil || ownErr != nil {
		return errors.Is(hostErr, unix.ENOENT) && errors.Is(ownErr, unix.ENOENT)
	}
	return own.Dev == host.Dev && own.Ino == host.Ino
}

// checkProgram refuses a program that is missing there, or that others than root could replace.
func (h hostRoot) checkProgram(path string) error {
	stat, err := h.stat(path)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s is not on the host's own root", path)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Mode&0o111 == 0:
		return fmt.Errorf("%s is no program", path)
	case stat.Uid != 0 || stat.Mode&0o022 != 0:
		return fmt.Errorf("%s can be changed by others than root", path)
	}
	return nil
}

// stat looks at a path as the first process would: links lead to where they lead there.
func (h hostRoot) stat(path string) (stat unix.Stat_t, err error) {
	root, err := unix.Open(h.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return stat, fmt.Errorf("look at the host's root %s: %w", h.dir, err)
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := unix.Openat2(root, strings.TrimPrefix(path, "/"), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return stat, err
	}
	defer func() { _ = unix.Close(fd) }()
	return stat, unix.Fstat(fd, &stat)
}

// forCommands is the root in which the kernel's commands run.
func (h hostRoot) forCommands() string {
	if h.isOwn() {
		return "/"
	}
	return h.dir
}

// socketRemedy is what to do where the handler finds no socket; nothing where it has this process's root.
func (h hostRoot) socketRemedy() string {
	if h.isOwn() {
		return ""
	}
	return "; the folder of --fence-socket must be the host's own, mounted at the same path"
}

func mountRemedy(path string) string {
	return fmt.Sprintf("mount the host's %s at the same path (hostPath); `holdfast install-handler` makes a configuration on a host that has none", path)
}
