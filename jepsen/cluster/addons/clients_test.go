package addons

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestPublishedClients: the sidecars register every socket, the manager's controllers and the tool drive every service.
// Replication is driven in the lab, where hosts replicate to each other. Of encryption there is what needs no device mapper, which the lab's guests have.
func TestPublishedClients(t *testing.T) {
	k := startKubernetes(t)
	pods := k.startPods(t)
	k.startManager(t, pods)
	t.Run("each socket registers with what it serves", func(t *testing.T) { k.testRegistration(t, pods) })
	t.Run("the tool asks who a socket is", k.testToolIdentity)
	t.Run("the tool has no operation that is not accounted for", k.testToolOperations)
	t.Run("reclaims of a filesystem", k.testReclaimFilesystem)
	t.Run("reclaims of a raw volume", k.testReclaimRaw)
	t.Run("the tool reclaims", k.testToolReclaim)
	t.Run("rotations of a key", k.testRotation)
	t.Run("volume groups", k.testGroups)
	t.Run("the tool makes volume groups", k.testToolGroups)
	t.Run("fences", func(t *testing.T) { k.testFences(t, pods) })
	t.Run("the tool fences", k.testToolFences)
	t.Run("the tool replicates nothing", k.testToolReplication)
	t.Run("a sidecar ends with its socket", func(t *testing.T) { k.testSocketCloses(t, pods["n1"]) })
	require.NoError(t, k.View().AwaitNoLeftovers(t.Context()))
	require.NoError(t, k.View().AwaitCleanAudit(t.Context()))
}

// served is what the manager records of the capabilities of a controller and of a node.
var served = map[bool][]string{
	true: {"network_fence.GET_CLIENTS_TO_FENCE", "network_fence.NETWORK_FENCE", "reclaim_space.OFFLINE", "service.CONTROLLER_SERVICE",
		"volume_group.GET_VOLUME_GROUP", "volume_group.LIMIT_VOLUME_TO_ONE_VOLUME_GROUP", "volume_group.LIST_VOLUME_GROUPS",
		"volume_group.MODIFY_VOLUME_GROUP", "volume_group.VOLUME_GROUP", "volume_replication.VOLUME_REPLICATION"},
	false: {"encryption_key_rotation.ENCRYPTIONKEYROTATION", "network_fence.GET_CLIENTS_TO_FENCE", "reclaim_space.ONLINE", "service.NODE_SERVICE"},
}

// testRegistration: ADD-ID-GetIdentity-01 and ADD-ID-GetCapabilities-01, as the sidecar and the manager understand them.
func (k *kubernetes) testRegistration(t *testing.T, pods map[string]*pod) {
	for _, p := range pods {
		o, err := k.api.Get(p.registration())
		require.NoError(t, err)
		require.Equal(t, fields{"name": driver, "nodeID": p.node, "endpoint": fmt.Sprintf("pod://%s.%s:9070", p.name, namespace)}, o.Get("spec", "driver"))
		got := o.Texts("status", "capabilities")
		slices.Sort(got)
		require.Subset(t, got, served[p.controls()], p.name)
	}
	require.Len(t, k.api.List("csiaddonsnodes"), len(pods))
	lease, err := k.api.Get(kubeapi.Ref{Resource: "leases", Namespace: namespace, Name: "csi-holdfast-storage-csi-addons"})
	require.NoError(t, err)
	require.Equal(t, pods["c1"].name, lease.Text("spec", "holderIdentity"), "a node's sidecar has no part in the election")
}

// testSocketCloses: a sidecar whose socket was closed ends with the next call, and its orchestrator starts it again.
func (k *kubernetes) testSocketCloses(t *testing.T, p *pod) {
	require.NoError(t, k.Member(p.member).Kill())
	asked := 0
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the sidecar to end", func() (bool, error) {
		asked++ // the manager connects again, and asks what is served
		err := k.api.Update(p.registration(), func(o object) { o.Meta()["annotations"] = fields{"tests/asked": fmt.Sprint(asked)} })
		select {
		case <-p.sidecar.Done:
			return true, nil
		default:
			return false, err
		}
	}))
	require.Contains(t, p.sidecar.Tail(), "Lost connection to CSI driver")
	require.NoError(t, k.Member(p.member).Start(t.Context()))
}

// groups are the groups that the command line lists, by name.
func (k *kubernetes) groups(t *testing.T) map[string][]string {
	t.Helper()
	res := k.CLI(t.Context(), "groups", "-o", "json")
	require.Zero(t, res.Code, res.Stderr)
	var list struct {
		Groups []struct {
			Name    string   `json:"name"`
			Members []string `json:"members"`
		} `json:"groups"`
	}
	require.NoError(t, json.Unmarshal([]byte(res.Stdout), &list), res.Stdout)
	all := map[string][]string{}
	for _, g := range list.Groups {
		all[g.Name] = g.Members
	}
	return all
}
