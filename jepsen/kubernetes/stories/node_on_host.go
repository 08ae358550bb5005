package stories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var nodesOnHosts = story.Story{
	Name: "node-on-host", Tells: "under a pod that writes, the chart's DaemonSet gives way to the program on the hosts, by the page's commands: volumes are adopted and grow, a host without a certificate joins by a token, the program is killed; then the pods come back",
	Limit: 30 * time.Minute, Tell: tellNodeOnHost, Needs: bySharedKernel,
}

// bySharedKernel says why a story cannot be told that changes what all hosts run.
func bySharedKernel(ctx context.Context, t *story.Teller) error {
	if t.Cluster.Guests > 0 {
		return errors.New("it is told where all nodes have the host's kernel")
	}
	return byHelm(ctx, t)
}

// The commands of deploy/OPERATIONS.md for hosts that run the node by systemd: in an empty folder of one's own, and on each host beside
// what they made, but for systemctl, in whose place a machine has its units.
const (
	filesForHosts = `kubectl -n holdfast get configmap holdfast-node -o go-template='{{index .data "node.yaml"}}' >node.yaml
kubectl -n holdfast get services -l app.kubernetes.io/component=controller-for-hosts \
  -o go-template='{{range .items}}{{.spec.clusterIP}} {{.metadata.name}}.holdfast-controller.holdfast.svc{{"\n"}}{{end}}' >hosts`
	tokenForHost = `(umask 077; kubectl holdfast tokens create --role node --name $NODE --yes >token)`
	onHost       = `cat hosts >>/etc/hosts
install -D -m 0644 node.yaml /etc/holdfast/node.yaml
install -D -m 0600 token /etc/holdfast/node/token`
	offHost = `sed -i /holdfast-controller/d /etc/hosts`
)

// nodeCertificate is where a node has its certificate, in a pod and without.
const nodeCertificate = "/var/lib/holdfast/tls-node"

func tellNodeOnHost(ctx context.Context, t *story.Teller) (err error) {
	writer := claim{name: "writer", class: xfs, size: "1Gi"}
	if err := start(ctx, t, writer, pod{name: "writer", node: cluster.NodeName(2), command: writeOn}); err != nil {
		return err
	}
	defer func() {
		if err != nil { // the stories after this one are told of pods
			err = errors.Join(err, hostsGiveUp(ctx, t), helmInstall(ctx, t))
		}
	}()
	return all(
		func() error {
			return t.Time("helm upgrade to node.mode host, to the end of the last node's pod", func() error { return noNodePods(ctx, t) })
		},
		func() error { return writesOn(ctx, t, "writer") },
		func() error {
			return t.Time("page's commands for all hosts, to the driver on every node", func() error { return hostsTakeOver(ctx, t) })
		},
		func() error { return errors.Join(writesOn(ctx, t, "writer"), servedByHosts(ctx, t)) },
		func() error {
			return t.Time("page's commands for the way back, to the driver on every node", func() error { return podsTakeOver(ctx, t) })
		},
		func() error {
			return errors.Join(writesOn(ctx, t, "writer"), writerOn(ctx, t, "back", cluster.NodeName(2)))
		},
		func() error { return removeAll(ctx, t, "pods", "pvc") },
		func() error { return noHostFiles(ctx, t) },
	)
}

// noNodePods has the chart run no nodes, and waits until the last of their pods has ended.
func noNodePods(ctx context.Context, t *story.Teller) error {
	if err := helmUpgrade(ctx, t, "--set", "node.mode=host"); err != nil {
		return err
	}
	return kit.Until(ctx, patience, func() error {
		pods, err := t.In(namespace).List(ctx, "pods", "app.kubernetes.io/component=node")
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods of nodes are left", len(pods))
		}
		return err
	})
}

// hostsTakeOver starts the program on each host. The last of them has no certificate, as one that is new.
func hostsTakeOver(ctx context.Context, t *story.Teller) (err error) {
	folder := filepath.Join(t.Cluster.Dir, "for-hosts")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }() // there is a token in it
	last := t.Cluster.Node(t.Cluster.Nodes)
	if _, err := last.Exec(ctx, "rm", "-r", nodeCertificate); err != nil {
		return err
	}
	if _, err := page(ctx, t, "cd "+folder+"\n"+filesForHosts); err != nil {
		return err
	}
	for n := 1; n <= t.Cluster.Nodes; n++ {
		if err := hostTakesOver(ctx, t, folder, t.Cluster.Node(n)); err != nil {
			return err
		}
	}
	return offered(ctx, t)
}

