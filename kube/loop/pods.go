package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// claimsOf are the names of the claims that a pod uses, those of its ephemeral volumes too.
func claimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if name := claimOf(pod, &pod.Spec.Volumes[i]); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// claimOf is the name of the claim that is behind one of a pod's volumes; empty: none is.
func claimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// isRunning: the pod is bound to a node and did not end.
func isRunning(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// hasStarted: it may have its volumes mounted.
func hasStarted(pod *corev1.Pod) bool {
	started := func(c corev1.ContainerStatus) bool {
		return c.State.Waiting == nil || c.LastTerminationState.Terminated != nil
	}
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { // kubelet mounts before
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
	return ready || pod.Status.Phase == corev1.PodRunning || slices.ContainsFunc(pod.Status.InitContainerStatuses, started) || slices.ContainsFunc(pod.Status.ContainerStatuses, started)
}

// podReader reads what pods use.
type podReader struct{ Kube kubernetes.Interface }

// running are the pods on the node that did not end.
func (r podReader) running(ctx context.Context, node string) (running []corev1.Pod, err error) {
	pods, err := r.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, fmt.Errorf("list its pods: %w", err)
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node && isRunning(&pods.Items[i]) {
			running = append(running, pods.Items[i])
		}
	}
	return running, nil
}

// using yields each running pod on the node that uses volumes of ours, with their handles.
func (r podReader) using(ctx context.Context, node string, fn func(pod *corev1.Pod, handles []string) error) error {
	pods, err := r.running(ctx, node)
	if err != nil {
		return err
	}
	for i := range pods {
		var handles []string
		volumes, err := r.volumesOf(ctx, &pods[i])
		if err != nil {
			return err
		}
		for _, v := range volumes {
			if isOurs(v.pv) {
				handles = append(handles, v.pv.Spec.CSI.VolumeHandle)
			}
		}
		if len(handles) == 0 {
			continue
		}
		if err := fn(&pods[i], handles); err != nil {
			return err
		}
	}
	return nil
}

// volumeOf is a persistent volume that a pod uses, by which claim.
type volumeOf struct {
	claim string
	pv    *corev1.PersistentVolume
}

// volumesOf are the persistent volumes that a pod uses.
func (r podReader) volumesOf(ctx context.Context, pod *corev1.Pod) (volumes []volumeOf, err error) {
	for _, name := range claimsOf(pod) {
		claim, err := found(r.Kube.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return nil, fmt.Errorf("read claim %s/%s: %w", pod.Namespace, name, err)
		}
		if claim == nil || claim.Spec.VolumeName == "" {
			continue
		}
		pv, err := found(r.Kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{}))
		if err != nil {
			return nil, fmt.Errorf("read persistent volume %s: %w", claim.Spec.VolumeName, err)
		}
		if pv != nil {
			volumes = append(volumes, volumeOf{name, pv})
		}
	}
	return volumes, nil
}

// facts are what the pods on a node use.
func (r podReader) facts(ctx context.Context, node string) (x plan.PodFacts, err error) {
	pods, err := r.running(ctx, node)
	if err != nil {
		return x, err
	}
	waiting, used := map[string]bool{}, map[string]bool{}
	for i := range pods {
		volumes, err := r.volumesOf(ctx, &pods[i])
		if err != nil {
			return x, err
		}
		if why := foreignOf(&pods[i], volumes); why != "" && x.Foreign == "" {
			x.Foreign = why
		}
		for _, v := range volumes {
			waiting[v.pv.Name] = true
			used[v.pv.Name] = used[v.pv.Name] || hasStarted(&pods[i])
			x.Ending = x.Ending || isOurs(v.pv) && isToForget(&pods[i])
		}
	}
	maps.DeleteFunc(waiting, func(name string, _ bool) bool { return used[name] })
	x.Waiting = waiting
	return x, nil
}

// foreignOf says what beside our volumes a pod that may run elsewhere writes to from several hosts; empty: nothing.
func foreignOf(pod *corev1.Pod, volumes []volumeOf) string {
	if staysOnNode(pod) {
		return ""
	}
	for i := range pod.Spec.Volumes {
		if what := sharedInline(&pod.Spec.Volumes[i].VolumeSource); what != "" {
			return fmt.Sprintf("%s (pod %s/%s)", what, pod.Namespace, pod.Name)
		}
	}
	for _, v := range volumes {
		ofHost := v.pv.Spec.Local != nil || v.pv.Spec.HostPath != nil
		if !isOurs(v.pv) && !ofHost && !isOnlyRead(pod, v) {
			return fmt.Sprintf("%s (persistent volume %s, pod %s/%s)", driverOf(v.pv), v.pv.Name, pod.Namespace, pod.Name)
		}
	}
	return ""
}

// sharedInline says what a pod writes to that its own specification names, without a claim, and that other hosts may reach; empty: nothing.
func sharedInline(v *corev1.VolumeSource) string {
	switch {
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil: // by their persistent volumes
	case v.EmptyDir != nil, v.HostPath != nil, v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil, v.Image != nil, v.GitRepo != nil:
	case v.NFS != nil && v.NFS.ReadOnly, v.CSI != nil && v.CSI.ReadOnly != nil && *v.CSI.ReadOnly:
	case v.NFS != nil:
		return "NFS"
	case v.CSI != nil:
		return v.CSI.Driver
	default:
		return "another driver"
	}
	return ""
}

// isOnlyRead: kubelet mounts it to be read only wherever the pod uses the claim. Access modes keep nobody from writing.
func isOnlyRead(pod *corev1.Pod, v volumeOf) bool {
	if v.pv.Spec.CSI != nil && v.pv.Spec.CSI.ReadOnly || v.pv.Spec.NFS != nil && v.pv.Spec.NFS.ReadOnly {
		return true
	}
	return !slices.ContainsFunc(pod.Spec.Volumes, func(x corev1.Volume) bool {
		return claimOf(pod, &x) == v.claim && (x.PersistentVolumeClaim == nil || !x.PersistentVolumeClaim.ReadOnly)
	})
}

func driverOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	return "another driver"
}

// staysOnNode: the pod is made for this node, and no other one runs it.
func staysOnNode(pod *corev1.Pod) bool {
	of := metav1.GetControllerOf(pod)
	return of != nil && (of.Kind == "DaemonSet" || of.Kind == "Node")
}
