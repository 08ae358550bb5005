package addons

import (
	"testing"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/published"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// pod is a pod with a sidecar at the socket of a member.
type pod struct {
	name, member string
	node         string // on which it is
	sidecar      *published.Process
}

// registration is the object that the sidecar of a pod makes: it is named by the node, the namespace and who owns the pod.
func (p pod) registration() kubeapi.Ref {
	owner := "daemonset-holdfast-node"
	if p.controls() {
		owner = "deployment-holdfast-controller"
	}
	return kubeapi.Ref{Resource: "csiaddonsnodes", Namespace: namespace, Name: p.node + "-" + namespace + "-" + owner}
}

func (p pod) controls() bool { return p.member[0] == 'c' }

// startPods starts a controller's pod and one for each node.
func (k *kubernetes) startPods(t *testing.T) map[string]*pod {
	t.Helper()
	k.create(t, kubeapi.Ref{Resource: "replicasets", Namespace: namespace, Name: "holdfast-controller-5d"}, object{
		"metadata": fields{"ownerReferences": []any{owner("Deployment", "holdfast-controller")}}})
	return map[string]*pod{"c1": k.startPod(t, "c1", "n1"), "n1": k.startPod(t, "n1", "n1"), "n2": k.startPod(t, "n2", "n2")}
}

func owner(kind, name string) fields {
	return fields{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1"}
}

// startPod starts the sidecar of a member, as the published manifests of drivers do.
func (k *kubernetes) startPod(t *testing.T, member, node string) *pod {
	t.Helper()
	p := &pod{name: "holdfast-" + member, member: member, node: node}
	by := owner("DaemonSet", "holdfast-node")
	if p.controls() {
		by = owner("ReplicaSet", "holdfast-controller-5d")
	}
	host := k.host(t, p.name)
	ref := kubeapi.Ref{Resource: "pods", Namespace: namespace, Name: p.name}
	made := k.create(t, ref, object{"metadata": fields{"ownerReferences": []any{by}}})
	k.status(t, ref, fields{"podIP": host.Addr()})
	p.sidecar = k.run(t, host, "sidecar", "--csi-addons-address="+k.socket(t, member), "--node-id="+node, "--controller-port=9070",
		"--pod="+p.name, "--namespace="+namespace, "--pod-uid="+made.Text("metadata", "uid"), "--stagingpath="+k.staging,
		"--leader-election-namespace="+namespace)
	return p
}

// status writes an object's status.
func (k *kubernetes) status(t *testing.T, ref kubeapi.Ref, status fields) {
	t.Helper()
	if err := k.api.UpdateStatus(ref, func(o object) { o["status"] = status }); err != nil {
		t.Fatal(err)
	}
}

// startManager starts the manager, and waits until it has asked every sidecar what it serves.
func (k *kubernetes) startManager(t *testing.T, pods map[string]*pod) {
	t.Helper()
	k.run(t, k.host(t, "manager"), "manager", "--namespace=csi-addons-system", "--health-probe-bind-address=0")
	for _, p := range pods {
		k.await(t, p.registration(), "the manager to connect to "+p.name, func(o object) bool { return o.Text("status", "state") == "Connected" })
	}
	lease := kubeapi.Ref{Resource: "leases", Namespace: namespace, Name: "csi-holdfast-storage-csi-addons"}
	k.await(t, lease, "a controller's sidecar to hold the lease", func(o object) bool { return o.Text("spec", "holderIdentity") != "" })
}

// volume makes a volume, with the objects that an orchestrator has of it.
func (k *kubernetes) volume(t *testing.T, spec harness.Spec) *harness.Volume {
	t.Helper()
	return k.volumeWith(t, spec, "holdfast")
}

// volumeWith is volume with another Secret of its node's calls.
func (k *kubernetes) volumeWith(t *testing.T, spec harness.Spec, secret string) *harness.Volume {
	t.Helper()
	v, err := k.co.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	mode := "Filesystem"
	if v.Block {
		mode = "Block"
	}
	k.create(t, kubeapi.Ref{Resource: "persistentvolumes", Name: v.Name}, object{"spec": fields{
		"accessModes": []any{"ReadWriteOnce"}, "volumeMode": mode, "csi": fields{"driver": driver, "volumeHandle": v.ID,
			"volumeAttributes":   fields{"storage.kubernetes.io/csiProvisionerIdentity": "1-" + driver},
			"nodeStageSecretRef": fields{"name": secret, "namespace": namespace}}}})
	claim := kubeapi.Ref{Resource: "persistentvolumeclaims", Namespace: "shop", Name: v.Name}
	k.create(t, claim, object{"spec": fields{"volumeName": v.Name, "volumeMode": mode, "storageClassName": ""}})
	k.status(t, claim, fields{"phase": "Bound"})
	return v
}
