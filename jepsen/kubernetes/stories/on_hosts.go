package stories

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// csiSocket is where the one controller of an installation on hosts serves CSI.
const csiSocket = "/run/holdfast/csi.sock"

// objectsOnHosts are what the chart makes of objects that stories need.
const objectsOnHosts = `apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: csi.holdfast.storage}
spec: {attachRequired: true, podInfoOnMount: false, fsGroupPolicy: File, storageCapacity: true, volumeLifecycleModes: [Persistent]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: holdfast-local}
provisioner: csi.holdfast.storage
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: holdfast-xfs}
provisioner: csi.holdfast.storage
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
parameters: {fsType: xfs}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: holdfast-restore}
provisioner: csi.holdfast.storage
volumeBindingMode: Immediate
allowVolumeExpansion: true
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: silver}
driverName: csi.holdfast.storage
parameters: {iopsLimit: "1000"}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: csi.holdfast.storage
parameters: {iopsLimit: "5000"}
---
`

// classesOnHosts need the CRDs of snapshots.
const classesOnHosts = `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: holdfast}
driver: csi.holdfast.storage
deletionPolicy: Delete
---
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshotClass
metadata: {name: holdfast}
driver: csi.holdfast.storage
deletionPolicy: Delete
---
`

// installOnHosts runs one controller and its sidecars beside the API server and the node program on every node, all outside of pods.
func installOnHosts(ctx context.Context, t *story.Teller) error {
	if err := issueAll(ctx, t); err != nil {
		return err
	}
	if err := machine.Add(t.Cluster.ControlPlane(), append(sidecarsOnHosts(t), controllerOnHosts(t))...); err != nil {
		return err
	}
	for n := 1; n <= t.Cluster.Nodes; n++ {
		if err := machine.Add(t.Cluster.Node(n), nodeOnHost(t, cluster.NodeName(n))); err != nil {
			return err
		}
	}
	if err := t.Apply(ctx, objectsOnHosts); err != nil {
		return err
	}
	if _, err := t.Get(ctx, "customresourcedefinitions", "volumesnapshots.snapshot.storage.k8s.io"); err == nil {
		if err := t.Apply(ctx, classesOnHosts); err != nil {
			return err
		}
	}
	return offered(ctx, t)
}

func tlsFolder(t *story.Teller, name string) string { return filepath.Join(t.Cluster.Dir, "tls", name) }

// issueAll makes a CA and the certificates of the controller and the nodes, unless they are there.
func issueAll(ctx context.Context, t *story.Teller) error {
	if _, err := os.Stat(tlsFolder(t, "complete")); err == nil {
		return nil
	}
	ca := tlsFolder(t, "ca")
	run := func(args ...string) error {
		if out, err := exec.CommandContext(ctx, t.Settings.Holdfast, append([]string{"ca"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	if err := run("make", "--ca-dir", ca, "--cluster", "holdfast"); err != nil {
		return err
	}
	if err := run("issue", "--ca-dir", ca, "--out", tlsFolder(t, "c1"), "--role", "controller", "--name", "c1"); err != nil {
		return err
	}
	for n := 1; n <= t.Cluster.Nodes; n++ {
		name := cluster.NodeName(n)
		if err := run("issue", "--ca-dir", ca, "--out", tlsFolder(t, name), "--role", "node", "--name", name); err != nil {
			return err
		}
	}
	return os.WriteFile(tlsFolder(t, "complete"), nil, 0o600)
}

func certificate(t *story.Teller, role, name string) []string {
	base := filepath.Join(tlsFolder(t, name), role+"-"+name)
	return []string{"--cert=" + base + ".crt", "--key=" + base + ".key", "--ca=" + filepath.Join(tlsFolder(t, name), "ca.crt")}
}

// within runs a program whose socket's folder is made first, as systemd would.
func within(folder string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", `mkdir -p "$1" && shift && exec "$@"`, "sh", folder}, args...)
}

func controllerOnHosts(t *story.Teller) machine.Unit {
	return machine.Unit{Name: "holdfast-controller", Args: append(within(filepath.Dir(csiSocket),
		t.Settings.Holdfast, "controller", "--name=c1", "--bootstrap", "--csi-endpoint=unix://"+csiSocket,
		"--raft-listen="+cluster.Control+":9800", "--api-listen="+cluster.Control+":9802", "--metrics-listen=127.0.0.1:9801",
	), certificate(t, "controller", "c1")...)}
}

func nodeOnHost(t *story.Teller, name string) machine.Unit {
	return machine.Unit{Name: "holdfast-node", Args: append(within("/var/lib/kubelet/plugins/"+driver,
		t.Settings.Holdfast, "node", "--node-id="+name, "--endpoints="+cluster.Control+":9802", "--metrics-listen=127.0.0.1:9811",
		"--csi-endpoint=unix:///var/lib/kubelet/plugins/"+driver+"/csi.sock",
		"--kubelet-registration=/var/lib/kubelet/plugins_registry/"+driver+"-reg.sock", "--io-cgroup=kubepods",
	), certificate(t, "node", name)...)}
}

// sidecarsOnHosts are those whose programs are there.
func sidecarsOnHosts(t *story.Teller) []machine.Unit {
	more := map[string][]string{
		"csi-provisioner": {"--worker-threads=20", "--extra-create-metadata", "--enable-capacity", "--capacity-ownerref-level=-1", "--capacity-poll-interval=15s", "--default-fstype=ext4"},
		"csi-attacher":    {"--worker-threads=100"},
		"csi-resizer":     {"--workers=100"},
		"csi-snapshotter": {"--worker-threads=100", "--feature-gates=CSIVolumeGroupSnapshot=true"},
	}
	var units []machine.Unit
	for name, args := range more {
		program := t.Cluster.Program(name, cluster.Sidecars[name])
		if _, err := os.Stat(program); err != nil {
			continue
		}
		units = append(units, machine.Unit{Name: name, Env: []string{"NAMESPACE=kube-system"}, Args: append([]string{
			program, "--csi-address=" + csiSocket, "--kubeconfig=" + t.Cluster.Kubeconfig("admin"), "--timeout=60s",
			"--kube-api-qps=200", "--kube-api-burst=400",
		}, args...)})
	}
	return units
}
