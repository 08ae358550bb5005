package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// join moves a program into the machine's cgroups before it begins: those of who starts it are the host's.
const join = `for c in ` + cgroupRoot + `/*; do echo 0 >"$c/cgroup.procs"; done; exec "$@"`

// Command is a program to be run in the machine.
func (c Config) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	pid, err := c.PID()
	if err != nil {
		return nil, err
	}
	enter := []string{"-t", strconv.Itoa(pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", "--", "sh", "-c", join, "sh", name}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...), nil
}

// Exec runs a program in the machine to its end, and returns its output; what it says beside that is part of the error.
func (c Config) Exec(ctx context.Context, name string, args ...string) (string, error) {
	if c.Kernel != nil {
		return c.ask(ctx, append([]string{name}, args...))
	}
	cmd, err := c.Command(ctx, name, args...)
	if err != nil {
		return "", err
	}
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s on %s: %w: %s", name, c.Name, err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// Processes are those of the machine and of its containers that run this program, as the host numbers them. A program is its name and,
// after spaces, its first arguments. They are told by the machine's cgroups and not by its namespaces, of which containers have others.
func (c Config) Processes(program string) ([]int, error) {
	found, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, path := range found {
		in, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(in), "/"+c.cgroup()+"/") && !strings.Contains(string(in), "/"+c.cgroup()+"\n") {
			continue
		}
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); runs(pid, program) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// runs is false also for a process that has ended.
func runs(pid int, program string) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	_, args, _ := strings.Cut(strings.ReplaceAll(string(line), "\x00", " "), " ")
	return strings.HasPrefix(programOf(exe)+" "+args, program+" ")
}

// programOf is the name of an executable without a version.
func programOf(exe string) string {
	name, _, _ := strings.Cut(filepath.Base(exe), "-v")
	return name
}

// Signal sends a signal to each process of a program, and returns how many there were.
func (c Config) Signal(program string, sig syscall.Signal) (int, error) {
	pids, err := c.Processes(program)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, fmt.Errorf("signal %s on %s: %w", program, c.Name, err)
		}
	}
	return len(pids), nil
}
