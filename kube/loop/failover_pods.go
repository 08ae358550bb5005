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

// forgetPods removes the pods from the API server that were told to end on a node that is tainted: its collector of pods does the same,
// but looks every twenty seconds. Only pods that use this driver's volumes, at the version that was looked at before the proof was
// asked for again: the node may serve since the step was decided on, and its kubelet end pods with their grace.
func (r *failoverReconciler) forgetPods(ctx context.Context, f *plan.NodeFacts, step plan.Failover) error {
	var ending []*corev1.Pod
	err := r.pods.using(ctx, f.Node.Name, func(pod *corev1.Pod, _ []string) error {
		if isToForget(pod) {
			ending = append(ending, pod)
		}
		return nil
	})
	if err != nil {
		return err
	}
	now, err := r.readNode(ctx, f.Node.Name)
	if err != nil || now == nil || now.Node.UID != f.Node.UID || plan.NextFailover(*now) != step {
		return err
	}
	for _, pod := range ending {
		r.Logger.Info("a pod of a node that is out of service is removed", "node", f.Node.Name, "pod", pod.Namespace+"/"+pod.Name)
		if err := r.deletePod(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{ResourceVersion: &pod.ResourceVersion}}); err != nil {
			return err
		}
	}
	return nil
}

// isToForget: it was told to end, and not yet removed, as one is that a finalizer keeps. One that was not told tolerates the taint.
func isToForget(pod *corev1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && (grace == nil || *grace > 0)
}

// deletePod deletes no other pod of its name.
func (r *failoverReconciler) deletePod(ctx context.Context, pod *corev1.Pod, options metav1.DeleteOptions) error {
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	options.Preconditions.UID = &pod.UID
	err := r.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// endPods deletes the pods whose volumes were taken from a node that is back: their mounts are dead. With their own grace. Under its own
// taint, which ends most of them, the loop says to the node what is waited for.
func (r *failoverReconciler) endPods(ctx context.Context, f *plan.NodeFacts, step plan.Failover) error {
	if f.Node.Annotations[plan.AnnotationOutOfService] != "" {
		r.Notifier.Node(f.Node, plan.FailoverWaits(f.Node.Name, step.Why))
	}
	return r.pods.using(ctx, f.Node.Name, func(pod *corev1.Pod, handles []string) error {
		if pod.DeletionTimestamp != nil || !hasStarted(pod) {
			return nil // it goes, or waits for the node
		}
		r.Notifier.Pod(pod, plan.Notice{Reason: plan.ReasonOutOfService, Note: fmt.Sprintf(
			"Node %s was away, and volume %s was taken from it: the pod is deleted, so that it begins anew", f.Node.Name, handles[0])})
		return r.deletePod(ctx, pod, metav1.DeleteOptions{})
	})
}
