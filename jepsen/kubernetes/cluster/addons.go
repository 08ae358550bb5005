package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// AddonsVersion is that of kubernetes-csi-addons, of which the chart names the sidecar.
const AddonsVersion = "v0.14.0"

// AddonsImages are the programs of kubernetes-csi-addons, the images that have them, where they have them, and their user.
var AddonsImages = []struct{ Name, Image, At, User string }{
	{"csi-addons-sidecar", "quay.io/csiaddons/k8s-sidecar", "/usr/sbin/csi-addons-sidecar", ""},
	{"csi-addons-manager", "quay.io/csiaddons/k8s-controller", "/csi-addons-manager", "65532:65532"},
}

// AddonsObjects is the folder with the published manifests of kubernetes-csi-addons, or an error where those, or its programs, were not
// built.
func (c Config) AddonsObjects() (string, error) {
	objects := c.Program("csi-addons-manager-objects", AddonsVersion)
	wanted := []string{objects}
	for _, a := range AddonsImages {
		wanted = append(wanted, c.Program(a.Name, AddonsVersion))
	}
	for _, path := range wanted {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("jepsen/kubernetes/binaries.sh has not made %s", filepath.Base(path))
		}
	}
	return objects, nil
}
