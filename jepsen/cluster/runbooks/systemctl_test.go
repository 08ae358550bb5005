package runbooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// The variables that tell a shell's systemctl on which host it is.
const (
	hostVariable    = "RUNBOOK_HOST"
	clusterVariable = "RUNBOOK_CLUSTER"
	binaryVariable  = "RUNBOOK_BINARY"
)

// systemctl starts and stops the process of the shell's host; the cluster's supervisor is its service manager. A reboot is as much of one as a
// process sees: it is stopped, and starts again; the boot stays the same.
func systemctl(args []string) int {
	err := errors.New("it takes start, stop, restart or reboot")
	switch {
	case slices.Equal(args, []string{"reboot"}):
		err = errors.Join(stopUnit(), startUnit())
	case len(args) != 2 || !slices.Contains([]string{"holdfast-controller", "holdfast-node"}, args[1]):
		err = fmt.Errorf("unknown unit or command %q", args)
	case args[0] == "start":
		err = startUnit()
	case args[0] == "stop":
		err = stopUnit()
	case args[0] == "restart":
		err = errors.Join(stopUnit(), startUnit())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "systemctl %v on %q: %v\n", args, os.Getenv(hostVariable), err)
		return 1
	}
	return 0
}

func stopUnit() error {
	layout, err := harness.ReadLayout(os.Getenv(clusterVariable))
	if err != nil {
		return err
	}
	pid := layout.PID(os.Getenv(hostVariable))
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	return harness.Poll(context.Background(), harness.Patience, "the process to end", func() (bool, error) {
		layout, err := harness.ReadLayout(os.Getenv(clusterVariable))
		return err == nil && layout.PID(os.Getenv(hostVariable)) == 0, err
	})
}

// startUnit returns when the process runs, as a unit of Type=simple does; it may not be ready yet (3).
func startUnit() error {
	cmd := exec.Command(os.Getenv(binaryVariable), "dev", "start", "--dir", os.Getenv(clusterVariable), os.Getenv(hostVariable))
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_") })
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() != 3 {
		return fmt.Errorf("start: %w: %s", err, out)
	}
	return nil
}
