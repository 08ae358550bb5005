package stories

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeEnrols takes a node's certificate away, and its pod, and wants it to get another one from a controller, and to serve.
func (m *managed) nodeEnrols(ctx context.Context) error {
	number := m.Cluster.Nodes
	name := cluster.NodeName(number)
	pods, err := m.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=node", FieldSelector: "spec.nodeName=" + name,
	})
	if err != nil || len(pods.Items) != 1 {
		return errors.Join(err, fmt.Errorf("%s has %d pods of Holdfast's nodes", name, len(pods.Items)))
	}
	before, err := m.certificatesOf(ctx, name)
	if err != nil {
		return err
	}
	if _, err := m.Cluster.Node(number).Exec(ctx, "sh", "-ec", "ls /var/lib/holdfast/tls-node/tls.key; rm -r /var/lib/holdfast/tls-node/*"); err != nil {
		return err
	}
	return all(
		func() error {
			return m.Time("node's certificate removed and its pod deleted, to another certificate in use", func() error {
				return errors.Join(m.In(namespace).Delete(ctx, "pods", pods.Items[0].Name, false), m.enrolled(ctx, name, before))
			})
		},
		func() error {
			return m.Time("claim and pod to Ready there", func() error { return writerOn(ctx, m.Teller, "enrolled", name) })
		},
	)
}

// certificatesOf are those of a node that controllers see, by their serial numbers.
func (m *managed) certificatesOf(ctx context.Context, node string) (serials []string, err error) {
	var list struct{ Certificates []seen }
	err = kit.Until(ctx, patience, func() error {
		if err := ask(ctx, m.Teller, &list, "certs", "list", "--role", "node"); err != nil {
			return err
		}
		for _, c := range list.Certificates {
			if c.Name == node {
				serials = append(serials, c.Serial)
			}
		}
		return nil
	})
	return serials, err
}

// enrolled waits until a node uses a certificate that it did not have before.
func (m *managed) enrolled(ctx context.Context, node string, before []string) error {
	return kit.Until(ctx, 2*patience, func() error {
		now, err := m.certificatesOf(ctx, node)
		if err == nil && !slices.ContainsFunc(now, func(serial string) bool { return !slices.Contains(before, serial) }) {
			err = fmt.Errorf("%s uses the certificates %v, and used %v before", node, now, before)
		}
		return err
	})
}
