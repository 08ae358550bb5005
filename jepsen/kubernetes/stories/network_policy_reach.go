package stories

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
)

// The ports at which a controller's pod listens, and those of them with metrics.
var controllerPorts, metricsPorts = []string{"9800", "9801", "9802", "9803", "9804"}, []string{"9801", "9804"}

// hostPorts are those that hosts need: nodes, and probes by kubelet. Controllers alone have to do with the log.
var hostPorts = []string{"9801", "9802", "9803", "9804"}

// inForce wants the ports to be reached by whom they are for, and by nobody else.
func (p *policyCase) inForce(ctx context.Context) error {
	return p.reach(ctx, nil, metricsPorts, hostPorts)
}

// reach waits until of every controller these ports, and no others, are reached by the stranger, by the pod that reads metrics and by the
// hosts that the controller is not on: what comes from a pod's own host is let in by every enforcer.
func (p *policyCase) reach(ctx context.Context, stranger, scraper, host []string) error {
	return kit.Until(ctx, patience, func() error {
		controllers, err := p.controllers(ctx)
		if err != nil {
			return err
		}
		for name, c := range controllers {
			for _, from := range []struct {
				who   string
				ports []string
				run   func(command string) (string, error)
			}{
				{"a pod elsewhere", stranger, func(command string) (string, error) { return p.Exec(ctx, "stranger", command) }},
				{"a pod that reads metrics", scraper, func(command string) (string, error) { return p.scraper.Exec(ctx, "stranger", command) }},
				{"another host", host, func(command string) (string, error) {
					return p.Cluster.Node(c.otherHost).Exec(ctx, "sh", "-c", command)
				}},
			} {
				out, err := from.run(tryPorts(c.address))
				if err != nil {
					return err
				}
				if got := strings.Fields(out); !slices.Equal(got, from.ports) {
					return fmt.Errorf("%s reaches the ports %v of %s, not %v", from.who, got, name, from.ports)
				}
			}
		}
		return nil
	})
}

// tryPorts prints the ports of a controller that are reached.
func tryPorts(address string) string {
	return fmt.Sprintf("for p in %s; do ! busybox timeout 5 busybox nc -w 2 %s $p </dev/null >/dev/null 2>&1 || echo $p; done", strings.Join(controllerPorts, " "), address)
}

// place is where a controller's pod is, and a node where it is not.
type place struct {
	address   string
	otherHost int
}

func (p *policyCase) controllers(ctx context.Context) (map[string]place, error) {
	all, err := p.In(namespace).List(ctx, "pods", "app.kubernetes.io/component=controller")
	if err != nil {
		return nil, err
	}
	found := map[string]place{}
	for _, o := range all {
		other := 1
		if kit.Text(&o, "spec", "nodeName") == cluster.NodeName(other) {
			other = 2
		}
		found[o.GetName()] = place{kit.Text(&o, "status", "podIP"), other}
	}
	if len(found) != 3 {
		return nil, fmt.Errorf("there are %d pods of controllers, not 3", len(found))
	}
	return found, nil
}
