package addons

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// driven are the operations of the tool that are run here.
var driven = []string{"ControllerGetVolumeGroup", "ControllerReclaimSpace", "CreateVolumeGroup", "DeleteVolumeGroup", "EncryptionKeyRotation", "GetCapabilities", "GetIdentity",
	"ModifyVolumeGroupMembership", "NetworkFence", "NetworkUnFence", "NodeReclaimSpace", "Probe"}

// notYet are those of services that have no part here.
var notYet = []string{"DemoteVolume", "DisableVolumeReplication", "EnableVolumeReplication", "GetVolumeReplicationInfo", "PromoteVolume", "ResyncVolume"}

// testToolOperations holds both lists to what the tool says that it has.
func (k *kubernetes) testToolOperations(t *testing.T) {
	help := k.tool(t, "c1", "", "--help")
	require.Zero(t, help.code, help.text)
	var has []string
	for _, line := range regexp.MustCompile(`(?m)^ - (\w+)$`).FindAllStringSubmatch(help.text, -1) {
		has = append(has, line[1])
	}
	slices.Sort(has)
	want := slices.Sorted(slices.Values(append(slices.Clone(driven), notYet...)))
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
