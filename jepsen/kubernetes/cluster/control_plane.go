package cluster

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
)

// controlUnits are the programs of the control plane.
func (c Config) controlUnits() []machine.Unit {
	units := []machine.Unit{c.etcd(), c.apiServer(), c.controllerManager(), c.scheduler(), c.dns()}
	if c.Guests > 0 {
		units = append(units, c.proxy(NodeName(1))) // for the guests; there is no node of its own
	}
	return units
}

func (c Config) etcd() machine.Unit {
	return machine.Unit{Name: "etcd", Args: []string{
		c.Program("etcd", etcdVersion), "--data-dir=/var/lib/etcd", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380",
		// What is proven is not etcd's durability, and the one disk of this host is shared by all nodes.
		"--unsafe-no-fsync",
	}}
}

func (c Config) apiServer() machine.Unit {
	return machine.Unit{Name: "kube-apiserver", Args: []string{
		c.kubernetes("kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=" + Control, "--advertise-address=" + Control, "--secure-port=6443",
		"--tls-cert-file=" + c.pki("apiserver.crt"), "--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--kubelet-client-certificate=" + c.pki("apiserver-kubelet-client.crt"), "--kubelet-client-key=" + c.pki("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + c.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc." + clusterDomain,
		"--service-account-key-file=" + c.pki("service-account.key"), "--service-account-signing-key-file=" + c.pki("service-account.key"),
		"--service-cluster-ip-range=" + services,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--requestheader-client-ca-file=" + c.pki("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy-client.crt"), "--proxy-client-key-file=" + c.pki("front-proxy-client.key"),
	}}
}

func (c Config) controllerManager() machine.Unit {
	return machine.Unit{Name: "kube-controller-manager", Args: []string{
		c.kubernetes("kube-controller-manager"),
		"--kubeconfig=" + c.Kubeconfig("controller-manager"), "--bind-address=127.0.0.1", "--leader-elect=false",
		"--authentication-kubeconfig=" + c.Kubeconfig("controller-manager"), "--authorization-kubeconfig=" + c.Kubeconfig("controller-manager"),
		"--root-ca-file=" + c.pki("ca.crt"), "--service-account-private-key-file=" + c.pki("service-account.key"),
		"--cluster-signing-cert-file=" + c.pki("ca.crt"), "--cluster-signing-key-file=" + c.pki("ca.key"),
		"--use-service-account-credentials=true",
	}}
}

func (c Config) scheduler() machine.Unit {
	return machine.Unit{Name: "kube-scheduler", Args: []string{
		c.kubernetes("kube-scheduler"), "--kubeconfig=" + c.Kubeconfig("scheduler"), "--bind-address=127.0.0.1", "--leader-elect=false",
		"--authentication-kubeconfig=" + c.Kubeconfig("scheduler"), "--authorization-kubeconfig=" + c.Kubeconfig("scheduler"),
	}}
}

func (c Config) dns() machine.Unit {
	return machine.Unit{Name: "coredns", Args: []string{c.Program("coredns", corednsVersion), "-conf", "/etc/coredns/Corefile"}}
}

// snapshotterVersion is that of the snapshot controller.
const snapshotterVersion = "v8.7.0"

// RunSnapshotController has the control plane run the controller of snapshots, whose CRDs must be there.
func (c Config) RunSnapshotController() error {
	return machine.Add(c.ControlPlane(), machine.Unit{Name: "snapshot-controller", Args: []string{
		c.Program("snapshot-controller", snapshotterVersion), "--kubeconfig=" + c.Kubeconfig("admin"),
		"--feature-gates=CSIVolumeGroupSnapshot=true", "--kube-api-qps=100", "--kube-api-burst=200",
	}})
}

// controlFiles are the files of the machine with the control plane.
func (c Config) controlFiles() map[string]string {
	return map[string]string{
		"/etc/hosts": hosts(c.all()),
		// Answers must come back this way, from whichever node they are.
		"/etc/kubernetes/kube-proxy.yaml": fmt.Sprintf(proxyConfig, c.Kubeconfig("proxy"), podsOfAllNodes, true),
		"/etc/coredns/Corefile": fmt.Sprintf(`.:53 {
  bind %s
  errors
  kubernetes %s in-addr.arpa {
    kubeconfig %s
    pods insecure
    ttl 5
  }
  hosts {
    fallthrough
  }
  cache 5
}
`, Control, clusterDomain, c.Kubeconfig("coredns")),
	}
}
