package stories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var faults = []story.Story{
	{Name: "plugin-killed", Tells: "the node plugin is killed under a pod that writes: the pod goes on, and another can start", Limit: 10 * time.Minute, Tell: tellPluginKilled},
	{Name: "kubelet-killed", Tells: "kubelet is killed under a pod that writes: the pod goes on, and the driver is registered again", Limit: 10 * time.Minute, Tell: tellKubeletKilled},
	{Name: "full-pool", Tells: "a claim that fits on no host waits and says why; a smaller one is made meanwhile", Limit: 10 * time.Minute, Tell: tellFullPool},
	{Name: "drain", Tells: "kubectl drains each node in turn: controllers move out of the way, claims are made meanwhile, pods come back with their data", Limit: 30 * time.Minute, Tell: tellDrain, Needs: byHelm},
	{Name: "node-dead", Tells: "a node loses its power: claims are made meanwhile, and when it is back its pod has its data", Limit: 20 * time.Minute, Tell: tellNodeDead},
	{Name: "upgrade", Tells: "helm upgrades controllers and nodes under a pod that writes, and rolls back", Limit: 30 * time.Minute, Tell: tellUpgrade, Needs: byHelm},
	{Name: "reinstalled", Tells: "helm uninstalls while a pod writes; installed again, the volumes are adopted", Limit: 30 * time.Minute, Tell: tellReinstalled, Needs: byHelm},
}

// writerOn makes a pod on a node that writes on and on.
func writerOn(ctx context.Context, t *story.Teller, name, node string) error {
	return start(ctx, t, claim{name: name, class: late, size: "1Gi"}, pod{name: name, node: node, command: writeOn})
}

func tellPluginKilled(ctx context.Context, t *story.Teller) error {
	return underWriter(ctx, t, "holdfast node")
}

func tellKubeletKilled(ctx context.Context, t *story.Teller) error {
	return underWriter(ctx, t, "kubelet")
}

// underWriter kills a program of a node on which a pod writes.
func underWriter(ctx context.Context, t *story.Teller, program string) error {
	const number = 2
	node := t.Cluster.Node(number)
	if err := writerOn(ctx, t, "writer", node.Name); err != nil {
		return err
	}
	killed, err := node.Signal(program, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if killed == 0 {
		return fmt.Errorf("no process of %s runs on %s", program, node.Name)
	}
	if err := t.Time("kill to another pod with a new claim Ready there", func() error { return writerOn(ctx, t, "other", node.Name) }); err != nil {
		return err
	}
	return errors.Join(writesOn(ctx, t, "writer"), writesOn(ctx, t, "other"))
}

func tellFullPool(ctx context.Context, t *story.Teller) error {
	tooBig := claim{name: "too-big", class: immediate, size: "10Ti"}
	if err := t.Apply(ctx, tooBig.manifest()); err != nil {
		return err
	}
	if err := t.Time("claim to the event that says why", func() error { return eventSays(ctx, t, "too-big", "ResourceExhausted") }); err != nil {
		return err
	}
	if err := start(ctx, t, claim{name: "fits", class: late, size: "1Gi"}, pod{name: "fits"}); err != nil {
		return err
	}
	return t.Time("deletion of the claim that waits", func() error { return gone(ctx, t, "persistentvolumeclaims", "too-big") })
}

func tellDrain(ctx context.Context, t *story.Teller) error {
	if err := t.Apply(ctx, three("set").manifest()); err != nil {
		return err
	}
	whole := func() error {
		return t.Wait(ctx, patience, "statefulsets.apps", "set", fieldIs("3", "status", "readyReplicas"))
	}
	if err := whole(); err != nil {
		return err
	}
	for n := 1; n <= t.Cluster.Nodes; n++ {
		name := cluster.NodeName(n)
		if err := t.Time("drain of "+name, func() error {
			_, err := t.Kubectl(ctx, "drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=5m")
			return err
		}); err != nil {
			return err
		}
		if err := t.Time("claim to Bound meanwhile", func() error { return madeMeanwhile(ctx, t, fmt.Sprintf("while-%d", n)) }); err != nil {
			return err
		}
		if _, err := t.Kubectl(ctx, "uncordon", name); err != nil {
			return err
		}
		if err := t.Time("uncordon to all Ready", func() error { return errors.Join(whole(), controllersReady(ctx, t)) }); err != nil {
			return err
		}
	}
	return nil
}

func madeMeanwhile(ctx context.Context, t *story.Teller, name string) error {
	if err := t.Apply(ctx, claim{name: name, class: immediate, size: "1Gi"}.manifest()); err != nil {
		return err
	}
	return bound(ctx, t, name)
}

func controllersReady(ctx context.Context, t *story.Teller) error {
	return t.In(namespace).Wait(ctx, patience, "statefulsets.apps", "holdfast-controller", fieldIs("3", "status", "readyReplicas"))
}

func tellNodeDead(ctx context.Context, t *story.Teller) error {
	const number = 3
	node := t.Cluster.Node(number)
	if err := writerOn(ctx, t, "writer", node.Name); err != nil {
		return err
	}
	sum, err := write(ctx, t, "writer", "file")
	if err != nil {
		return err
	}
	if err := machine.Stop(node); err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("power lost to NotReady", func() error { return notReady(ctx, t, node.Name) })
		},
		func() error {
			return t.Time("claim to Bound meanwhile", func() error { return madeMeanwhile(ctx, t, "meanwhile") })
		},
		func() error { return t.Cluster.StartNode(ctx, number) },
		func() error {
			return t.Time("power back to the pod Ready", func() error {
				return kit.Until(ctx, patience, func() error { return same(ctx, t, "writer", "file", sum) })
			})
		},
		func() error {
			if t.Settings.OnHosts {
				return nil
			}
			return controllersReady(ctx, t)
		},
	)
}

