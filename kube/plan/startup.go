package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Starts tells whether a node has the taint of nodes that join.
func Starts(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, isStartup) }

func isStartup(t corev1.Taint) bool { return t.Key == TaintStartup }

// EndsStartup tells whether that taint is taken off: kubelet has the driver on this very node. A CSINode of a node of the same name that
// was there before stays for a while, and says nothing of this one. With a nil CSINode there is none.
func EndsStartup(n *corev1.Node, csi *storagev1.CSINode) bool {
	return csi != nil && Starts(n) &&
		slices.ContainsFunc(csi.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Node" && o.UID == n.UID }) &&
		slices.ContainsFunc(csi.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == Driver })
}

// AfterStartup are the node's taints without that one.
func AfterStartup(n *corev1.Node) []corev1.Taint {
	return append([]corev1.Taint{}, slices.DeleteFunc(slices.Clone(n.Spec.Taints), isStartup)...)
}
