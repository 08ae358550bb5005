package loop

import (
	"errors"
	"strconv"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

var podKind = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

var budgets = schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}

// setVersion gives a budget the next version.
func (e *env) setVersion(resource schema.GroupVersionResource, object metav1.Object) {
	if resource == budgets {
		e.version++
		object.SetResourceVersion(strconv.Itoa(e.version))
	}
}

func (e *env) beforeUpdate(a k8stesting.UpdateActionImpl) error {
	if a.GetResource() != budgets {
		return nil
	}
	object := a.GetObject().(metav1.Object)
	known, err := e.kube.Tracker().Get(budgets, a.GetNamespace(), object.GetName())
	if err != nil {
		return err
	}
	version := object.GetResourceVersion()
	if err := meets(known.(metav1.Object), &metav1.Preconditions{ResourceVersion: &version}); err != nil {
		return err
	}
	e.setVersion(budgets, object)
	return nil
}

// meets is a conflict where an object is not as it is wanted.
func meets(o metav1.Object, want *metav1.Preconditions) error {
	if want != nil && (want.UID != nil && *want.UID != o.GetUID() || want.ResourceVersion != nil && *want.ResourceVersion != o.GetResourceVersion()) {
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("it was changed"))
	}
	return nil
}

// evict does what the API server does: it asks the budgets of a pod that runs.
func (e *env) evict(eviction *policyv1.Eviction) error {
	object, err := e.kube.Tracker().Get(podKind, eviction.Namespace, eviction.Name)
	if err != nil {
		return err
	}
	pod := object.(*corev1.Pod)
	if err := meets(pod, eviction.DeleteOptions.Preconditions); err != nil {
		return err
	}
	if pod.Status.Phase == corev1.PodRunning && e.budgetOf(pod) != nil {
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	}
	if e.onDelete != nil {
		e.onDelete(pod)
	}
	return e.kube.Tracker().Delete(podKind, eviction.Namespace, eviction.Name)
}

// budgetOf is the budget of a pod, also in the middle of a write.
func (e *env) budgetOf(pod *corev1.Pod) *policyv1.PodDisruptionBudget {
	list, err := e.kube.Tracker().List(budgets, schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, pod.Namespace)
	require.NoError(e.t, err)
	for _, b := range list.(*policyv1.PodDisruptionBudgetList).Items {
		if b.Spec.Selector.MatchLabels[plan.LabelDrainGuard] == pod.Labels[plan.LabelDrainGuard] {
			return &b
		}
	}
	return nil
}

// aNode is one that is Ready.
func aNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-" + types.UID(name)}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// changeNode is what an admin, or the kubelet, does.
func (e *env) changeNode(name string, change func(*corev1.Node)) {
	e.quietly(func() {
		n, err := e.kube.CoreV1().Nodes().Get(e.t.Context(), name, metav1.GetOptions{})
		require.NoError(e.t, err)
		change(n)
		_, err = e.kube.CoreV1().Nodes().Update(e.t.Context(), n, metav1.UpdateOptions{})
		require.NoError(e.t, err)
	})
}

func cordon(n *corev1.Node)   { n.Spec.Unschedulable = true }
func uncordon(n *corev1.Node) { n.Spec.Unschedulable = false }

// guard is the pod on a node, and whether it has a budget; nil: there is none.
func (e *env) guard(node string) (*corev1.Pod, bool) {
	name := "holdfast-drain-" + node
	pod, err := found(e.kube.CoreV1().Pods("holdfast").Get(e.t.Context(), name, metav1.GetOptions{}))
	require.NoError(e.t, err)
	budget, err := found(e.kube.PolicyV1().PodDisruptionBudgets("holdfast").Get(e.t.Context(), name, metav1.GetOptions{}))
	require.NoError(e.t, err)
	return pod, budget != nil
}

// be is what the kubelets say of all guards' pods.
func (e *env) be(phase corev1.PodPhase) {
	e.quietly(func() {
		pods, err := e.kube.CoreV1().Pods("holdfast").List(e.t.Context(), metav1.ListOptions{LabelSelector: plan.LabelDrainGuard})
		require.NoError(e.t, err)
		for i := range pods.Items {
			pods.Items[i].Status.Phase = phase
			_, err := e.kube.CoreV1().Pods("holdfast").UpdateStatus(e.t.Context(), &pods.Items[i], metav1.UpdateOptions{})
			require.NoError(e.t, err)
		}
	})
}

// must has a node not be drained, because; empty: it may be.
func (e *env) must(node, why string) {
	for _, n := range e.log.nodes {
		if n.GetId() == node {
			n.StopReasons = nil
			if why != "" {
				n.StopReasons = []string{why}
			}
		}
	}
}
