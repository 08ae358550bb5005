package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var alerts = story.Story{
	Name: "alerts", Tells: "a Prometheus scrapes what the chart's PodMonitors name under the chart's rules as they are: alerts fire for a node without power and for a loop that may not be elected, with the right labels, and end",
	Limit: 40 * time.Minute, Tell: tellAlerts, Needs: byPrometheus,
}

// byPrometheus says why a story with a Prometheus cannot be told.
func byPrometheus(ctx context.Context, t *story.Teller) error {
	if _, err := exec.LookPath("prometheus"); err != nil {
		return fmt.Errorf("install the package prometheus: %w", err)
	}
	if t.Cluster.Guests > 0 {
		return errors.New("this is told where no other story is of nodes that lose their power for long")
	}
	return byHelm(ctx, t)
}

func tellAlerts(ctx context.Context, t *story.Teller) error {
	if err := runPrometheus(ctx, t); err != nil {
		return err
	}
	defer endPrometheus(t)
	looking, stop := context.WithCancel(ctx)
	defer stop()
	go keepTargets(looking, t)
	return all(
		func() error {
			return t.Time("Prometheus started to every pod scraped", func() error { return allScraped(ctx, t) })
		},
		func() error { return nodesAreNamed(ctx, t) },
		func() error {
			return quiet(ctx, t, "HoldfastHostDown", "HoldfastMemberDown", "HoldfastLoopIdle", "HoldfastNoLeader", "HoldfastNotReady", "HoldfastPoolFull", "HoldfastDiverged")
		},
		func() error { return alertsOfTheLoop(ctx, t) },
		func() error { return alertsOfANode(ctx, t) },
	)
}

// loopRights is the binding without which nobody beside a controller is elected.
const resourceOfRights, loopRights = "rolebindings.rbac.authorization.k8s.io", "holdfast-leases"

// alertsOfTheLoop takes the loop's rights away, and gives them back.
func alertsOfTheLoop(ctx context.Context, t *story.Teller) error {
	own := t.In(namespace)
	binding, err := own.Get(ctx, resourceOfRights, loopRights)
	if err != nil {
		return err
	}
	again, err := json.Marshal(map[string]any{
		"apiVersion": binding.GetAPIVersion(), "kind": binding.GetKind(), "roleRef": binding.Object["roleRef"], "subjects": binding.Object["subjects"],
		"metadata": map[string]any{"name": loopRights, "labels": binding.GetLabels(), "annotations": binding.GetAnnotations()},
	})
	if err != nil {
		return err
	}
	return all(
		func() error { return own.Delete(ctx, resourceOfRights, loopRights, false) },
		func() error {
			return t.Time("loop that is not elected to the alert", func() error { return Fires(ctx, t, "HoldfastLoopIdle") })
		},
		func() error { return own.Apply(ctx, string(again)) },
		func() error {
			return t.Time("rights back to its end", func() error { return quiet(ctx, t, "HoldfastLoopIdle") })
		},
	)
}

// alertsOfANode has a node that has a controller lose its power, and gives it back.
func alertsOfANode(ctx context.Context, t *story.Teller) error {
	number := t.Cluster.Nodes
	node := t.Cluster.Node(number)
	if err := machine.Stop(node); err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("power lost to the alert on the host", func() error { return Fires(ctx, t, "HoldfastHostDown") })
		},
		func() error {
			return t.Time("and to that on its controller", func() error { return Fires(ctx, t, "HoldfastMemberDown") })
		},
		func() error { return t.Cluster.StartNode(ctx, number) },
		func() error {
			return t.Time("power back to the end of both", func() error { return quiet(ctx, t, "HoldfastHostDown", "HoldfastMemberDown") })
		},
		func() error { return controllersReady(ctx, t) },
	)
}

// Fires waits until an alert fires.
func Fires(ctx context.Context, t *story.Teller, alert string) error {
	return untilHolds(ctx, fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing"}`, alert))
}

// quiet waits until alerts neither fire nor are pending, while everything is scraped.
func quiet(ctx context.Context, t *story.Teller, alerts ...string) error {
	for _, alert := range alerts {
		if err := untilHolds(ctx, fmt.Sprintf(`absent(ALERTS{alertname=%q}) and on () (count(up) > 0)`, alert)); err != nil {
			return err
		}
	}
	return allScraped(ctx, t)
}

// allScraped waits until each pod of the chart answers, the loops beside the controllers too.
func allScraped(ctx context.Context, t *story.Teller) error {
	const controllers = 3
	nodes, err := t.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	want := 2*controllers + len(nodes.Items)
	return untilHolds(ctx, fmt.Sprintf(`sum(up) == %d and on () count(up) == %d`, want, want))
}

// nodesAreNamed wants what a node's pod says to have the node's name, and what a controller says of a node that node's, not its own.
func nodesAreNamed(ctx context.Context, t *story.Teller) (err error) {
	for n := 1; n <= t.Cluster.Started(); n++ {
		name := cluster.NodeName(n)
		err = errors.Join(err, untilHolds(ctx, fmt.Sprintf(`holdfast_session_connected{node=%q, namespace="holdfast"} == 1`, name)),
			untilHolds(ctx, fmt.Sprintf(`count(holdfast_cluster_pool_reservable_bytes{node=%q}) > 0`, name)))
	}
	return err
}
