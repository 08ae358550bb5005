package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// attachLimit is the node's max_volumes_per_node here: csi-sanity publishes as many and one more.
const attachLimit = 24

// TestCSISanity: csi-sanity passes. It runs as a library, with the
// leader as the controller and with a follower, with filesystems and with raw
// volumes, and skips nothing. Ginkgo allows one run per process, so all are in one suite.
func TestCSISanity(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true, Flags: []string{fmt.Sprintf("--node-arg=--max-volumes=%d", attachLimit)}})
	status := awaitHealthy(t, c)

	gomega.RegisterFailHandler(ginkgo.Fail)
	for _, access := range []string{"mount", "block"} {
		for i, controller := range []string{status.Leader, status.Followers()[0]} {
			config := sanityConfig(t, c, controller)
			config.TestVolumeAccessType = access
			ginkgo.Describe(access+" at the "+[]string{"leader", "follower"}[i], func() { sanity.GinkgoTest(&config) })
		}
	}
	var report ginkgo.Report
	ginkgo.ReportAfterSuite("collect", func(r ginkgo.Report) { report = r })
	suite, reporter := ginkgo.GinkgoConfiguration()
	reporter.NoColor, reporter.Succinct = true, true
	ginkgo.RunSpecs(t, "csi-sanity", suite, reporter)
	checkSpecs(t, c, report)
	require.NoError(t, c.AwaitNoLeftovers(t.Context()))
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
}

func sanityConfig(t *testing.T, c *harness.Cluster, controller string) sanity.TestConfig {
	l, err := c.Layout()
	require.NoError(t, err)
	config := sanity.NewTestConfig()
	config.Address = l.Nodes[0].Endpoint
	for _, ctl := range l.Controllers {
		if ctl.ID == controller {
			config.ControllerAddress = ctl.Endpoint
		}
	}
	require.NotEmpty(t, config.ControllerAddress)
	config.TestVolumeSize = 16 * harness.Mi
	config.TestVolumeExpandSize = 32 * harness.Mi
	config.TestVolumeMutableParameters = map[string]string{"iopsLimit": "1000/500"}
	config.TestNodeVolumeAttachLimit = true
	config.TargetPath = filepath.Join(c.Mounts(), "sanity-target")
	config.StagingPath = filepath.Join(c.Mounts(), "sanity-staging")
	return config
}

// checkSpecs counts the specs and fails the test when one was skipped although what it needs is advertised.
func checkSpecs(t *testing.T, c *harness.Cluster, report ginkgo.Report) {
	have := advertised(t, c)
	count := map[types.SpecState]int{}
	skipped := map[string]int{}
	for _, spec := range report.SpecReports {
		if spec.LeafNodeType != types.NodeTypeIt {
			continue
		}
		count[spec.State]++
		if spec.State == types.SpecStateSkipped {
			skipped[spec.Failure.Message]++
		}
	}
	t.Logf("csi-sanity: %d passed, %d failed, %d skipped, %d pending", count[types.SpecStatePassed],
		count[types.SpecStateFailed]+count[types.SpecStatePanicked], count[types.SpecStateSkipped], count[types.SpecStatePending])
	for why, n := range skipped {
		need, known := needs[why]
		t.Logf("%d specs skipped: %s", n, why)
		require.True(t, known, "skipped for a reason that is not a missing capability: %s", why)
		require.NotContains(t, have, need, "skipped although %s is advertised", need)
	}
	require.Zero(t, count[types.SpecStateSkipped], "every capability is on")
	require.Equal(t, 4*95, count[types.SpecStatePassed])
	require.Equal(t, 4, count[types.SpecStatePending], "csi-sanity itself leaves one spec pending")
}

// needs is the capability whose absence is csi-sanity's reason to skip.
var needs = map[string]string{
	"GetCapacity not supported":                                   "GET_CAPACITY",
	"ListVolumes not supported":                                   "LIST_VOLUMES",
	"CreateVolume not supported":                                  "CREATE_DELETE_VOLUME",
	"DeleteVolume not supported":                                  "CREATE_DELETE_VOLUME",
	"Snapshot not supported":                                      "CREATE_DELETE_SNAPSHOT",
	"DeleteSnapshot not supported":                                "CREATE_DELETE_SNAPSHOT",
	"CreateSnapshot not supported":                                "CREATE_DELETE_SNAPSHOT",
	"ListSnapshots not supported":                                 "LIST_SNAPSHOTS",
	"GetSnapshot not supported":                                   "GET_SNAPSHOT",
	"Volume Cloning not supported":                                "CLONE_VOLUME",
	"Modify volume not supported":                                 "MODIFY_VOLUME",
	"Modify Volume not supported":                                 "MODIFY_VOLUME",
	"ControllerModifyVolume not supported":                        "MODIFY_VOLUME",
	"ControllerPublishVolume not supported":                       "PUBLISH_UNPUBLISH_VOLUME",
	"Controller Publish, UnpublishVolume not supported":           "PUBLISH_UNPUBLISH_VOLUME",
	"ControllerUnpublishVolume not supported":                     "PUBLISH_UNPUBLISH_VOLUME",
	"ControllerPublishVolume.readonly field not supported":        "PUBLISH_READONLY",
	"ControllerExpandVolume not supported":                        "EXPAND_VOLUME",
	"NodeExpandVolume not supported":                              "node EXPAND_VOLUME",
	"NodeStageVolume not supported":                               "node STAGE_UNSTAGE_VOLUME",
	"NodeGetVolume not supported":                                 "node GET_VOLUME_STATS",
	"Service does not have single node multi writer capability":   "node SINGLE_NODE_MULTI_WRITER",
	"GroupControllerService not supported":                        "GROUP_CONTROLLER_SERVICE",
	"VolumeGroupSnapshots not supported":                          "group CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
	"Controller Service not provided: CreateVolume not supported": "CONTROLLER_SERVICE",
	"No MaxVolumesPerNode":                                        "max_volumes_per_node",
}

// advertised is every capability that a controller and the node name, and is
// the same at all controllers (CSI-ID-GetPluginCapabilities-02).
func advertised(t *testing.T, c *harness.Cluster) []string {
	l, err := c.Layout()
	require.NoError(t, err)
	var have []string
	for i, ctl := range l.Controllers {
		here := ofController(t, c, ctl.ID)
		if i > 0 {
			require.Equal(t, have, here, "%s advertises other capabilities", ctl.ID)
		}
		have = here
	}
	node, err := c.Node(l.Nodes[0].ID)
	require.NoError(t, err)
	caps, err := node.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	require.NoError(t, err)
	for _, capability := range caps.GetCapabilities() {
		have = append(have, "node "+capability.GetRpc().GetType().String())
	}
	info, err := node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	require.NoError(t, err)
	if info.GetMaxVolumesPerNode() > 0 {
		have = append(have, "max_volumes_per_node")
	}
	t.Logf("advertised: %s", strings.Join(have, ", "))
	return have
}

func ofController(t *testing.T, c *harness.Cluster, id string) []string {
	var have []string
	client, err := c.Controller(id)
	require.NoError(t, err)
	caps, err := client.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	require.NoError(t, err)
	for _, capability := range caps.GetCapabilities() {
		have = append(have, capability.GetRpc().GetType().String())
	}
	identity, err := c.Identity(id)
	require.NoError(t, err)
	plugin, err := identity.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
	require.NoError(t, err)
	for _, capability := range plugin.GetCapabilities() {
		have = append(have, capability.GetService().GetType().String())
	}
	slices.Sort(have)
	return have
}
