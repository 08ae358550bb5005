package stories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loopLease is the Lease that elects the loop that leads.
const loopLease = "holdfast-kube"

// leadsFrom has the controller of a node lead, and its loop too, where the node has one: its loss is the worst one then. It says whether
// the node has a controller.
func leadsFrom(ctx context.Context, t *story.Teller, node string) (bool, error) {
	pods, err := t.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=controller"})
	if err != nil {
		return false, err
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName == node {
			return true, errors.Join(loopLeads(ctx, t, p.Name, pods.Items), controllerLeads(ctx, t, p.Name))
		}
	}
	return false, nil
}

// controllerLeads hands leadership to a controller, and waits until it has it.
func controllerLeads(ctx context.Context, t *story.Teller, name string) error {
	return kit.Until(ctx, patience, func() error {
		now, err := look(ctx, t)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(now.Members, func(m member) bool { return m.Name == name })
		if at < 0 {
			return fmt.Errorf("no member is called %s: %+v", name, now.Members)
		}
		if now.Members[at].Role == "leader" {
			return nil
		}
		_, err = holdfast(ctx, t, "members", "transfer", now.Members[at].ID, "--yes")
		return errors.Join(err, fmt.Errorf("the leader is %q, not %s", now.Leader, name))
	})
}

// loopLeads ends the loop that leads, as kubelet would, until that of the named pod does.
func loopLeads(ctx context.Context, t *story.Teller, name string, pods []corev1.Pod) error {
	return kit.Until(ctx, patience, func() error {
		lease, err := t.Client.CoordinationV1().Leases(namespace).Get(ctx, loopLease, metav1.GetOptions{})
		if err != nil {
			return err
		}
		holder := ""
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if strings.HasPrefix(holder, name) {
			return nil
		}
		return errors.Join(endLoopOf(t, holder, pods), kit.Sleep(ctx, time.Second), fmt.Errorf("the loop of %q leads, not that of %s", holder, name))
	})
}

func endLoopOf(t *story.Teller, holder string, pods []corev1.Pod) error {
	for _, p := range pods {
		if holder == "" || !strings.HasPrefix(holder, p.Name) {
			continue
		}
		host, err := machineOf(t, p.Spec.NodeName)
		if err != nil {
			return err
		}
		_, err = host.Signal("holdfast kube", syscall.SIGTERM)
		return err
	}
	return nil
}
