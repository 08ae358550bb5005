package observability

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// errNoPromtool is of a machine without Prometheus' own tool.
var errNoPromtool = errors.New("promtool is missing: install the package prometheus")

// promtool runs Prometheus' tool; its error has what it said.
func promtool(dir string, args ...string) error {
	path, err := exec.LookPath("promtool")
	if err != nil {
		return errNoPromtool
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("promtool %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// mustHavePromtool tells whether a missing promtool is an error and no reason to skip a test.
func mustHavePromtool() bool { return os.Getenv("CI") != "" }
