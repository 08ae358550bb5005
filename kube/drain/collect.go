package drain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// Collect reads what Kubernetes says of a node: its pods, the controllers' pods, which controllers selects in a namespace (empty: in
// all), the node's guard, and which nodes take no pods. A node that Kubernetes does not have is an error, and so are the controllers of
// two clusters, whose pods have the same names.
func Collect(ctx context.Context, api kubernetes.Interface, node, namespace, controllers string) (*Kube, error) {
	object, err := api.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", node, err)
	}
	pods, err := api.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	own, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: controllers})
	if err != nil {
		return nil, fmt.Errorf("list the controllers' pods: %w", err)
	}
	guards, err := api.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{LabelSelector: plan.LabelDrainGuard + "=" + string(object.UID)})
	if err != nil {
		return nil, fmt.Errorf("read the guard of node %s: %w", node, err)
	}
	k := &Kube{Pods: pods.Items, Controllers: map[string]*corev1.Pod{}}
	if k.Closed, err = closedNodes(ctx, api); err != nil {
		return nil, err
	}
	if k.Host, err = hostOn(ctx, api, node); err != nil {
		return nil, err
	}
	for i := range own.Items {
		if first := own.Items[0].Namespace; own.Items[i].Namespace != first {
			return nil, fmt.Errorf("find the controllers' pods: they run in the namespaces %s and %s: choose one with --holdfast-namespace", first, own.Items[i].Namespace)
		}
		k.Controllers[own.Items[i].Name] = &own.Items[i]
	}
	if len(guards.Items) > 0 {
		k.Budget = &guards.Items[0]
	}
	return k, nil
}

// closedNodes are the nodes on which no pod begins, with why.
func closedNodes(ctx context.Context, api kubernetes.Interface) (map[string]string, error) {
	all, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	closed := map[string]string{}
	for i := range all.Items {
		n := &all.Items[i]
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		switch {
		case n.Spec.Unschedulable:
			closed[n.Name] = "cordoned"
		case !ready:
			closed[n.Name] = "its kubelet is not ready"
		}
	}
	return closed, nil
}

// hostOn is the id of the host of Holdfast that a node's kubelet has; empty: it has none.
func hostOn(ctx context.Context, api kubernetes.Interface, node string) (string, error) {
	found, err := api.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read CSINode %s: %w", node, err)
	}
	for _, d := range found.Spec.Drivers {
		if d.Name == plan.Driver {
			return d.NodeID, nil
		}
	}
	return "", nil
}
