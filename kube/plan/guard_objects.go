package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Guard is what guards are made with.
type Guard struct {
	Namespace, Image, PriorityClass string
	PullSecrets                     []string
}

// GuardOwnerRole is the Role of the loop in its namespace. It is there as long as the loop is installed, and guards go with it.
const GuardOwnerRole = "holdfast-kube"

// GuardOwner makes the Role the controller of guards: drains refuse a pod that has none. It is not the controllers' StatefulSet, as
// that releases each pod that is not one of its own. It does not block the Role's deletion, which would need rights over it.
func GuardOwner(role *rbacv1.Role) *metav1.OwnerReference {
	yes := true
	return &metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role", Name: role.Name, UID: role.UID, Controller: &yes}
}

// GuardName is the name of a node's guard; of one with a long name, by its uid.
func GuardName(n *corev1.Node) string {
	const most = 63
	if name := "holdfast-drain-" + n.Name; len(name) <= most {
		return name
	}
	return "holdfast-drain-" + string(n.UID)
}

// Budget lets nobody evict the guard. owner may be nil.
func (g Guard) Budget(n *corev1.Node, owner *metav1.OwnerReference, why string) *policyv1.PodDisruptionBudget {
	return Say(&policyv1.PodDisruptionBudget{ObjectMeta: g.meta(n)}, owner, why)
}

// budgetSpec keeps the pod of that node, also one that runs and is not ready: its kubelet may be, while its container runtime is not.
func budgetSpec(uid string) policyv1.PodDisruptionBudgetSpec {
	one, policy := intstr.FromInt32(1), policyv1.IfHealthyBudget
	return policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &one, UnhealthyPodEvictionPolicy: &policy,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelDrainGuard: uid}},
	}
}

// Say is the budget with what it says now, and what it keeps. owner nil: it keeps those that it has.
func Say(b *policyv1.PodDisruptionBudget, owner *metav1.OwnerReference, why string) *policyv1.PodDisruptionBudget {
	b = b.DeepCopy()
	b.Spec = budgetSpec(b.Labels[LabelDrainGuard])
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, AnnotationWhy, why)
	if owner != nil {
		b.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return b
}

// Pod is the guard. Where no owner is known it belongs to the budget. holds is as Marks has it.
func (g Guard) Pod(n *corev1.Node, owner *metav1.OwnerReference, budget *policyv1.PodDisruptionBudget, holds bool) *corev1.Pod {
	if owner == nil {
		yes := true
		owner = &metav1.OwnerReference{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget", Name: budget.Name, UID: budget.UID, Controller: &yes}
	}
	pod := &corev1.Pod{ObjectMeta: g.meta(n), Spec: g.spec(n)}
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	pod.Annotations[AnnotationGuardSpec] = g.SpecOf(n)
	maps.Copy(pod.Annotations, Marks(holds))
	return pod
}

// SpecOf tells whether two pods were made alike. It is kept beside the pod, as whoever admits it may change what it runs.
func (g Guard) SpecOf(n *corev1.Node) string {
	text, _ := json.Marshal(g.spec(n)) // of values that can always be said
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// spec is placed without the scheduler, for which only taints count that evict: a drain that leaves pods alone which tolerate its own
// taint does not leave this one.
func (g Guard) spec(n *corev1.Node) corev1.PodSpec {
	no, yes, none, user := false, true, int64(0), int64(9800)
	spec := corev1.PodSpec{
		NodeName: n.Name, AutomountServiceAccountToken: &no, EnableServiceLinks: &no, TerminationGracePeriodSeconds: &none,
		PriorityClassName: g.PriorityClass, RestartPolicy: corev1.RestartPolicyAlways,
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
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
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return spec
}

func (g Guard) meta(n *corev1.Node) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: GuardName(n), Namespace: g.Namespace, Annotations: map[string]string{AnnotationGuardNode: n.Name},
		Labels: map[string]string{LabelDrainGuard: string(n.UID), "app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "drain-guard"},
	}
}
