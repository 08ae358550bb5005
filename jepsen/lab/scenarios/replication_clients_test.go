package scenarios

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/published"
)

const (
	clientNamespace = "storage" // of the pods
	shopNamespace   = "shop"    // of what they manage
	driverName      = "csi.holdfast.storage"
)

type fields = map[string]any

// siteKubernetes is the Kubernetes of one site: a stand-in of its API, a pod with the published sidecar at the socket of the
// site's controller, and the published manager, whose controllers do what objects say.
type siteKubernetes struct {
	*rowSite
	api     *kubeapi.Server
	account published.Account
	clients *published.Programs
	port    string // of the sidecar
}

// TestPublishedClientsReplicate: VolumeReplications and VolumeGroupReplications at two sites, each with sidecar and manager as
// they are published, enable, relocate, fail over with and without force, resynchronise and disable.
func TestPublishedClientsReplicate(t *testing.T) {
	x := newRowLab(t)
	clients := &published.Programs{Dir: filepath.Join("..", "..", "csiaddons")}
	t.Cleanup(func() { require.NoError(t, clients.Close()) })
	a, b := x.kubernetesOf(t, x.a, clients), x.kubernetesOf(t, x.b, clients)
	t.Run("a volume", func(t *testing.T) { x.replicateVolume(t, a, b) })
	t.Run("a volume group", func(t *testing.T) { x.replicateGroup(t, a, b) })
	x.requireSplitBrainsSolved(t)
}

// kubernetesOf starts all of a site's.
func (x *rowLab) kubernetesOf(t *testing.T, s *rowSite, clients *published.Programs) *siteKubernetes {
	t.Helper()
	k := &siteKubernetes{rowSite: s, clients: clients, port: map[string]string{"A": "9071", "B": "9072"}[s.name]}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k.api, err = kubeapi.Serve(listener)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.api.Close()) })
	k.account, err = published.NewAccount(k.api, t.TempDir(), clientNamespace)
	require.NoError(t, err)
	k.create(t, kubeapi.Ref{Resource: "namespaces", Name: shopNamespace}, kubeapi.Object{})
	k.startSidecar(t)
	k.run(t, "manager", "--namespace=csi-addons-system", "--health-probe-bind-address=0")
	k.await(t, k.registration(), "the manager to connect", func(o kubeapi.Object) bool {
		return o.Text("status", "state") == "Connected" && slices.Contains(o.Texts("status", "capabilities"), "volume_replication.VOLUME_REPLICATION")
	})
	k.createClasses(t)
	return k
}

// startSidecar starts the pod of the site's controller.
func (k *siteKubernetes) startSidecar(t *testing.T) {
	t.Helper()
	owner := func(kind, name string) []any {
		return []any{fields{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1"}}
	}
	k.create(t, kubeapi.Ref{Resource: "replicasets", Namespace: clientNamespace, Name: "holdfast-controller-5d"},
		kubeapi.Object{"metadata": fields{"ownerReferences": owner("Deployment", "holdfast-controller")}})
	pod := kubeapi.Ref{Resource: "pods", Namespace: clientNamespace, Name: "holdfast-controller"}
	made := k.create(t, pod, kubeapi.Object{"metadata": fields{"ownerReferences": owner("ReplicaSet", "holdfast-controller-5d")}})
	require.NoError(t, k.api.UpdateStatus(pod, func(o kubeapi.Object) { o["status"] = fields{"podIP": "127.0.0.1"} }))
	socket := filepath.Join(t.TempDir(), "csi.sock")
	require.NoError(t, k.x.cluster.ForwardController(k.guestIndex(), socket))
	k.run(t, "sidecar", "--csi-addons-address=unix://"+socket, "--node-id="+k.node(), "--controller-port="+k.port, "--pod="+pod.Name,
		"--namespace="+clientNamespace, "--pod-uid="+made.Text("metadata", "uid"), "--leader-election-namespace="+clientNamespace)
}

func (k *siteKubernetes) guestIndex() int { return k.x.guest(k.node()).Index }

// registration is the object that the sidecar makes.
func (k *siteKubernetes) registration() kubeapi.Ref {
	return kubeapi.Ref{Resource: "csiaddonsnodes", Namespace: clientNamespace, Name: k.node() + "-" + clientNamespace + "-deployment-holdfast-controller"}
}

// run starts a program until the test ends.
func (k *siteKubernetes) run(t *testing.T, name string, args ...string) {
	t.Helper()
	program, err := k.clients.Path(name)
	require.NoError(t, err)
	p, err := k.account.Start((*exec.Cmd).Start, filepath.Join(t.TempDir(), name+".log"), program, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("%s of site %s:\n%s", name, k.name, p.Tail())
		}
	})
}

func (k *siteKubernetes) create(t *testing.T, ref kubeapi.Ref, o kubeapi.Object) kubeapi.Object {
	t.Helper()
	made, err := k.api.Create(ref, o)
	require.NoError(t, err)
	return made
}

