package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// StartControlPlane starts the machine with the control plane and its programs. It does not wait for them: they answer in the network of
// that machine only, which Enter leads into.
func (c Config) StartControlPlane(ctx context.Context) error {
	if missing := c.Missing(); len(missing) > 0 {
		return fmt.Errorf("programs are missing in %s: %s; jepsen/kubernetes/binaries.sh builds them", c.Programs, strings.Join(missing, ", "))
	}
	if err := c.checkVersion(); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(c.Dir, 0o755), os.WriteFile(c.versionFile(), []byte(c.Version), 0o644)); err != nil {
		return err
	}
	if err := c.makeSecrets(); err != nil {
		return fmt.Errorf("make the cluster's certificates: %w", err)
	}
	control := c.ControlPlane()
	control.Files = c.controlFiles()
	control.Kept = []string{"/var/lib/etcd"}
	if err := machine.Start(ctx, control); err != nil {
		return err
	}
	if err := control.MakeSwitch(ctx, Control+"/24"); err != nil {
		return err
	}
	for network, via := range c.routes(0) {
		if err := control.Route(ctx, network, via); err != nil {
			return err
		}
	}
	return machine.Run(control, c.controlUnits()...)
}

// StartNode starts the machine of a node, gives it the images of the archives, and returns when kubelet was told to run.
func (c Config) StartNode(ctx context.Context, number int) error {
	node, err := c.startMachine(ctx, number)
	if err != nil {
		return err
	}
	// A node that was complete has its images on its disk, and its programs run already.
	complete := filepath.Join(node.Folder(), "complete")
	if _, err := os.Stat(complete); err == nil {
		return nil
	}
	units := c.nodeUnits(number)
	if err := machine.Run(node, units[0]); err != nil {
		return err
	}
	if err := c.importImages(ctx, node); err != nil {
		return err
	}
	if err := machine.Run(node, units...); err != nil {
		return err
	}
	return os.WriteFile(complete, nil, 0o644)
}

// startMachine starts a node's machine, and boots its kernel where it has one of its own.
func (c Config) startMachine(ctx context.Context, number int) (machine.Config, error) {
	if c.IsGuest(number) {
		return c.bootGuest(ctx, number)
	}
	node := c.Node(number)
	if err := machine.Start(ctx, node); err != nil {
		return node, err
	}
	if err := node.Plug(ctx, c.ControlPlane(), address(number)+"/24", Control); err != nil {
		return node, err
	}
	for network, via := range c.routes(number) {
		if err := node.Route(ctx, network, via); err != nil {
			return node, err
		}
	}
	return node, nil
}

func (c Config) bootGuest(ctx context.Context, number int) (machine.Config, error) {
	node, err := c.Guest(number)
	if err != nil {
		return node, err
	}
	if err := machine.Start(ctx, node); err != nil {
		return node, err
	}
	if err := node.PlugGuest(ctx, c.ControlPlane()); err != nil {
		return node, err
	}
	return node, node.Boot(ctx)
}

func (c Config) importImages(ctx context.Context, node machine.Config) error {
	if err := wait(ctx, time.Minute, func() error {
		_, err := node.Exec(ctx, "ctr", "--address", containerd, "version")
		return err
	}); err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	for _, archive := range c.Archives {
		if err := c.Import(ctx, node, archive); err != nil {
			return err
		}
	}
	return nil
}

// Import gives a node the images of an archive.
func (c Config) Import(ctx context.Context, node machine.Config, archive string) error {
	_, err := node.Exec(ctx, "ctr", "--address", containerd, "-n", "k8s.io", "images", "import", "--all-platforms", archive)
	return err
}

// Client is one of the API server, for a process in the control plane's network.
func (c Config) Client() (kubernetes.Interface, error) {
	rest, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig("admin"))
	if err != nil {
		return nil, err
	}
	rest.QPS, rest.Burst = 200, 400
	return kubernetes.NewForConfig(rest)
}

// WaitServing returns when the API server is ready and its users have their rights.
func (c Config) WaitServing(ctx context.Context, within time.Duration) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return wait(ctx, within, func() error {
		if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return err
		}
		return allowDNS(ctx, client)
	})
}

// allowDNS lets the name server read services; the rights of the others are built in.
func allowDNS(ctx context.Context, client kubernetes.Interface) error {
	read := []string{"list", "watch"}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "coredns"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services", "pods", "namespaces"}, Verbs: read},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		},
	}, metav1.CreateOptions{})
	_, bound := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "coredns"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "coredns"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "coredns"}},
	}, metav1.CreateOptions{})
	return errors.Join(unlessThere(err), unlessThere(bound))
}

func unlessThere(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// WaitNodes returns when all nodes that start with the cluster are ready.
func (c Config) WaitNodes(ctx context.Context, within time.Duration) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return wait(ctx, within, func() error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for _, n := range nodes.Items {
			if Ready(n) {
				ready++
			}
		}
		if ready < c.Started() {
			return fmt.Errorf("%d of %d nodes are ready", ready, c.Started())
		}
		return nil
	})
}

// Ready tells a node that takes pods.
func Ready(n corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// wait asks until it is answered without an error, and returns the last error when that takes too long.
func wait(ctx context.Context, within time.Duration, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", within, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
