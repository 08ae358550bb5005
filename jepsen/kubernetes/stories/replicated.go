package stories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withReplicas is the chart's class of volumes with two replicas.
const withReplicas = "holdfast-replicated"

var replicated = []story.Story{
	{Name: "replicated", Tells: "a volume has two replicas, grows while its pod writes, and is where the pod goes when kubectl drains its node", Limit: 15 * time.Minute, Tell: tellReplicated, Needs: byReplicas},
	{Name: "failover", Tells: "the node of a pod with a replicated volume loses its power, and with it the controller that leads and the loop, and later the node of the pod after it, which has neither: each time the pod runs on the other node with all data, by a proof that Events name, and the node returns", Limit: 30 * time.Minute, Tell: tellFailover, Needs: byReplicas},
}

// byReplicas says why a story of replicated volumes cannot be told.
func byReplicas(ctx context.Context, t *story.Teller) error {
	if t.Cluster.Guests < 2 {
		return errors.New("no two nodes have kernels of their own with DRBD: give -guests 2")
	}
	return byHelm(ctx, t)
}

// database is a StatefulSet of one pod, which writes to a replicated volume on and on.
var database = statefulSet{name: "database", class: withReplicas, size: "256Mi", replicas: 1}

const databasePod, databaseClaim = "database-0", "data-database-0"

func tellReplicated(ctx context.Context, t *story.Teller) error {
	if err := t.Time("claim and pod to Ready", func() error { return startDatabase(ctx, t) }); err != nil {
		return err
	}
	w, err := whatIsWritten(ctx, t)
	if err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("256 to 512 MiB in the claim's status", func() error {
				if err := t.Patch(ctx, "persistentvolumeclaims", databaseClaim, `{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}`); err != nil {
					return err
				}
				return t.Wait(ctx, patience, "persistentvolumeclaims", databaseClaim, fieldIs("512Mi", "status", "capacity", "storage"))
			})
		},
		func() error { return writesOn(ctx, t, databasePod) },
		func() error {
			return t.Time("kubectl drain to the pod Ready on the other node", func() error {
				if _, err := t.Kubectl(ctx, "drain", w.node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=5m"); err != nil {
					return err
				}
				return w.elsewhere(ctx, t)
			})
		},
		func() error { _, err := t.Kubectl(ctx, "uncordon", w.node); return err },
	)
}

func startDatabase(ctx context.Context, t *story.Teller) error {
	if err := t.Apply(ctx, database.manifest()); err != nil {
		return err
	}
	return running(ctx, t, databasePod)
}

// startDatabaseOn starts it on one of the nodes with kernels of their own.
func startDatabaseOn(ctx context.Context, t *story.Teller, number int) (err error) {
	for n := t.Cluster.Nodes + 1; n <= t.Cluster.Started(); n++ {
		if n == number {
			continue
		}
		if _, err := t.Kubectl(ctx, "cordon", cluster.NodeName(n)); err != nil {
			return err
		}
		defer func() {
			_, uncordoned := t.Kubectl(ctx, "uncordon", cluster.NodeName(n))
			err = errors.Join(err, uncordoned)
		}()
	}
	return startDatabase(ctx, t)
}

func tellFailover(ctx context.Context, t *story.Teller) error {
	// The first node that is lost has a controller, which leads then, and the loop.
	if err := startDatabaseOn(ctx, t, t.Cluster.Nodes+1); err != nil {
		return err
	}
	for _, which := range []string{"first", "second"} {
		if err := loseItsNode(ctx, t, which); err != nil {
			return fmt.Errorf("the %s loss: %w", which, err)
		}
	}
	return nil
}

// loseItsNode has the node of the pod lose its power, and return.
func loseItsNode(ctx context.Context, t *story.Teller, which string) error {
	if err := errors.Join(controllersReady(ctx, t), guestsSettled(ctx, t)); err != nil {
		return err
	}
	w, err := whatIsWritten(ctx, t)
	if err != nil {
		return err
	}
	number, err := w.number(t)
	if err != nil {
		return err
	}
	host, err := t.Cluster.Guest(number)
	if err != nil {
		return err
	}
	leader, err := leadsFrom(ctx, t, w.node)
	if err != nil {
		return err
	}
	if leader {
		which += ", with the controller that leads and the loop"
	}
	return all(
		func() error { return kit.Sleep(ctx, 2*time.Second) },
		func() error {
			return t.Time(which+": power lost to the pod Ready on the other node, with all data", func() error {
				return errors.Join(machine.Stop(host), w.elsewhere(ctx, t))
			})
		},
		func() error { return nodeEventSays(ctx, t, w.node, w.volume+" generation") },
		func() error { return eventSays(ctx, t, databasePod, "is free for another node: log index") },
		func() error {
			return t.Time(which+": power back to the node in service, and both replicas up to date", func() error {
				return errors.Join(t.Cluster.StartNode(ctx, number), w.returned(ctx, t, host))
			})
		},
	)
}

