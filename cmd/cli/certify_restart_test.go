package cli

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

func controllerPod(uid types.UID, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "holdfast-controller-1", UID: uid},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

// evictions answers an eviction with these errors in turn; then it replaces the pod by one that is ready a look later.
func evictions(t *testing.T, answers ...error) (r *podRestarter, asked *int) {
	kube := fake.NewClientset(controllerPod("old", corev1.ConditionTrue))
	asked = new(int)
	kube.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		eviction := a.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction)
		require.Equal(t, types.UID("old"), *eviction.DeleteOptions.Preconditions.UID)
		if *asked++; *asked <= len(answers) {
			return true, nil, answers[*asked-1]
		}
		return true, eviction, kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), controllerPod("new", corev1.ConditionFalse), "holdfast")
	})
	looks := 0
	kube.PrependReactor("get", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		if looks++; looks == 4+len(answers) {
			return true, controllerPod("new", corev1.ConditionTrue), nil
		}
		return false, nil, nil
	})
	return &podRestarter{api: kube, namespace: "holdfast", pause: time.Millisecond}, asked
}

func TestAControllerIsRestartedByAnEviction(t *testing.T) {
	forbidden := apierrors.NewTooManyRequests("its budget forbids it", 0)
	r, asked := evictions(t, forbidden, forbidden)
	require.NoError(t, r.restart(t.Context(), "holdfast-controller-1"))
	require.Equal(t, 3, *asked)
}

func TestARestartThatDoesNotComeAboutSaysWhy(t *testing.T) {
	r, _ := evictions(t, apierrors.NewForbidden(policyv1.Resource("pods"), "holdfast-controller-1", nil))
	require.ErrorContains(t, r.restart(t.Context(), "holdfast-controller-1"), "evict its pod")
	require.ErrorContains(t, r.restart(t.Context(), "holdfast-controller-9"), "find its pod")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r.api = fake.NewClientset(controllerPod("old", corev1.ConditionTrue))
	require.ErrorContains(t, r.awaitReady(ctx, "holdfast-controller-1", "old"), "kubectl -n holdfast describe pod holdfast-controller-1")
}

func pluginPod(name string, host string, ready corev1.ConditionStatus) *corev1.Pod {
	pod := controllerPod(types.UID(name), ready)
	pod.Name, pod.Spec.NodeName = name, host
	pod.Labels = map[string]string{"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "node"}
	return pod
}

// TestANodePluginIsRestartedByAnEviction: what replaces it has another name, and another host's is left alone.
func TestANodePluginIsRestartedByAnEviction(t *testing.T) {
	kube := fake.NewClientset(pluginPod("a", "n1", corev1.ConditionTrue), pluginPod("b", "n2", corev1.ConditionTrue), controllerPod("c", corev1.ConditionTrue))
	kube.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		require.Equal(t, types.UID("a"), *a.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction).DeleteOptions.Preconditions.UID)
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		require.NoError(t, kube.Tracker().Delete(pods, "holdfast", "a"))
		return true, nil, kube.Tracker().Create(pods, pluginPod("d", "n1", corev1.ConditionTrue), "holdfast")
	})
	r := &podRestarter{api: kube, namespace: "holdfast", pause: time.Millisecond}
	require.NoError(t, r.restartPlugin(t.Context(), "n1"))
	require.ErrorContains(t, r.restartPlugin(t.Context(), "n3"), "no pod of it is on the host")
}

func TestRestartsNeedKubernetes(t *testing.T) {
	_, stderr := run(t, 2, "certify", "--restart-controllers")
	require.Contains(t, stderr, "--kube")
}
