package stories

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

func controllerName(number int) string { return fmt.Sprintf("holdfast-controller-%d", number) }

// controllerFolder is where a controller's node keeps its data.
func controllerFolder(number int) string {
	return "/var/lib/holdfast/controllers/" + controllerName(number)
}

// machineOf is the machine of a node.
func machineOf(t *story.Teller, node string) (machine.Config, error) {
	for n := 1; n <= t.Cluster.Nodes; n++ {
		if cluster.NodeName(n) == node {
			return t.Cluster.Node(n), nil
		}
	}
	return machine.Config{}, fmt.Errorf("%q is no node of this cluster", node)
}

// loseDisk removes all data of a controller under it and kills it, as a disk that dies does, and returns the controller's machine.
func loseDisk(ctx context.Context, t *story.Teller, number int) (machine.Config, error) {
	in := t.In(namespace)
	pod, err := in.Get(ctx, "pods", controllerName(number))
	if err != nil {
		return machine.Config{}, err
	}
	host, err := machineOf(t, kit.Text(pod, "spec", "nodeName"))
	if err != nil {
		return host, err
	}
	founded := controllerFolder(number) + "/controller/kube-init.json"
	if _, err := host.Exec(ctx, "test", "-s", founded); err != nil {
		return host, fmt.Errorf("the controller's data are not where the chart should have put them: no %s: %w", founded, err)
	}
	// What is in use is removed as well. Kubelet starts the container again at once, in the empty folder.
	empty := `rm -rf "$1"/* && test -z "$(ls "$1/controller" 2>/dev/null)"`
	lose := func() error {
		_, err := host.Exec(ctx, "sh", "-c", empty, "sh", controllerFolder(number))
		return err
	}
	if err := kit.Until(ctx, 10*time.Second, lose); err != nil {
		return host, fmt.Errorf("remove the controller's data: %w", err)
	}
	if _, err := host.Signal("holdfast controller", syscall.SIGKILL); err != nil {
		return host, err
	}
	return host, kit.Until(ctx, 10*time.Second, lose)
}
