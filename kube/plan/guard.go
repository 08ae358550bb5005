package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// GuardKind is what is done next with the guard of a node: a pod that a drain has to evict, and a PodDisruptionBudget that does not let
// it. Neither the workload's pods nor those of a DaemonSet, which a drain leaves alone, can stand for what the node keeps. A guard
// stays while the loop is dead: what it said last holds.
type GuardKind uint8

const (
	GuardNone GuardKind = iota
	// GuardBudget makes the budget: before the pod, so that the pod cannot be evicted from when it runs. Of one that does not run yet
	// the API server asks no budget.
	GuardBudget
	// GuardPod makes the pod, which belongs to the budget.
	GuardPod
	// GuardRemovePod removes a pod that ended, or belongs to an earlier budget.
	GuardRemovePod
	// GuardOpen removes the budget, and then the pod with it.
	GuardOpen
)

// GuardFacts are what is known of a node's guard.
type GuardFacts struct {
	Why    string // the node must not be drained, because; empty: it may
	Budget *policyv1.PodDisruptionBudget
	Pod    *corev1.Pod
}

// NextGuard decides the one step to do next (S173).
func NextGuard(f GuardFacts) GuardKind {
	ended := f.Pod != nil && (f.Pod.Status.Phase == corev1.PodFailed || f.Pod.Status.Phase == corev1.PodSucceeded)
	switch {
	case f.Why == "" && f.Budget != nil:
		return GuardOpen
	case f.Why == "" && f.Pod != nil && f.Pod.DeletionTimestamp == nil:
		return GuardRemovePod
	case f.Why == "":
		return GuardNone
	case f.Budget == nil:
		return GuardBudget
	case f.Budget.DeletionTimestamp != nil || f.Pod != nil && f.Pod.DeletionTimestamp != nil:
		return GuardNone // it goes, and is made again then
	case f.Pod == nil:
		return GuardPod
	case ended || !metav1.IsControlledBy(f.Pod, f.Budget):
		return GuardRemovePod
	}
	return GuardNone
}

// GuardWhys say which nodes must not be drained: those with the last good copy of a replicated volume, by the log, and those
// with a controller that must not stop. pods are the controllers' pods, by name.
func GuardWhys(nodes []*adminpb.Node, members []*adminpb.Member, pods map[string]*corev1.Pod) map[string]string {
	whys := map[string]string{}
	for _, n := range nodes {
		if len(n.GetStopReasons()) > 0 {
			whys[n.GetId()] = sentence(n.GetStopReasons(), 0) + ": wait until their other replicas are up to date"
		}
	}
	for _, m := range members {
		pod := pods[m.GetId()]
		if m.GetStoppable() || pod == nil || pod.Spec.NodeName == "" || !m.GetReachable() {
			continue
		}
		why := fmt.Sprintf("controller %s must not stop: %s", m.GetId(), m.GetStopReason())
		if other := whys[pod.Spec.NodeName]; other != "" {
			why = other + "; " + why
		}
		whys[pod.Spec.NodeName] = why
	}
	return whys
}

// Guard is what guards are made with.
type Guard struct {
	Namespace, Image, PriorityClass string
	PullSecrets                     []string
}

// GuardName is the name of a node's guard; of one with a long name, by its uid.
func GuardName(n *corev1.Node) string {
	const most = 63
	if name := "holdfast-drain-" + n.Name; len(name) <= most {
		return name
	}
	return "holdfast-drain-" + string(n.UID)
}

// Budget lets nobody evict the guard.
func (g Guard) Budget(n *corev1.Node, why string) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: g.meta(n, why),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{LabelDrainGuard: string(n.UID)}},
		},
	}
}

// Pod is the guard. Its controller is the budget, without which drains refuse a pod that nobody makes again.
func (g Guard) Pod(n *corev1.Node, budget *policyv1.PodDisruptionBudget, why string) *corev1.Pod {
	no, yes, none, user := false, true, int64(0), int64(9800)
	pod := &corev1.Pod{ObjectMeta: g.meta(n, why)}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(budget, policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"))}
	pod.Spec = corev1.PodSpec{
		NodeName: n.Name, AutomountServiceAccountToken: &no, EnableServiceLinks: &no, TerminationGracePeriodSeconds: &none,
		PriorityClassName: g.PriorityClass, RestartPolicy: corev1.RestartPolicyAlways,
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "guard", Image: g.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/usr/bin/holdfast", "kube", "guard"}, Resources: smallest(),
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
	for _, name := range slices.Sorted(slices.Values(g.PullSecrets)) {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return pod
}

func (g Guard) meta(n *corev1.Node, why string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: GuardName(n), Namespace: g.Namespace, Annotations: map[string]string{"holdfast.storage/why": why, "holdfast.storage/node": n.Name},
		Labels: map[string]string{LabelDrainGuard: string(n.UID), "app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "drain-guard"},
	}
}
