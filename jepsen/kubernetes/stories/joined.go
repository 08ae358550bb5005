package stories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var joined = []story.Story{
	{Name: "late-node", Tells: "a StatefulSet with late binding has one pod more than there are nodes; a node joins with the startup taint, and the pod runs there on a volume of that node as soon as the loop has taken it off; then the node leaves for good by the page's commands",
		Limit: 20 * time.Minute, Tell: tellLateNode, Needs: byLateNode},
	{Name: "pool-filled", Tells: "pods fill a pool until nothing more can be written: the node's event says so, what was written is whole and can be written over, and with room made a pod that is started again writes on",
		Limit: 20 * time.Minute, Tell: tellFilled, Needs: byLateNode},
}

// byLateNode says why a story with a node that joins cannot be told.
func byLateNode(ctx context.Context, t *story.Teller) error {
	if t.Cluster.Guests > 0 {
		return errors.New("nodes that join have the host's kernel: this is told where all have it")
	}
	return byHelm(ctx, t)
}

// lateNumber is the number of the first, or the second, node that joins. A name that left for good is not used again.
func lateNumber(t *story.Teller, which int) int { return t.Cluster.Started() + which }

// join starts a node, and waits until kubelet has the driver there.
func join(ctx context.Context, t *story.Teller, number int) error {
	if err := t.Cluster.StartNode(ctx, number); err != nil {
		return err
	}
	return t.Time("node's programs started to the driver there", func() error {
		return kit.Until(ctx, patience, func() error { return offers(ctx, t, cluster.NodeName(number)) })
	})
}

// started wants the loop to have taken the taint off with which a node joined.
func started(ctx context.Context, t *story.Teller, number int) error {
	return t.Time("driver there to the startup taint taken off", func() error {
		return kit.Until(ctx, patience, func() error {
			n, err := t.Client.CoreV1().Nodes().Get(ctx, cluster.NodeName(number), metav1.GetOptions{})
			if err == nil && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cluster.StartupTaint }) {
				err = fmt.Errorf("the node %s has the driver, and still the taint %s", n.Name, cluster.StartupTaint)
			}
			return err
		})
	})
}

// noneBeforeItsDriver wants no pod of the story to have been refused for a driver that kubelet did not know.
func noneBeforeItsDriver(ctx context.Context, t *story.Teller) error {
	events, err := t.Client.CoreV1().Events(t.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		if strings.Contains(e.Message, "not found in the list of registered CSI drivers") {
			return fmt.Errorf("%s: %s", e.InvolvedObject.Name, e.Message)
		}
	}
	return nil
}

// leave are the commands of RUNBOOKS.md for a host that is taken out of service, and Kubernetes' own for its node.
const leave = `kubectl drain %[1]s --ignore-daemonsets --delete-emptydir-data --force --timeout=5m
kubectl holdfast nodes evict %[1]s --host-id %[2]s --reason leaves --yes --wait
kubectl delete node %[1]s`

// leaves takes a node out of the cluster for good, and its machine away.
func leaves(ctx context.Context, t *story.Teller, number int) error {
	name := cluster.NodeName(number)
	id, err := hostOf(ctx, t, name)
	if err != nil {
		return err
	}
	return t.Time("node taken out for good", func() error {
		return all(
			func() error { return runPage(ctx, t, fmt.Sprintf(leave, name, id)) },
			func() error { return machine.Remove(t.Cluster.Node(number)) },
			func() error { return nodeIs(ctx, t, name, "unreachable") },
			func() error {
				return runPage(ctx, t, fmt.Sprintf("kubectl holdfast nodes lost %s --host-id %s --reason leaves --yes", name, id))
			},
			func() error { return nodeIs(ctx, t, name, "lost") },
		)
	})
}

// loggedNode is a node as the log has it.
type loggedNode struct {
	ID    string
	Host  string `json:"host_id"`
	State string
	Fence string // empty: there is none
}

func loggedNodeOf(ctx context.Context, t *story.Teller, name string) (loggedNode, error) {
	var answer struct{ Nodes []loggedNode }
	if err := ask(ctx, t, &answer, "nodes"); err != nil {
		return loggedNode{}, err
	}
	for _, n := range answer.Nodes {
		if n.ID == name {
			return n, nil
		}
	}
	return loggedNode{}, fmt.Errorf("the log knows no node %s", name)
}

