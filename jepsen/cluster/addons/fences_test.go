package addons

import (
	"context"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var (
	fenceClass = kubeapi.Ref{Resource: "networkfenceclasses", Name: "fences"}
	fence      = kubeapi.Ref{Resource: "networkfences", Name: "n2"}
)

// testFences: the manager asks every plugin for its clients, and fences by their addresses through the holder of the lease.
func (k *kubernetes) testFences(t *testing.T, pods map[string]*pod) {
	secret := "csiaddons.openshift.io/networkfence-secret-"
	k.create(t, fenceClass, object{"spec": fields{"provisioner": driver, "parameters": fields{
		secret + "name": "holdfast", secret + "namespace": namespace, "site": "default"}}})
	address := k.clients(t, pods["n2"])["n2"]
	require.Equal(t, map[string]string{"n2": address}, k.clients(t, pods["n2"]), "a node names itself")
	require.Equal(t, map[string]string{"n1": k.Member("n1").Host().Addr() + "/32", "n2": address}, k.clients(t, pods["c1"]))

	v := k.volume(t, harness.Spec{Name: "fenced", Node: "n2"})
	require.NoError(t, k.co.Publish(t.Context(), v, "n2"))
	k.create(t, fence, object{"spec": fields{"networkFenceClassName": fenceClass.Name, "fenceState": "Fenced", "cidrs": []any{address}}})
	k.awaitFence(t, fence, "Succeeded", "fencing operation successful")
	require.Contains(t, k.CLI(t.Context(), "nodes", "fences").Stdout, address)
	require.NotEqual(t, codes.OK, k.publishOnce(t, v, "n2"), "a fenced host gets no publication")

	require.NoError(t, k.api.Update(fence, func(o object) { o.Get("spec").(fields)["fenceState"] = "Unfenced" }))
	k.awaitFence(t, fence, "Succeeded", "unfencing operation successful")
	require.NotContains(t, k.CLI(t.Context(), "nodes", "fences").Stdout, address)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the host to be used again", func() (bool, error) {
		return k.publishOnce(t, v, "n2") == codes.OK, nil
	}))
	require.NoError(t, k.co.Unpublish(t.Context(), v))
	require.NoError(t, k.co.Delete(t.Context(), v))
	k.testRefusedFences(t)
}

// clients are the hosts and addresses that a plugin has told the manager.
func (k *kubernetes) clients(t *testing.T, p *pod) map[string]string {
	t.Helper()
	o := k.await(t, p.registration(), "the manager to ask "+p.name+" for its clients", func(o object) bool {
		return o.Get("status", "networkFenceClientStatus") != nil
	})
	all := map[string]string{}
	for _, class := range o.Get("status", "networkFenceClientStatus").([]any) {
		require.Equal(t, fenceClass.Name, object(class.(fields)).Text("networkFenceClassName"))
		for _, client := range class.(fields)["ClientDetails"].([]any) {
			node, host, _ := strings.Cut(object(client.(fields)).Text("id"), "/")
			require.NotEmpty(t, host)
			all[node] = strings.Join(object(client.(fields)).Texts("cidrs"), ",")
		}
	}
	return all
}

// awaitFence waits for what the manager says of a fence.
func (k *kubernetes) awaitFence(t *testing.T, ref kubeapi.Ref, result, says string) {
	t.Helper()
	k.await(t, ref, "the fence to say: "+says, func(o object) bool {
		return o.Text("status", "result") == result && strings.Contains(o.Text("status", "message"), says)
	})
}

// publishOnce is how one ControllerPublishVolume ends.
func (k *kubernetes) publishOnce(t *testing.T, v *harness.Volume, node string) codes.Code {
	t.Helper()
	client, err := k.View().Controller("c1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	_, err = client.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: node, VolumeCapability: v.Capability()})
	if err == nil {
		v.Node = node
	}
	return status.Code(err)
}

// testRefusedFences: what is refused is said in the object, and changes nothing.
func (k *kubernetes) testRefusedFences(t *testing.T) {
	for name, cidr := range map[string]string{"nonsense": "10.0.0.0/99", "everybody": "10.203.0.0/16"} {
		ref := kubeapi.Ref{Resource: "networkfences", Name: name}
		k.create(t, ref, object{"spec": fields{"networkFenceClassName": fenceClass.Name, "fenceState": "Fenced", "cidrs": []any{cidr}}})
		k.awaitFence(t, ref, "Failed", "InvalidArgument")
		require.NotContains(t, k.CLI(t.Context(), "nodes", "fences").Stdout, strings.Split(cidr, "/")[0])
		require.NoError(t, k.api.Delete(ref))
	}
}

// testToolFences: the tool names a cluster with each call, and has the deprecated form without a class.
func (k *kubernetes) testToolFences(t *testing.T) {
	const cidr = "192.0.2.7/32" // nobody's: the fence waits for who comes
	at := []string{"-secret=" + namespace + "/holdfast", "-clusterid=holdfast", "-cidrs=" + cidr}
	for range 2 {
		k.requireTool(t, "c1", "NetworkFence", 0, "Network fence successful", at...)
	}
	require.Contains(t, k.CLI(t.Context(), "nodes", "fences").Stdout, cidr)
	k.requireTool(t, "n1", "NetworkFence", 1, "code = Unimplemented", at...)
	k.requireTool(t, "c1", "NetworkFence", 1, "code = InvalidArgument", append(at[:2:2], "-cidrs=nonsense")...)
	k.requireTool(t, "c1", "NetworkFence", 1, "code = Unauthenticated", append([]string{"-secret=" + namespace + "/wrong"}, at[1:]...)...)
	k.requireTool(t, "c1", "NetworkFence", 1, "cidrs not set", at[:2]...)
	for range 2 {
		k.requireTool(t, "c2", "NetworkUnFence", 0, "Network unfence successful", at...)
	}
	require.NotContains(t, k.CLI(t.Context(), "nodes", "fences").Stdout, cidr)
}
