package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	if err := c.checkVersion(); err != nil || os.Getenv(inside) == strconv.Itoa(pid) {
		return err
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

// checkVersion refuses a cluster that was made of another version of Kubernetes.
func (c Config) checkVersion() error {
	version, err := os.ReadFile(c.versionFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && string(version) != c.Version {
		err = fmt.Errorf("the cluster in %s is of Kubernetes %s, not %s: remove it with the verb down, or give -version %[2]s", c.Dir, version, c.Version)
	}
	return err
}

func (c Config) versionFile() string { return filepath.Join(c.Dir, "version") }