func hostOf(ctx context.Context, t *story.Teller, name string) (string, error) {
	n, err := loggedNodeOf(ctx, t, name)
	return n.Host, err
}

func nodeIs(ctx context.Context, t *story.Teller, name, state string) error {
	return kit.Until(ctx, patience, func() error {
		n, err := loggedNodeOf(ctx, t, name)
		if err == nil && n.State != state {
			err = fmt.Errorf("the log has the node %s as %s, not %s", name, n.State, state)
		}
		return err
	})
}

// offers wants a node of Kubernetes to have the driver.
func offers(ctx context.Context, t *story.Teller, node string) error {
	found, err := t.Client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, d := range found.Spec.Drivers {
		if d.Name == driver {
			return nil
		}
	}
	return fmt.Errorf("the node %s does not offer the driver", node)
}

func tellLateNode(ctx context.Context, t *story.Teller) error {
	set, number := three("set"), lateNumber(t, 1)
	set.replicas = t.Cluster.Started() + 1
	return all(
		func() error { return t.Apply(ctx, set.manifest()) },
		func() error { return readyPods(ctx, t, set, set.replicas-1) },
		func() error { return oneWaits(ctx, t, set) },
		func() error { return join(ctx, t, number) },
		func() error { return started(ctx, t, number) },
		func() error {
			return t.Time("and to the last pod Ready", func() error { return readyPods(ctx, t, set, set.replicas) })
		},
		func() error { return errors.Join(onTheirHosts(ctx, t, set), noneBeforeItsDriver(ctx, t)) },
		func() error { return removeAll(ctx, t, "statefulsets", "pvc") },
		func() error { return leaves(ctx, t, number) },
	)
}

func readyPods(ctx context.Context, t *story.Teller, set statefulSet, want int) error {
	return t.Wait(ctx, patience, "statefulsets.apps", set.name, fieldIs(fmt.Sprint(want), "status", "readyReplicas"))
}

// oneWaits wants one pod of a set to find no node.
func oneWaits(ctx context.Context, t *story.Teller, set statefulSet) error {
	return kit.Until(ctx, patience, func() error {
		pods, err := t.List(ctx, "pods", "app="+set.name)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if unschedulable(&p) == "" {
				return nil
			}
		}
		return errors.New("every pod found a node")
	})
}

// onTheirHosts wants each pod of a set on a node of its own that has the pod's volume, and all to write.
func onTheirHosts(ctx context.Context, t *story.Teller, set statefulSet) error {
	hosts := map[string]bool{}
	for i := range set.replicas {
		pod := fmt.Sprintf("%s-%d", set.name, i)
		node, err := nodeOf(ctx, t, pod)
		if err != nil {
			return err
		}
		hosts[node] = true
		if err := errors.Join(volumeIsOn(ctx, t, "data-"+pod, node), writesOn(ctx, t, pod)); err != nil {
			return err
		}
	}
	if len(hosts) != set.replicas {
		return fmt.Errorf("the %d pods run on %d nodes", set.replicas, len(hosts))
	}
	return nil
}

// volumeIsOn wants the log to have a claim's volume on a node.
func volumeIsOn(ctx context.Context, t *story.Teller, claim, node string) error {
	handle, err := handleOf(ctx, t, claim)
	if err != nil {
		return err
	}
	var answer struct {
		Volumes []struct {
			ID       string
			Replicas []struct{ Node string }
		}
	}
	if err := ask(ctx, t, &answer, "volumes"); err != nil {
		return err
	}
	for _, v := range answer.Volumes {
		if v.ID == handle && len(v.Replicas) == 1 && v.Replicas[0].Node == node {
			return nil
		}
	}
	return fmt.Errorf("the log does not have the volume %s of the claim %s on %s alone", handle, claim, node)
}

// removeAll deletes everything of these resources, claims among them, and waits for the end of the claims' volumes.
func removeAll(ctx context.Context, t *story.Teller, resources ...string) error {
	for _, what := range resources {
		if _, err := t.Kubectl(ctx, "delete", what, "--all", "--wait=false"); err != nil {
			return err
		}
	}
	return kit.Until(ctx, patience, func() error { return noVolumes(ctx, t) })
}