func hostTakesOver(ctx context.Context, t *story.Teller, folder string, host machine.Config) error {
	if _, err := page(ctx, t, "cd "+folder+"\nNODE="+host.Name+"\n"+tokenForHost); err != nil {
		return err
	}
	if _, err := host.Exec(ctx, "sh", "-ec", "cd "+folder+"\n"+onHost); err != nil {
		return err
	}
	return machine.Add(host, machine.Unit{Name: "holdfast-node", Args: within("/run/holdfast", t.Settings.Holdfast, "node", "--config", "/etc/holdfast/node.yaml")})
}

// servedByHosts is what a user does with the cluster then.
func servedByHosts(ctx context.Context, t *story.Teller) error {
	return all(
		func() error { return joinedByToken(ctx, t) },
		func() error {
			return t.Time("claim and pod to Ready on the host that joined", func() error { return writerOn(ctx, t, "joined", cluster.NodeName(t.Cluster.Nodes)) })
		},
		func() error {
			return t.Time("1 to 3 GiB of a volume from before in the claim's status (kubelet looks at a pod every minute or so)", func() error { return grows(ctx, t, "writer") })
		},
		func() error {
			return t.Time("program killed to another pod Ready there", func() error { return killedOnHost(ctx, t, t.Cluster.Node(2)) })
		},
		func() error { return errors.Join(writesOn(ctx, t, "writer"), writesOn(ctx, t, "joined")) },
	)
}

// joinedByToken wants the last host to have used its token, and no other host one: they have certificates.
func joinedByToken(ctx context.Context, t *story.Teller) error {
	var used struct{ Tokens []struct{ Name string } }
	if err := ask(ctx, t, &used, "tokens", "list", "--condition", "used", "--role", "node"); err != nil {
		return err
	}
	for _, token := range used.Tokens {
		if token.Name != cluster.NodeName(t.Cluster.Nodes) {
			return fmt.Errorf("%s used a token, and had a certificate", token.Name)
		}
	}
	if len(used.Tokens) == 0 {
		return errors.New("no host used a token, and one had no certificate")
	}
	return nil
}

// grows has a claim of 1 GiB grow to 3 while its pod, of the same name, writes.
func grows(ctx context.Context, t *story.Teller, name string) error {
	return all(
		func() error {
			return t.Patch(ctx, "persistentvolumeclaims", name, `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`)
		},
		func() error {
			return t.Wait(ctx, patience, "persistentvolumeclaims", name, fieldIs("3Gi", "status", "capacity", "storage"))
		},
		func() error { return expect(ctx, t, name, "df -m /data | awk 'NR==2 {print ($2 > 2500)}'", "1") },
	)
}

func killedOnHost(ctx context.Context, t *story.Teller, host machine.Config) error {
	killed, err := host.Signal("holdfast node", syscall.SIGKILL)
	if err == nil && killed != 1 {
		err = fmt.Errorf("%d processes of the node were killed on %s, not one", killed, host.Name)
	}
	return errors.Join(err, writerOn(ctx, t, "after-kill", host.Name))
}

// podsTakeOver ends the programs on the hosts, and has the chart run nodes again.
func podsTakeOver(ctx context.Context, t *story.Teller) error {
	return all(func() error { return hostsGiveUp(ctx, t) }, func() error { return helmInstall(ctx, t) })
}

// hostsGiveUp ends the program on each host, whether it runs or not.
func hostsGiveUp(ctx context.Context, t *story.Teller) (failed error) {
	for n := 1; n <= t.Cluster.Nodes; n++ {
		host := t.Cluster.Node(n)
		failed = errors.Join(failed, machine.Drop(host, "holdfast-node"))
		_, err := host.Exec(ctx, "sh", "-ec", offHost+"\nrm -rf /etc/holdfast/node.yaml /etc/holdfast/node")
		failed = errors.Join(failed, err)
	}
	return failed
}

// noHostFiles wants nothing of the other mode in the cluster, nor on the hosts.
func noHostFiles(ctx context.Context, t *story.Teller) error {
	left, err := t.In(namespace).Kubectl(ctx, "get", "services,configmaps", "-o", "name")
	if err != nil {
		return err
	}
	for _, name := range []string{"configmap/holdfast-node", "service/holdfast-controller-"} {
		if strings.Contains(left, name) {
			return fmt.Errorf("the chart left %s", name)
		}
	}
	for n := 1; n <= t.Cluster.Nodes; n++ {
		if _, err := t.Cluster.Node(n).Exec(ctx, "sh", "-c", "test ! -e /run/holdfast/node.sock && ! grep holdfast-controller /etc/hosts"); err != nil {
			return fmt.Errorf("the program on the host left something: %w", err)
		}
	}
	return nil
}
