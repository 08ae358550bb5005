package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// inside is set in the environment of a program that is in the control plane's network.
const inside = "HOLDFAST_KUBERNETES_INSIDE"

// Enter executes this program again, with the same arguments, in the network of the control plane, unless it is in it. Only from there
// the API server can be reached: the host's own network is not touched.
func (c Config) Enter() error {
	pid, err := c.ControlPlane().PID()
	if err != nil {
		return err
	}
	if os.Getenv(inside) == strconv.Itoa(pid) {
		return nil
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{nsenter, "-t", strconv.Itoa(pid), "-n", "--", self}, os.Args[1:]...)
	return fmt.Errorf("enter the cluster's network: %w", unix.Exec(nsenter, args, append(os.Environ(), inside+"="+strconv.Itoa(pid))))
}
