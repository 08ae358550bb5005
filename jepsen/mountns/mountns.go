// Package mountns has commands of tests run in a mount namespace of their own.
package mountns

import (
	"os/exec"
	"syscall"
)

// script unmounts what is on loop devices, whose major number is 7, and executes its arguments.
const script = `mount --make-rprivate / || exit 1
awk '$3 ~ /^7:/ { print $5 }' /proc/self/mountinfo | sort -r | while read -r at; do umount -l "$(printf %b "$at")" 2>/dev/null; done
exec "$@"`

// New has a command that was not started run in a mount namespace of its own, without the filesystems of loop devices: they belong
// to others, and a copy of such a mount would keep the device in use after its owner unmounted it. What it mounts nobody else sees.
func New(cmd *exec.Cmd) {
	cmd.Args = append([]string{"sh", "-c", script, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNS
}
