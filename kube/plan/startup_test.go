package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

func TestTheStartupTaintEndsWithTheDriverOnThisVeryNode(t *testing.T) {
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule}
	starting := []corev1.Taint{{Key: plan.TaintStartup, Effect: corev1.TaintEffectNoExecute}, other, {Key: plan.TaintStartup, Effect: corev1.TaintEffectNoSchedule}}
	for name, x := range map[string]struct {
		taints []corev1.Taint
		owner  types.UID
		driver string
		ends   bool
	}{
		"the driver is there":                 {taints: starting, owner: "node-2", driver: plan.Driver, ends: true},
		"another driver is":                   {taints: starting, owner: "node-2", driver: "other.csi"},
		"of a node of that name before it":    {taints: starting, owner: "node-1", driver: plan.Driver},
		"the node has no such taint":          {taints: []corev1.Taint{other}, owner: "node-2", driver: plan.Driver},
		"a node without any taint is let be":  {owner: "node-2", driver: plan.Driver},
		"kubelet offers no driver at all yet": {taints: starting, owner: "node-2"},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-2"}, Spec: corev1.NodeSpec{Taints: x.taints}}
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1", OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n1", UID: x.owner}}}}
		if x.driver != "" {
			csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: x.driver}}
		}
		require.Equal(t, x.ends, plan.EndsStartup(n, csi), name)
		require.False(t, plan.EndsStartup(n, nil), name)
	}
	n := &corev1.Node{Spec: corev1.NodeSpec{Taints: starting}}
	require.Equal(t, []corev1.Taint{other}, plan.AfterStartup(n))
	require.Equal(t, starting[0].Key, n.Spec.Taints[0].Key, "the node that was read stays as it was")
	require.NotNil(t, plan.AfterStartup(&corev1.Node{}), "nil would leave the node's taints as they are")
}
