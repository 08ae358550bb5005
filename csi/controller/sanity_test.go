package controller_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/stretchr/testify/require"
)

// sanityVariable makes this program the one process that runs csi-sanity.
const sanityVariable = "HOLDFAST_TEST_SANITY"

// TestSanity runs csi-sanity in a process of its own, in which it runs once: Ginkgo
// refuses -count, -parallel and to run a suite again.
func TestSanity(t *testing.T) {
	if os.Getenv(sanityVariable) != "" {
		runSanity(t)
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	suite := exec.CommandContext(t.Context(), self, "-test.run", "^TestSanity$", "-test.cpu", fmt.Sprint(runtime.GOMAXPROCS(0)))
	suite.Env = append(os.Environ(), sanityVariable+"=1")
	out, err := suite.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `Ran [1-9]\d* of`, string(out))
}

// runSanity has the node's socket as address and the controller's as controller address.
func runSanity(t *testing.T) {
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
