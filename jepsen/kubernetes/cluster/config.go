// Package cluster makes a Kubernetes cluster of machines (package machine) from programs that were built before.
package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
)

// Versions of the programs that are not Kubernetes' own.
const etcdVersion, corednsVersion = "v3.6.16", "v1.15.0"

// Sidecars are the programs beside a controller, in the versions that the chart names.
var Sidecars = map[string]string{
	"csi-provisioner": "v6.4.0", "csi-attacher": "v4.13.0", "csi-resizer": "v2.3.0", "csi-snapshotter": "v8.7.0",
}

// controlPlaneName is that of the machine with the control plane.
const controlPlaneName = "control-plane"

// Config is what a cluster is made of.
type Config struct {
	Dir      string // of the cluster: its machines and certificates
	Programs string // the folder with NAME-VERSION of each program
	Version  string // of Kubernetes
	Nodes    int
	// Guests are nodes after those, with kernels of their own.
	Guests int
	// Late are nodes after those, which nobody starts with the cluster: StartNode has them join, RemoveNode leave.
	Late     int
	PoolSize int64 // bytes of the disk at PoolAt on each node
	LatePool int64 // on each of those that join late
	// Archives are files with container images that each node gets.
	Archives []string
}

// PoolAt is where a node has the disk that is meant for volumes.
const PoolAt = "/var/lib/holdfast/pool"

// Program is the path of one of the built programs.
func (c Config) Program(name, version string) string {
	return filepath.Join(c.Programs, name+"-"+version)
}

// Missing are the programs of the cluster that were not built.
func (c Config) Missing() []string {
	var missing []string
	for _, p := range []string{
		c.kubernetes("kube-apiserver"), c.kubernetes("kube-controller-manager"), c.kubernetes("kube-scheduler"),
		c.kubernetes("kubelet"), c.kubernetes("kubectl"), c.kubernetes("kube-proxy"),
		c.Program("etcd", etcdVersion), c.Program("coredns", corednsVersion),
	} {
		if _, err := os.Stat(p); err != nil {
			missing = append(missing, filepath.Base(p))
		}
	}
	return missing
}

func (c Config) kubernetes(name string) string { return c.Program(name, c.Version) }

// pki is a file of the cluster's certificates.
func (c Config) pki(name string) string { return filepath.Join(c.Dir, "pki", name) }

// Kubeconfig is the file with which a program is the given user: admin may do everything.
func (c Config) Kubeconfig(user string) string { return c.pki(user + ".kubeconfig") }

// ControlPlane is the machine with the control plane.
func (c Config) ControlPlane() machine.Config {
	return machine.Config{Name: controlPlaneName, Dir: c.Dir}
}

// Node is the machine of the node with this number, which counts from one.
func (c Config) Node(number int) machine.Config {
	pool := c.PoolSize
	if number > c.Started() {
		pool = c.LatePool
	}
	return machine.Config{
		Name: NodeName(number), Dir: c.Dir,
		Kept:  []string{"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/holdfast", "/var/log/pods", "/opt"},
		Disks: []machine.Disk{{Name: "pool", Size: pool, At: PoolAt}},
		Files: c.nodeFiles(number),
	}
}

// Of a node with a kernel of its own: its memory, bytes, and a raw disk that it has for a pool of LVM.
const (
	guestMemory = 2 << 30
	RawDisk     = "raw"
	rawDiskSize = 8 << 30 // bytes; it is sparse
)

// Guest is the machine of a node with a kernel of its own.
func (c Config) Guest(number int) (machine.Config, error) {
	kernel, err := machine.InstalledKernel()
	kernel.Memory, kernel.Load = guestMemory, []string{"loop", "drbd", "dm-thin-pool", "dm-snapshot", "veth", "nf_tables"}
	kernel.Address, kernel.Gateway = address(number)+"/24", Control
	kernel.Routes = c.routes(number)
	node := c.Node(number)
	node.Kernel = &kernel
	node.Disks = append(node.Disks, machine.Disk{Name: RawDisk, Size: rawDiskSize})
	return node, err
}

// routes are the addresses of other nodes by the networks of their pods.
func (c Config) routes(number int) map[string]string {
	all := map[string]string{}
	for other := 1; other <= c.all(); other++ {
		if other != number {
			all[pods(other)] = address(other)
		}
	}
	return all
}

// Started is how many nodes start with the cluster, those with kernels of their own among them.
func (c Config) Started() int { return c.Nodes + c.Guests }

// all is how many nodes the cluster has certificates, names and routes for.
func (c Config) all() int { return c.Started() + c.Late }

// hosts is the content of /etc/hosts of all machines.
func hosts(nodes int) string {
	content := "127.0.0.1 localhost\n" + Control + " " + controlPlaneName + "\n"
	for n := 1; n <= nodes; n++ {
		content += fmt.Sprintf("%s %s\n", address(n), NodeName(n))
	}
	return content
}