// settling is how long a node with a kernel of its own is waited for at most.
const settling = 3 * time.Minute

// guestsSettled waits until the nodes with kernels of their own have started what runs there: each has one slow processor, in user mode, and one
// that was just booted is no measure of how long it takes to run one more pod. Where the whole machine is busy the story goes on, and says so.
func guestsSettled(ctx context.Context, t *story.Teller) error {
	for n := t.Cluster.Nodes + 1; n <= t.Cluster.Started(); n++ {
		host, err := t.Cluster.Guest(n)
		if err != nil {
			return err
		}
		var load string
		busy := kit.Until(ctx, settling, func() (err error) {
			load, err = host.Exec(ctx, "cat", "/proc/loadavg")
			if err == nil && load >= "1" { // of the last minute
				err = fmt.Errorf("%s has a load of %s", cluster.NodeName(n), load)
			}
			return err
		})
		if busy != nil {
			t.Note("the times are those of a busy machine: %v", busy)
		}
	}
	return ctx.Err()
}

// written is where the pod ran, on which volume, and what it had written durably there.
type written struct{ node, volume, sum, line string }

func whatIsWritten(ctx context.Context, t *story.Teller) (w written, err error) {
	pod, err := t.Get(ctx, "pods", databasePod)
	if err != nil {
		return w, err
	}
	w.node = kit.Text(pod, "spec", "nodeName")
	if w.volume, err = handleOf(ctx, t, databaseClaim); err != nil {
		return w, err
	}
	if w.sum, err = write(ctx, t, databasePod, "file-"+w.node); err != nil {
		return w, err
	}
	w.line, err = t.Exec(ctx, databasePod, "wc -l </data/lines")
	return w, err
}

// handleOf is the driver's name of a claim's volume.
func handleOf(ctx context.Context, t *story.Teller, claim string) (string, error) {
	c, err := t.Get(ctx, "persistentvolumeclaims", claim)
	if err != nil {
		return "", err
	}
	pv, err := t.Get(ctx, "persistentvolumes", kit.Text(c, "spec", "volumeName"))
	if err != nil {
		return "", err
	}
	return kit.Text(pv, "spec", "csi", "volumeHandle"), nil
}

func (w written) number(t *story.Teller) (int, error) {
	for n := t.Cluster.Nodes + 1; n <= t.Cluster.Started(); n++ {
		if cluster.NodeName(n) == w.node {
			return n, nil
		}
	}
	return 0, fmt.Errorf("the pod runs on %s, which has no kernel of its own", w.node)
}

// elsewhere waits until the pod runs on another node, and wants all that was written.
func (w written) elsewhere(ctx context.Context, t *story.Teller) error {
	if err := kit.Until(ctx, patience, func() error {
		pod, err := t.Get(ctx, "pods", databasePod)
		if err != nil {
			return err
		}
		if on := kit.Text(pod, "spec", "nodeName"); on == w.node || kit.Condition("Ready")(pod) != "" {
			return fmt.Errorf("the pod is not Ready elsewhere: it is of %q", on)
		}
		return nil
	}); err != nil {
		return err
	}
	return errors.Join(same(ctx, t, databasePod, "file-"+w.node, w.sum),
		expect(ctx, t, databasePod, fmt.Sprintf("test $(wc -l </data/lines) -ge %s && echo all", w.line), "all"))
}

// returned waits until Kubernetes and the log have the node in service, and its replica has all that was written without it.
func (w written) returned(ctx context.Context, t *story.Teller, host machine.Config) error {
	return kit.Until(ctx, patience, func() error {
		n, err := t.Client.CoreV1().Nodes().Get(ctx, w.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !cluster.Ready(*n) || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("the node %s: ready %t, tainted %v", w.node, cluster.Ready(*n), n.Spec.Taints)
		}
		state, err := host.Exec(ctx, "cat", "/proc/drbd")
		if err == nil && !strings.Contains(state, "ds:UpToDate/UpToDate") {
			err = fmt.Errorf("the replica of %s is not up to date: %s", w.node, state)
		}
		return err
	})
}

// nodeEventSays waits for an event about a node, which is of the default namespace.
func nodeEventSays(ctx context.Context, t *story.Teller, node, words string) error {
	return kit.Until(ctx, patience, func() error {
		events, err := t.Client.CoreV1().Events(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, words) {
				t.Note("the node's event: %s", e.Message)
				return nil
			}
		}
		return fmt.Errorf("no event about the node %s says %q", node, words)
	})
}
