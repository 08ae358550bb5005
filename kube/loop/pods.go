package loop

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// claimsOf are the names of the claims that a pod uses, those of its ephemeral volumes too.
func claimsOf(pod *corev1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// isRunning: the pod is bound to a node and did not end.
func isRunning(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// podsUsing yields each running pod on the node that uses volumes of ours, with their handles.
func (l *Loop) podsUsing(ctx context.Context, node string, fn func(pod *corev1.Pod, handles []string) error) error {
	pods, err := l.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return fmt.Errorf("list its pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != node || !isRunning(pod) {
			continue
		}
		handles, err := l.handlesOf(ctx, pod)
		if err != nil {
			return err
		}
		if len(handles) == 0 {
			continue
		}
		if err := fn(pod, handles); err != nil {
			return err
		}
	}
	return nil
}

// handlesOf are the volumes of ours that a pod uses.
func (l *Loop) handlesOf(ctx context.Context, pod *corev1.Pod) (handles []string, err error) {
	for _, name := range claimsOf(pod) {
		claim, err := l.Kube.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read claim %s/%s: %w", pod.Namespace, name, err)
		}
		pv, err := l.Kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		switch {
		case claim.Spec.VolumeName == "" || apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read persistent volume %s: %w", claim.Spec.VolumeName, err)
		case isOurs(pv):
			handles = append(handles, pv.Spec.CSI.VolumeHandle)
		}
	}
	return handles, nil
}

// noticePods tells the pods on a node that was tainted by which entry their volumes go on elsewhere.
func (l *Loop) noticePods(ctx context.Context, f *plan.NodeFacts) error {
	return l.podsUsing(ctx, f.Node.Name, func(pod *corev1.Pod, handles []string) error {
		for _, handle := range handles {
			if entry := plan.EntryOf(f.Log, handle); entry != "" {
				l.Notifier.Pod(pod, plan.Notice{Reason: plan.ReasonOutOfService, Note: fmt.Sprintf(
					"Node %s is out of service, and volume %s is free for another node: %s", f.Node.Name, handle, entry)})
			}
		}
		return nil
	})
}

// endPods deletes the pods whose volumes were taken from a node that is back before it was tainted: their mounts are dead. With their own
// grace, and at the version that was looked at.
func (l *Loop) endPods(ctx context.Context, f *plan.NodeFacts) error {
	return l.podsUsing(ctx, f.Node.Name, func(pod *corev1.Pod, handles []string) error {
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			return nil // it goes, or waits for the node
		}
		l.Notifier.Pod(pod, plan.Notice{Reason: plan.ReasonOutOfService, Note: fmt.Sprintf(
			"Node %s was away, and volume %s was taken from it: the pod is deleted, so that it begins anew", f.Node.Name, handles[0])})
		err := l.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}