func notReady(ctx context.Context, t *story.Teller, name string) error {
	return kit.Until(ctx, patience, func() error {
		n, err := t.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if cluster.Ready(*n) {
			return fmt.Errorf("the node %s is ready", name)
		}
		return nil
	})
}

func tellUpgrade(ctx context.Context, t *story.Teller) error {
	if err := writerOn(ctx, t, "writer", ""); err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("helm upgrade --wait of all pods", func() error {
				return helmInstall(ctx, t, "--set", "controller.podAnnotations.story=upgraded,node.podAnnotations.story=upgraded")
			})
		},
		func() error { return errors.Join(writesOn(ctx, t, "writer"), madeMeanwhile(ctx, t, "upgraded")) },
		func() error {
			return t.Time("helm rollback --wait", func() error {
				_, err := t.In(namespace).Helm(ctx, t.Settings.Helm, "rollback", release, "--wait", "--timeout", "10m")
				return err
			})
		},
		func() error { return errors.Join(writesOn(ctx, t, "writer"), madeMeanwhile(ctx, t, "rolled-back")) },
	)
}

func tellReinstalled(ctx context.Context, t *story.Teller) error {
	if err := writerOn(ctx, t, "writer", ""); err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("helm uninstall --wait", func() error {
				_, err := t.In(namespace).Helm(ctx, t.Settings.Helm, "uninstall", release, "--wait", "--timeout", "10m")
				return err
			})
		},
		func() error { return writesOn(ctx, t, "writer") },
		func() error { return t.Time("helm install --wait", func() error { return helmInstall(ctx, t) }) },
		func() error { return writesOn(ctx, t, "writer") },
		func() error { return writerOn(ctx, t, "other", "") },
		func() error { return volumesAre(ctx, t, 2) },
	)
}

// volumesAre wants so many volumes of the driver in this namespace to be Bound.
func volumesAre(ctx context.Context, t *story.Teller, want int) error {
	all, err := t.List(ctx, "persistentvolumes", "")
	if err != nil {
		return err
	}
	got := 0
	for _, v := range all {
		if kit.Text(&v, "spec", "claimRef", "namespace") == t.Namespace && strings.EqualFold(kit.Text(&v, "status", "phase"), "Bound") {
			got++
		}
	}
	if got != want {
		return fmt.Errorf("%d volumes are Bound, not %d", got, want)
	}
	return nil
}