// await waits until an object is as the condition wants it.
func (k *siteKubernetes) await(t *testing.T, ref kubeapi.Ref, what string, holds func(kubeapi.Object) bool) kubeapi.Object {
	t.Helper()
	var o kubeapi.Object
	eventually(t, clientTimeout, what+" at site "+k.name, func(context.Context) (err error) {
		if o, err = k.api.Get(ref); err == nil && !holds(o) {
			err = fmt.Errorf("it says %v", o["status"])
		}
		return err
	})
	return o
}

// clientTimeout is for what the manager does: it looks at a secondary each 15 s and at a resynchronisation each 30 s, and waits
// longer after each call that failed.
const clientTimeout = 2 * timeout

// withSecret names a Secret in the parameters of a class: the sidecar makes no call without one, whether the driver wants it or
// not.
func withSecret(key string, parameters fields) fields {
	parameters["replication.storage.openshift.io/"+key+"name"] = "holdfast"
	parameters["replication.storage.openshift.io/"+key+"namespace"] = clientNamespace
	return parameters
}

// createClasses makes the classes of a site.
func (k *siteKubernetes) createClasses(t *testing.T) {
	t.Helper()
	k.create(t, kubeapi.Ref{Resource: "secrets", Namespace: clientNamespace, Name: "holdfast"}, kubeapi.Object{"data": fields{}})
	k.create(t, kubeapi.Ref{Resource: "volumereplicationclasses", Name: "sites"}, kubeapi.Object{"spec": fields{"provisioner": driverName,
		"parameters": withSecret("replication-secret-", fields{"site": k.name, "peerSite": k.peer, "schedulingInterval": "1m"})}})
	k.create(t, kubeapi.Ref{Resource: "volumegroupreplicationclasses", Name: "sites"}, kubeapi.Object{"spec": fields{"provisioner": driverName,
		"parameters": withSecret("group-replication-secret-", fields{"site": k.name})}})
}

// claim makes the objects that the site's orchestrator has of a volume.
func (k *siteKubernetes) claim(t *testing.T, v *volume, labels fields) {
	t.Helper()
	k.create(t, kubeapi.Ref{Resource: "persistentvolumes", Name: v.name}, kubeapi.Object{"spec": fields{
		"accessModes": []any{"ReadWriteOnce"}, "volumeMode": "Block", "csi": fields{"driver": driverName, "volumeHandle": v.id}}})
	claim := k.claimOf(v)
	k.create(t, claim, kubeapi.Object{"metadata": fields{"labels": labels}, "spec": fields{"volumeName": v.name, "volumeMode": "Block", "storageClassName": ""}})
	require.NoError(t, k.api.UpdateStatus(claim, func(o kubeapi.Object) { o["status"] = fields{"phase": "Bound"} }))
}

func (k *siteKubernetes) claimOf(v *volume) kubeapi.Ref {
	return kubeapi.Ref{Resource: "persistentvolumeclaims", Namespace: shopNamespace, Name: v.name}
}

// managed is a VolumeReplication or a VolumeGroupReplication, of the same name at both sites.
type managed struct {
	ref kubeapi.Ref
	// vr is the resource whose status has what the calls said: of a group, the manager makes a VolumeReplication.
	spec fields
}

// want has a site's manager make the object's source primary, secondary or resync; the object is made where it is not there.
func (k *siteKubernetes) want(t *testing.T, m managed, state string) {
	t.Helper()
	if _, err := k.api.Get(m.ref); err != nil {
		spec := fields{"replicationState": state, "autoResync": false}
		for key, value := range m.spec {
			spec[key] = value
		}
		k.create(t, m.ref, kubeapi.Object{"spec": spec})
		return
	}
	require.NoError(t, k.api.Update(m.ref, func(o kubeapi.Object) { o.Get("spec").(fields)["replicationState"] = state }))
}

// becomes waits until the object says that it is in a state, by its present wish.
func (k *siteKubernetes) becomes(t *testing.T, m managed, state, message string) kubeapi.Object {
	t.Helper()
	return k.await(t, m.ref, m.ref.Name+" to become "+state, func(o kubeapi.Object) bool {
		return o.Text("status", "state") == state && o.Text("status", "message") == message && o.Get("status", "observedGeneration") == o.Get("metadata", "generation")
	})
}

// What the manager says of a source.
const (
	saysPrimary   = "volume is marked primary"
	saysSecondary = "volume is marked secondary"
	saysResync    = "volume is marked for resyncing"
	saysDegraded  = "volume is degraded"
)

// condition is a condition of a VolumeReplication.
func condition(o kubeapi.Object, kind string) (status, reason, message string) {
	all, _ := o.Get("status", "conditions").([]any)
	for _, one := range all {
		if c, ok := one.(fields); ok && kubeapi.Object(c).Text("type") == kind {
			return kubeapi.Object(c).Text("status"), kubeapi.Object(c).Text("reason"), kubeapi.Object(c).Text("message")
		}
	}
	return "", "", ""
}

// remove deletes the object, and waits until the manager let it go.
func (k *siteKubernetes) remove(t *testing.T, m managed) {
	t.Helper()
	require.NoError(t, k.api.Delete(m.ref))
	eventually(t, clientTimeout, m.ref.Name+" to be gone at site "+k.name, func(context.Context) error {
		if o, err := k.api.Get(m.ref); err == nil {
			return fmt.Errorf("it says %v", o["status"])
		}
		return nil
	})
}
