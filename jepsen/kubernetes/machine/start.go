package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initArg is the first argument of a program that is to become a machine's first process: see Main.
const initArg = "machine-init"

const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// process is a running one, told from a later one of its number by when it started.
type process struct {
	PID   int
	Start string // in the kernel's ticks since boot
}

// Start makes the machine's disks unless they are there, and starts its first process, which is a copy of this program. It returns when
// the machine can run programs.
func Start(ctx context.Context, c Config) error {
	if pid, err := c.PID(); err == nil {
		return fmt.Errorf("the machine %s runs already, as process %d", c.Name, pid)
	}
	if c.Kernel != nil { // it boots when its network is there: see Boot
		if err := os.RemoveAll(c.unitsFile()); err != nil {
			return err
		}
	}
	if err := errors.Join(c.save(), removeAll(c.path(ready), c.path(guestReady), c.path("process.json"))); err != nil {
		return err
	}
	if err := c.makeDisks(ctx); err != nil {
		return err
	}
	if err := c.makeCgroups(); err != nil {
		return err
	}
	if err := c.startInit(); err != nil {
		return fmt.Errorf("start the machine %s: %w", c.Name, err)
	}
	return c.waitFor(ctx, ready)
}

// The files that say that a machine, and its own kernel, can run programs.
const ready, guestReady = "ready", "guest-ready"

func (c Config) startInit() error {
	out, err := os.Create(c.Log("init"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("/proc/self/exe", initArg, c.Dir, c.Name)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() //nolint:errcheck // reaps it, where this process outlives the machine
	p, err := find(cmd.Process.Pid)
	if err != nil {
		return err
	}
	return writeJSON(c.path("process.json"), p)
}

func (c Config) waitFor(ctx context.Context, file string) error {
	for {
		if _, err := os.Stat(c.path(file)); err == nil {
			return nil
		}
		if _, err := c.PID(); err != nil {
			said, _ := os.ReadFile(c.Log("init"))
			return fmt.Errorf("the machine %s ended: %s", c.Name, strings.TrimSpace(string(said)))
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the machine %s: %w", c.Name, err)
		}
	}
}

// PID is that of the machine's first process, as the host numbers it.
func (c Config) PID() (int, error) {
	var p process
	if err := readJSON(c.path("process.json"), &p); err != nil {
		return 0, err
	}
	now, err := find(p.PID)
	if err != nil || now != p {
		return 0, fmt.Errorf("the machine %s does not run", c.Name)
	}
	return p.PID, nil
}

func find(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The name of a program may hold anything, so that fields are counted from its end.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if fields[0] == "Z" {
		return process{}, fmt.Errorf("process %d has ended", pid)
	}
	return process{PID: pid, Start: fields[19]}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

func removeAll(paths ...string) error {
	var failed error
	for _, path := range paths {
		failed = errors.Join(failed, os.RemoveAll(path))
	}
	return failed
}
