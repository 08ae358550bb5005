package addons

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// driven are the operations of the tool that reach a socket.
var driven = []string{"ControllerGetVolumeGroup", "ControllerReclaimSpace", "CreateVolumeGroup", "DeleteVolumeGroup", "EncryptionKeyRotation", "GetCapabilities", "GetIdentity",
	"ModifyVolumeGroupMembership", "NetworkFence", "NetworkUnFence", "NodeReclaimSpace", "Probe"}

// broken are those that the tool never calls: it makes no source in which it could put what they are about.
var broken = []string{"DemoteVolume", "DisableVolumeReplication", "EnableVolumeReplication", "GetVolumeReplicationInfo", "PromoteVolume", "ResyncVolume"}

// testToolOperations holds both lists to what the tool says that it has.
func (k *kubernetes) testToolOperations(t *testing.T) {
	help := k.tool(t, "c1", "", "--help")
	require.Zero(t, help.code, help.text)
	var has []string
	for _, line := range regexp.MustCompile(`(?m)^ - (\w+)$`).FindAllStringSubmatch(help.text, -1) {
		has = append(has, line[1])
	}
	slices.Sort(has)
	want := slices.Sorted(slices.Values(append(slices.Clone(driven), broken...)))
	require.Equal(t, want, has)
	k.requireTool(t, "c1", "Nonsense", 1, "not found")
}

// testToolIdentity: ADD-ID-GetIdentity-01, ADD-ID-GetCapabilities-01 and ADD-ID-Probe-01 at each kind of socket.
func (k *kubernetes) testToolIdentity(t *testing.T) {
	for member, service := range map[string]string{"c1": "CONTROLLER_SERVICE", "c2": "CONTROLLER_SERVICE", "n1": "NODE_SERVICE"} {
		k.requireTool(t, member, "GetIdentity", 0, driver)
		k.requireTool(t, member, "GetCapabilities", 0, service)
		k.requireTool(t, member, "Probe", 0, "ready:{value:true}")
	}
}

// testToolReplication: the tool's operations of replication end before a call is made. The manager's controllers drive that
// service in the lab, whose hosts replicate to each other.
func (k *kubernetes) testToolReplication(t *testing.T) {
	v := k.volume(t, harness.Spec{Name: "replicated-by-tool"})
	for _, operation := range broken {
		k.requireTool(t, "c1", operation, 1, "replication source is not set", "-secret="+namespace+"/holdfast", "-clusterid=shop", "-persistentvolume="+v.Name)
	}
	require.NoError(t, k.co.Delete(t.Context(), v))
}
