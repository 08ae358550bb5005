package lvm

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/executor/run"
)

const (
	// changeTimeout bounds a command that changes something. LVM waits for its lock, and for
	// writes in flight on what it suspends.
	changeTimeout = 2 * time.Minute
	// activateTimeout bounds the activation of the pool: thin_check reads its metadata.
	activateTimeout = 10 * time.Minute
	// mapTimeout bounds reading the pool's metadata.
	mapTimeout = 10 * time.Minute
)

// tools runs lvm, dmsetup and the thin tools.
type tools struct {
	runner Runner
	config string // passed to every lvm command
	udev   bool
}

// newTools reads this host's LVM device filter and excludes the devices that are volumes, or lie
// on volumes.
func newTools(ctx context.Context, runner Runner, vg string, udev bool) *tools {
	t := &tools{runner: runner, udev: udev}
	// A host whose configuration cannot be read counts as having no filter.
	own, _ := runner.Run(ctx, run.Command{Tool: "lvm", Args: []string{"lvmconfig", "--typeconfig", "full", "devices/global_filter"}})
	t.config = lvmConfig(vg, string(own), udev)
	return t
}

// udevIsUsable reports whether udev manages device nodes here, and LVM can wait for it: the two
// synchronise through semaphores of the host's initial IPC namespace.
func udevIsUsable() bool {
	const firstIPC = 0xEFFFFFFF // PROC_IPC_INIT_INO of include/linux/proc_ns.h
	var st syscall.Stat_t
	if _, err := os.Stat("/run/udev/control"); err != nil {
		return false
	}
	return syscall.Stat("/proc/self/ns/ipc", &st) == nil && st.Ino == firstIPC
}

// query runs an lvm command that changes nothing. It may be killed.
func (t *tools) query(ctx context.Context, out io.Writer, command string, args ...string) error {
	args = append([]string{command, "--config", t.config}, args...)
	_, err := t.runner.Run(ctx, run.Command{Tool: "lvm", Args: args, Stdout: out})
	return classifyError(err)
}

// runChange runs an lvm command that changes something. It is not interrupted when the context
// ends: a killed command leaves devices suspended. The caller must check afterwards whether the
// result is still wanted.
func (t *tools) runChange(ctx context.Context, timeout time.Duration, command string, args ...string) error {
	args = append([]string{command, "--config", t.config, "-y"}, args...)
	_, err := t.runner.Run(context.WithoutCancel(ctx), run.Command{Tool: "lvm", Args: args, Timeout: timeout, OutlivesParent: true})
	return classifyError(err)
}

// dmsetup runs a dmsetup command that changes the device mapper.
func (t *tools) dmsetup(ctx context.Context, command string, args ...string) error {
	all := []string{command}
	if !t.udev {
		all = append(all, "--noudevrules", "--noudevsync")
	}
	_, err := t.runner.Run(context.WithoutCancel(ctx), run.Command{Tool: "dmsetup", Args: append(all, args...), OutlivesParent: true})
	return classifyError(err)
}

// makeNode creates a device's node below /dev/mapper where there is no udev: dmsetup leaves that
// to udev, unless its environment says that there is none.
func (t *tools) makeNode(ctx context.Context, name string) error {
	if t.udev {
		return nil
	}
	if _, err := t.runner.Run(ctx, run.Command{Tool: "dmsetup", Args: []string{"mknodes", name}}); err != nil {
		return fmt.Errorf("create the device node of %s: %w", name, classifyError(err))
	}
	return nil
}
