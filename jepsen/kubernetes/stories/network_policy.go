package stories

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var networkPolicy = story.Story{
	Name: "network-policy", Tells: "kube-router puts the chart's NetworkPolicy in force: controllers and hosts that start find each other, claims are made, metrics are read by whom they are for, and a pod elsewhere reaches no port of a controller, as it did before and does when the policy is off",
	Limit: 30 * time.Minute, Tell: tellNetworkPolicy, Needs: byPolicies,
}

// byPolicies says why NetworkPolicies cannot be put in force.
func byPolicies(ctx context.Context, t *story.Teller) error {
	for _, program := range []string{"iptables", "ipset"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("install the package %s: %w", program, err)
		}
	}
	if err := t.Cluster.CanEnforce(); err != nil {
		return fmt.Errorf("what puts NetworkPolicies in force was not built: %w", err)
	}
	return bySharedKernel(ctx, t)
}

// readers is the label of the namespace from where metrics are read.
const readers = "reads-metrics"

// withPolicy are the arguments of helm for the policy.
func withPolicy() []string {
	return []string{"--set", "networkPolicy.enabled=true,networkPolicy.nodeCIDRs={" + cluster.Network + "},networkPolicy.metricsNamespaceLabels.story=" + readers}
}

func tellNetworkPolicy(ctx context.Context, t *story.Teller) (err error) {
	scraper := t.In(t.Namespace + "-metrics")
	p := policyCase{Teller: t, scraper: scraper}
	defer func() {
		if err != nil { // the stories after this one are told without a policy
			err = errors.Join(err, helmInstall(ctx, t))
		}
		err = errors.Join(err, p.end(ctx))
	}()
	return all(
		func() error { return p.begin(ctx) },
		func() error { return p.reach(ctx, controllerPorts, controllerPorts, controllerPorts) },
		func() error {
			return t.Time("helm upgrade --wait to the policy in force", func() error {
				return errors.Join(helmInstall(ctx, t, withPolicy()...), p.inForce(ctx))
			})
		},
		func() error { return p.lives(ctx) },
		func() error { return errors.Join(p.inForce(ctx), p.scrapes(ctx)) },
		func() error {
			return t.Time("helm upgrade --wait without it to all reached again", func() error {
				return errors.Join(helmInstall(ctx, t), p.reach(ctx, controllerPorts, controllerPorts, controllerPorts))
			})
		},
		func() error { return removeAll(ctx, t, "pods", "pvc") },
	)
}

// policyCase has a pod in the story's namespace, of which the policy knows nothing, and one in the namespace that reads metrics.
type policyCase struct {
	*story.Teller
	scraper *kit.Kit
}

// begin starts the pods, and on each node what puts policies in force.
func (p *policyCase) begin(ctx context.Context) error {
	if err := p.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {story: %s}}}", p.scraper.Namespace, readers); err != nil {
		return err
	}
	stranger := pod{name: "stranger", volume: "emptyDir: {}"}.manifest()
	if err := errors.Join(p.Apply(ctx, stranger), p.scraper.Apply(ctx, stranger)); err != nil {
		return err
	}
	for n := 1; n <= p.Cluster.Nodes; n++ {
		if err := p.Cluster.EnforcePolicies(n); err != nil {
			return err
		}
	}
	return all(
		func() error { return running(ctx, p.Teller, "stranger") },
		func() error { return p.scraper.Wait(ctx, patience, "pods", "stranger", kit.Condition("Ready")) },
		func() error { return p.eachNode(ctx, "iptables -S KUBE-ROUTER-FORWARD") },
	)
}

// end takes off every node what puts policies in force, with its rules.
func (p *policyCase) end(ctx context.Context) (failed error) {
	for n := 1; n <= p.Cluster.Nodes; n++ {
		failed = errors.Join(failed, p.Cluster.EndPolicies(n))
	}
	return errors.Join(failed, p.eachNode(ctx, noRules), p.Delete(ctx, "namespaces", p.scraper.Namespace, false))
}

// noRules removes what kube-router leaves when it ends; nothing else on these nodes has rules of iptables that filter, or sets.
const noRules = `iptables -F && iptables -X && ipset destroy && ! iptables-save | grep KUBE-ROUTER`

// eachNode runs a command on each node until it ends well.
func (p *policyCase) eachNode(ctx context.Context, command string) error {
	return kit.Until(ctx, patience, func() error {
		for n := 1; n <= p.Cluster.Nodes; n++ {
			if _, err := p.Cluster.Node(n).Exec(ctx, "sh", "-c", command); err != nil {
				return err
			}
		}
		return nil
	})
}

// lives starts all programs again under the policy, for connections that are there are let alone, and uses the cluster.
func (p *policyCase) lives(ctx context.Context) error {
	last := p.Cluster.Node(p.Cluster.Nodes)
	return all(
		func() error {
			return p.Time("all controllers started again to a leader and three that vote", func() error {
				if err := p.restarted(ctx, "statefulset/holdfast-controller"); err != nil {
					return err
				}
				_, err := whole(ctx, p.Teller)
				return err
			})
		},
		func() error {
			_, err := last.Exec(ctx, "rm", "-r", nodeCertificate) // it has to enrol again
			return err
		},
		func() error {
			return p.Time("all nodes started again, one without a certificate, to their sessions", func() error {
				if err := p.restarted(ctx, "daemonset/holdfast-node"); err != nil {
					return err
				}
				return nodeIs(ctx, p.Teller, last.Name, "reachable")
			})
		},
		func() error {
			return p.Time("claim and pod to Ready", func() error { return writerOn(ctx, p.Teller, "writer", last.Name) })
		},
		func() error { return p.probesHold(ctx) },
	)
}

func (p *policyCase) restarted(ctx context.Context, what string) error {
	for _, verb := range []string{"restart", "status"} {
		if _, err := p.In(namespace).Kubectl(ctx, "rollout", verb, what); err != nil {
			return err
		}
	}
	return nil
}

// tooLong is longer than probes may fail before a container of the chart is started again.
const tooLong = 75 * time.Second

// probesHold wants no container of a controller to be started again for its probes.
func (p *policyCase) probesHold(ctx context.Context) error {
	if err := kit.Sleep(ctx, tooLong); err != nil {
		return err
	}
	for n := range 3 {
		if err := p.In(namespace).Wait(ctx, patience, "pods", controllerName(n), restarts(0)); err != nil {
			return err
		}
	}
	return errors.Join(controllersReady(ctx, p.Teller), writesOn(ctx, p.Teller, "writer"))
}

// scrapes reads the metrics of every controller, and of the loop beside it.
func (p *policyCase) scrapes(ctx context.Context) error {
	controllers, err := p.controllers(ctx)
	if err != nil {
		return err
	}
	for name, c := range controllers {
		for _, port := range metricsPorts {
			got, err := p.scraper.Exec(ctx, "stranger", fmt.Sprintf(`printf 'GET /metrics HTTP/1.0\r\n\r\n' | nc -w 5 %s %s | grep -c ^holdfast_`, c.address, port))
			if err != nil {
				return fmt.Errorf("read the metrics of %s at %s: %s lines: %w", name, port, got, err)
			}
		}
	}
	return nil
}
