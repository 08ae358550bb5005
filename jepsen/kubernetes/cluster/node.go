package cluster

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
)

// PauseImage holds the namespaces of a pod.
const PauseImage = "registry.k8s.io/pause:3.10.1"

const containerd = "/run/containerd/containerd.sock"

// nodeUnits are the programs of a node.
func (c Config) nodeUnits(number int) []machine.Unit {
	name := NodeName(number)
	units := []machine.Unit{
		{Name: "containerd", Args: []string{"/usr/bin/containerd", "--config", "/etc/containerd/config.toml"}},
		{Name: "kubelet", Args: []string{
			c.kubernetes("kubelet"), "--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=" + c.Kubeconfig(name),
			"--hostname-override=" + name, "--node-ip=" + address(number), "--v=2",
		}},
	}
	if !c.IsGuest(number) {
		units = append(units, c.proxy(name))
	}
	return units
}

// proxy is what leads to services. A guest has none: its kernel has no tables of nftables for IPv4. What is not for a node or its pods goes
// from there to the control plane, which has one for it.
func (c Config) proxy(node string) machine.Unit {
	return machine.Unit{Name: "kube-proxy", Args: []string{c.kubernetes("kube-proxy"), "--config=/etc/kubernetes/kube-proxy.yaml", "--hostname-override=" + node}}
}

// IsGuest tells the nodes with kernels of their own.
func (c Config) IsGuest(number int) bool { return number > c.Nodes && number <= c.Started() }

// nodeFiles are the files of a node that differ from the host's.
func (c Config) nodeFiles(number int) map[string]string {
	return map[string]string{
		"/etc/hosts":                       hosts(c.all()),
		"/etc/resolv.conf":                 "nameserver " + Control + "\n",
		"/etc/containerd/config.toml":      containerdConfig,
		"/etc/cni/net.d/10-pods.conflist":  fmt.Sprintf(network, pods(number)),
		"/etc/kubernetes/kubelet.yaml":     c.kubeletConfig(number),
		"/etc/kubernetes/kube-proxy.yaml":  fmt.Sprintf(proxyConfig, c.Kubeconfig("proxy"), podsOfAllNodes, false),
		"/etc/kubernetes/manifests/.empty": "",
		"/lib/modules/.empty":              "", // every host has this folder, but not one whose kernel has no modules
	}
}

const containerdConfig = `version = 2
[grpc]
  address = "` + containerd + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PauseImage + `"
  disable_apparmor = true
  # Not every host of such a cluster lets its root lower a process below its own score.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
`

// network has each pod connected by a cable of its own to its node, which forwards.
const network = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "mtu": 1500, "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %q}
mode: nftables
clusterCIDR: %q
nftables: {masqueradeAll: %t}
# The limits of connections are the whole host's.
conntrack: {maxPerCore: 0, min: 0, tcpCloseWaitTimeout: 0s, tcpEstablishedTimeout: 0s}
`

// StartupTaint is what nodes that join later begin with, as docs/install.md says, until Holdfast's loop takes it off.
const StartupTaint = "csi.holdfast.storage/agent-not-ready"

func (c Config) kubeletConfig(number int) string {
	name, taints := NodeName(number), ""
	if number > c.Started() {
		taints = "{key: " + StartupTaint + ", effect: NoExecute}"
	}
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
clusterDNS: [%s]
clusterDomain: %s
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: /etc/resolv.conf
staticPodPath: /etc/kubernetes/manifests
maxPods: 220
evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
imageGCHighThresholdPercent: 100
imageMaximumGCAge: 0s
registryPullQPS: 0
eventRecordQPS: 0
# The first pause of a container that ends is the usual one; the longer ones would be most of what is seen of programs that are killed.
crashLoopBackOff: {maxContainerRestartPeriod: 20s}
shutdownGracePeriod: 0s
registerWithTaints: [%s]
`, address(number), c.pki("ca.crt"), c.pki(name+".crt"), c.pki(name+".key"), Control, clusterDomain, containerd, taints)
}
