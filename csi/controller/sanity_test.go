package controller_test

import (
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

// TestSanity runs csi-sanity with the node's socket as address and the
// controller's as controller address.
func TestSanity(t *testing.T) {
	controllers, nodes := unixTransport(t), unixTransport(t)
	newEnvOver(t, controllers, nodes, func(c *fakeCluster) *fakeHost {
		h := hostIn("n1", "z1")(c)
		h.max = 8
		return h
	})
	config := sanity.NewTestConfig()
	config.Address, config.ControllerAddress = nodes.socket, controllers.socket
	config.TargetPath = filepath.Join(t.TempDir(), "target")
	config.StagingPath = filepath.Join(t.TempDir(), "staging")
	config.TestNodeVolumeAttachLimit = true
	config.TestVolumeMutableParameters = map[string]string{"iopsLimit": "1000/500", "bandwidthLimit": "100Mi"}
	sanity.Test(t, config)
}
