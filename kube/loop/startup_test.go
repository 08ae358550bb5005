package loop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

func joining(name string, uid types.UID) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Annotations: map[string]string{"kept": "yes"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: plan.TaintStartup, Effect: corev1.TaintEffectNoExecute}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}}}}
}

func offering(node string, uid types.UID, driver string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node, OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: node, UID: uid}}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: node}}}}
}

func (e *env) taints(node string) (keys []string) {
	n, err := e.kube.CoreV1().Nodes().Get(e.t.Context(), node, metav1.GetOptions{})
	require.NoError(e.t, err)
	require.Equal(e.t, "yes", n.Annotations["kept"])
	for _, taint := range n.Spec.Taints {
		keys = append(keys, taint.Key)
	}
	return keys
}

// A node that joins keeps the taint until kubelet has the driver on it, and then loses that one alone; a loop that is killed at any
// write leaves what another one ends.
func TestANodeThatJoinsLosesItsTaintWithTheDriver(t *testing.T) {
	killedAnywhere(t, func(t *testing.T, w *writes) {
		e := newEnv(t, w, joining("n1", "node-1"), joining("n2", "node-2"), joining("n3", "node-3"), joining("n4", "node-4"),
			offering("n1", "node-1", plan.Driver), offering("n2", "node-2", plan.Driver), offering("n3", "node-of-before", plan.Driver))
		err := e.loop().SyncNodes(t.Context())
		killed := revive(w)
		require.Equal(t, killed, err != nil)
		for range 2 {
			require.NoError(t, e.loop().SyncNodes(t.Context()))
		}
		w.dead = killed
		require.Equal(t, []string{"other"}, e.taints("n1"))
		require.Equal(t, []string{"other"}, e.taints("n2"))
		require.Equal(t, []string{plan.TaintStartup, "other"}, e.taints("n3"), "its CSINode is of a node of that name before it")
		require.Equal(t, []string{plan.TaintStartup, "other"}, e.taints("n4"), "kubelet offers nothing there")
	})
}

// Nodes that wait for the driver for ever, as where no storage host may be, cost a look at all of them no more than one does.
func TestNodesThatNeverGetTheDriverAreOneQuestion(t *testing.T) {
	var objects []runtime.Object
	for i := range 200 {
		objects = append(objects, joining(fmt.Sprintf("n%d", i), "node"))
	}
	e := newEnv(t, nil, objects...)
	before := len(e.kube.Actions())
	require.NoError(t, e.loop().SyncNodes(t.Context()))
	require.Less(t, len(e.kube.Actions())-before, 10)
}
