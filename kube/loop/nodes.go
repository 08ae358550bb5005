package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	there, err := r.there(ctx)
	return nodes, there, err
}

// there reads the API server's nodes alone, perhaps of a moment ago.
func (r *nodeReader) there(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := r.Kube.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodes.Items, nil
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

// patchNode changes the node only as it was read: annotations and taints where they are not nil, the latter to exactly these.
func patchNode(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, annotations map[string]any, taints []corev1.Taint) error {
	metadata := map[string]any{"resourceVersion": n.ResourceVersion, "uid": n.UID}
	if annotations != nil { // null would remove all of them
		metadata["annotations"] = annotations
	}
	patch := map[string]any{"metadata": metadata}
	if taints != nil {
		patch["spec"] = map[string]any{"taints": taints}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}
