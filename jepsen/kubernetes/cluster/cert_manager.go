package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
)

// certManagerVersion is that of cert-manager, of which binaries.sh builds the program certmanager and copies the chart.
const certManagerVersion = "v1.21.2"

// certManager is the unit, the user's kubeconfig, and the namespace and service account of cert-manager's chart.
const certManager = "cert-manager"

// certManagerUser is whom the chart of cert-manager gives its rights to.
var certManagerUser = subject{
	name: "system:serviceaccount:" + certManager + ":" + certManager, groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + certManager},
}

// CertManagerChart is the folder of the chart of cert-manager, or an error where that, or its program, was not built.
func (c Config) CertManagerChart() (string, error) {
	chart := c.Program(certManager+"-chart", certManagerVersion)
	for _, path := range []string{chart, c.certManagerProgram()} {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("jepsen/kubernetes/binaries.sh has not made %s", filepath.Base(path))
		}
	}
	return chart, nil
}

func (c Config) certManagerProgram() string { return c.Program(certManager, certManagerVersion) }

// RunCertManager has the control plane run cert-manager, whose CRDs and rights must be there.
func (c Config) RunCertManager() error {
	return machine.Add(c.ControlPlane(), machine.Unit{Name: certManager, Args: []string{
		c.certManagerProgram(), "--kubeconfig=" + c.Kubeconfig(certManager), "--v=2",
	}})
}

// EndCertManager ends it.
func (c Config) EndCertManager() error { return machine.Drop(c.ControlPlane(), certManager) }
