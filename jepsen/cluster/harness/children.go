package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrDead: the child is not running.
var ErrDead = errors.New("the process is not running")

// children are the cluster's controllers and nodes as processes: what signals them, and waits for
// what becomes of them.
type children struct {
	*workspace
	commands *commands
}

// Signal sends a signal to a child, and returns its process id. It checks first that the process runs
// this binary: the pid may belong to another process by now. After SIGSTOP it waits until the process
// is stopped.
func (p *children) Signal(id string, sig syscall.Signal) (int, error) {
	l, err := p.Layout()
	if err != nil {
		return 0, err
	}
	pid := l.PID(id)
	if pid == 0 || !p.isOurs(pid) {
		return 0, fmt.Errorf("signal %s: %w", id, ErrDead)
	}
	if sig == syscall.SIGSTOP {
		return pid, StopProcess(pid)
	}
	return pid, syscall.Kill(pid, sig)
}

// StopProcess stops a process with SIGSTOP, and waits until it is stopped.
func StopProcess(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return Poll(context.Background(), Patience, fmt.Sprintf("process %d to stop", pid), func() (bool, error) { return isStopped(pid), nil })
}

// isStopped reports whether no thread of a process executes user code. The signal is pending for one
// thread at first, and the other threads continue until that one handles it: on a busy machine they
// answer calls meanwhile. A thread that waits for a disk (D) stops before it returns from the kernel.
// A process that has exited counts as stopped.
func isStopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		// The state is behind the name, which is in brackets and may hold anything.
		if at := strings.LastIndex(string(text), ") "); at < 0 || !strings.ContainsAny(string(text[at+2:at+3]), "TtDZX") {
			return false
		}
	}
	return true
}

// isOurs reports whether a process runs the binary under test on this cluster's directory.
func (p *children) isOurs(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || strings.TrimSuffix(exe, " (deleted)") != p.opts.Binary {
		return false
	}
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return strings.Contains(string(cmdline)+string(environ), p.Dir)
}

// processes are those of this cluster that run now.
func (p *children) processes() []int {
	found, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, dir := range found {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && pid != os.Getpid() && p.isOurs(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killLeftovers kills processes that outlived `dev`, and waits until they have exited.
func (p *children) killLeftovers(ctx context.Context) error {
	return Poll(ctx, Patience, "the cluster's processes to end", func() (bool, error) {
		left := p.processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0, fmt.Errorf("processes %v are left", left)
	})
}

// AwaitDead waits until cluster.json says that a child is dead.
func (p *children) AwaitDead(ctx context.Context, id string) error {
	return Poll(ctx, Patience, id+" to be dead", func() (bool, error) {
		l, err := p.Layout()
		return err == nil && l.PID(id) == 0, err
	})
}

// AwaitNewPID waits until a child runs as another process than the one named.
func (p *children) AwaitNewPID(ctx context.Context, id string, than int) error {
	return Poll(ctx, Patience, id+" to run again", func() (bool, error) {
		l, err := p.Layout()
		if err != nil {
			return false, err
		}
		pid := l.PID(id)
		return pid != 0 && pid != than && p.isOurs(pid), nil
	})
}

// Kill kills a child with SIGKILL, and waits until cluster.json says so when nothing restarts it.
func (p *children) Kill(ctx context.Context, id string) error {
	if _, err := p.Signal(id, syscall.SIGKILL); err != nil {
		return err
	}
	if p.opts.Supervise {
		return nil
	}
	return p.AwaitDead(ctx, id)
}

// StartChild starts one dead child again with `dev start`.
func (p *children) StartChild(ctx context.Context, id string) error {
	res := p.commands.Run(ctx, "dev", "start", "--dir", p.Dir, id)
	if res.Code != 0 {
		return fmt.Errorf("dev start %s exited %d: %s", id, res.Code, res.Stderr)
	}
	return p.AwaitNewPID(ctx, id, 0)
}
