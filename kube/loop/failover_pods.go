package loop

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// noticePods tells the pods on a node that was tainted by which entry their volumes go on elsewhere.
func (r *failoverReconciler) noticePods(ctx context.Context, f *plan.NodeFacts) error {
	return r.pods.using(ctx, f.Node.Name, func(pod *corev1.Pod, handles []string) error {
		for _, handle := range handles {
			if entry := plan.EntryOf(f.Log, handle); entry != "" {
				r.Notifier.Pod(pod, plan.Notice{Reason: plan.ReasonOutOfService, Note: fmt.Sprintf(
					"Node %s is out of service, and volume %s is free for another node: %s", f.Node.Name, handle, entry)})
			}
		}
		return nil
	})
}

// endPods deletes the pods whose volumes were taken from a node that is back before it was tainted: their mounts are dead. With their own
// grace, and at the version that was looked at.
func (r *failoverReconciler) endPods(ctx context.Context, f *plan.NodeFacts) error {
	return r.pods.using(ctx, f.Node.Name, func(pod *corev1.Pod, handles []string) error {
		if pod.DeletionTimestamp != nil || !hasStarted(pod) {
			return nil // it goes, or waits for the node
		}
		r.Notifier.Pod(pod, plan.Notice{Reason: plan.ReasonOutOfService, Note: fmt.Sprintf(
			"Node %s was away, and volume %s was taken from it: the pod is deleted, so that it begins anew", f.Node.Name, handles[0])})
		err := r.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}
