package drain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// Collect reads what Kubernetes says of a node: its pods, the controllers' pods, which controllers selects in a namespace (empty: in
// all), and the node's guard. A node that Kubernetes does not have is an error.
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
	for i := range own.Items {
		k.Controllers[own.Items[i].Name] = &own.Items[i]
	}
	if len(guards.Items) > 0 {
		k.Budget = &guards.Items[0]
	}
	return k, nil
}
