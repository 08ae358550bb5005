package loop

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// nodeLog is what says which nodes there are.
type nodeLog interface {
	Nodes(ctx context.Context) ([]*adminpb.Node, error)
}

// nodeReader reads the nodes of both sides, and keeps what the log had last for what does not decide on a change.
type nodeReader struct {
	Kube kubernetes.Interface
	Log  nodeLog
	seen atomic.Pointer[map[string]*adminpb.Node]
}

// cached lets the API server answer from its own memory.
var cached = metav1.ListOptions{ResourceVersion: "0"}

// read reads the log's nodes, and those of the API server, perhaps of a moment ago.
func (r *nodeReader) read(ctx context.Context) ([]*adminpb.Node, []corev1.Node, error) {
	nodes, err := r.Log.Nodes(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the controllers for their nodes: %w", err)
	}
	seen := byID(nodes)
	r.seen.Store(&seen)
	there, err := r.Kube.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodes, there.Items, nil
}

// known is what the log had last; nil: it was not asked.
func (r *nodeReader) known() map[string]*adminpb.Node {
	if seen := r.seen.Load(); seen != nil {
		return *seen
	}
	return nil
}

func byID(nodes []*adminpb.Node) map[string]*adminpb.Node {
	all := make(map[string]*adminpb.Node, len(nodes))
	for _, n := range nodes {
		all[n.GetId()] = n
	}
	return all
}

// controllerPods are the pods of the controllers, by name.
func controllerPods(ctx context.Context, kube kubernetes.Interface, namespace, selector string) (map[string]*corev1.Pod, error) {
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the controllers' pods: %w", err)
	}
	all := map[string]*corev1.Pod{}
	for i := range pods.Items {
		all[pods.Items[i].Name] = &pods.Items[i]
	}
	return all, nil
}
