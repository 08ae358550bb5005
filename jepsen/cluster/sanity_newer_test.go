package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestCSISanityOfV1_13 runs the csi-sanity binary of csi-test v5.6.0, which has a
// module of its own as it needs CSI v1.13, for filesystems and for raw volumes. It
// may skip only what v1.13 alone adds.
func TestCSISanityOfV1_13(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true, Flags: []string{fmt.Sprintf("--node-arg=--max-volumes=%d", attachLimit)}})
	program := filepath.Join(t.TempDir(), "csi-sanity")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity")
	build.Dir = filepath.Join("..", "sanity")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	status := awaitHealthy(t, c)
	for access, controller := range map[string]string{"mount": status.Leader, "block": status.Followers()[0]} {
		t.Run(access, func(t *testing.T) {
			passed, skipped := sanityBinary(t, c, program, access, controller)
			require.GreaterOrEqual(t, passed, 94, "the reference driver passes as many")
			for why := range skipped {
				require.Contains(t, onlyNewer, why, "skipped for a reason that v1.13 does not explain")
			}
		})
	}
	require.NoError(t, c.AwaitNoLeftovers(t.Context()))
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
}

// onlyNewer are the reasons to skip that only v1.13 brings: its capabilities are
// not in v1.12, which is served.
var onlyNewer = []string{
	"ControllerGetVolumeHealth not supported",
	"ControllerListVolumeHealth not supported",
	"NodeGetVolumeHealth not supported",
	"NodeGetStorageHealth not supported",
	"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
}

func sanityBinary(t *testing.T, c *harness.Cluster, program, access, controller string) (passed int, skipped map[string]int) {
	t.Helper()
	config := sanityConfig(t, c, controller)
	dir := t.TempDir()
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(t.Context(), program, "-csi.endpoint", config.Address, "-csi.controllerendpoint", config.ControllerAddress,
		"-csi.mountdir", config.TargetPath+access, "-csi.stagingdir", config.StagingPath+access,
		"-csi.testvolumesize", fmt.Sprint(config.TestVolumeSize), "-csi.testvolumeexpandsize", fmt.Sprint(2*config.TestVolumeSize),
		"-csi.testvolumeaccesstype", access, "-csi.testnodevolumeattachlimit", "-csi.testvolumemutableparameters", mutableFile(t, dir),
		"--ginkgo.no-color", "--ginkgo.succinct", "--ginkgo.json-report", report)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	raw, err := os.ReadFile(report)
	require.NoError(t, err)
	var suites []ginkgo.Report
	require.NoError(t, json.Unmarshal(raw, &suites))
	skipped = map[string]int{}
	for _, spec := range suites[0].SpecReports {
		switch {
		case spec.LeafNodeType != types.NodeTypeIt:
		case spec.State == types.SpecStatePassed:
			passed++
		case spec.State == types.SpecStateSkipped:
			skipped[spec.Failure.Message]++
		}
	}
	t.Logf("csi-sanity v5.6.0, %s, controller %s: %d passed, skipped %v", access, controller, passed, skipped)
	return passed, skipped
}

// mutableFile holds limits that a volume can have.
func mutableFile(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "mutable.yaml")
	require.NoError(t, os.WriteFile(path, []byte("iopsLimit: \"1000/500\"\n"), 0o600))
	return path
}
