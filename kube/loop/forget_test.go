package loop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// tellToEnd is what Kubernetes does to a pod of a tainted node.
func (e *env) tellToEnd(name string) {
	e.quietly(func() {
		pod, err := e.kube.CoreV1().Pods("default").Get(e.t.Context(), name, metav1.GetOptions{})
		require.NoError(e.t, err)
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		_, err = e.kube.CoreV1().Pods("default").Update(e.t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(e.t, err)
	})
}

func (e *env) pods() (names []string) {
	all, err := e.kube.CoreV1().Pods("default").List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	for _, p := range all.Items {
		names = append(names, p.Name)
	}
	return names
}

// S170: under the taint, and not before, a pod that was told to end and whose volume is free is forgotten, so that another can have it;
// one that was not told, or that has no volume of ours, is not.
func TestS170_APodThatWasToldToEndIsForgotten(t *testing.T) {
	staying, elsewhere := userOf("data", "n1"), userOf("data", "n2")
	staying.Name, elsewhere.Name = "tolerates", "elsewhere"
	without := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "without"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	e := silent(t, &writes{}, staying, elsewhere, without)
	for _, name := range []string{"user", "elsewhere", "without"} {
		e.tellToEnd(name)
	}
	e.sync()
	require.False(t, e.isTainted(e.node()), "nothing is proven")
	require.ElementsMatch(t, []string{"user", "tolerates", "elsewhere", "without"}, e.pods())
	sever(e)
	for range 2 {
		e.sync()
	}
	require.True(t, e.isTainted(e.node()))
	for range 2 {
		e.sync()
		require.ElementsMatch(t, []string{"tolerates", "elsewhere", "without"}, e.pods())
	}
}

// tainted is a cluster whose node n1 was failed over, and whose pod there was told to end.
func tainted(t *testing.T) *env {
	e := silent(t, &writes{})
	sever(e)
	for range 2 {
		e.sync()
	}
	require.True(t, e.isTainted(e.node()))
	e.tellToEnd("user")
	return e
}

func kindOf(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

// tracked is an object as a reactor may read it: the client's lock is held.
func (e *env) tracked(resource, namespace, name string) runtime.Object {
	object, err := e.kube.Tracker().Get(kindOf(resource), namespace, name)
	require.NoError(e.t, err)
	return object
}

// onPodList calls back before the pods are listed for the nth time.
func (e *env) onPodList(nth int, do func()) {
	e.kube.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		if nth--; nth == 0 {
			do()
		}
		return false, nil, nil
	})
}

// S170: a loop that was slow finds the node in service again, and a pod there that its kubelet ends with its grace.
func TestS170_APodOfANodeThatServesAgainIsNotForgotten(t *testing.T) {
	for nth := range 3 {
		e := tainted(t)
		e.onPodList(nth+1, func() {
			e.log.state["n1"] = &adminpb.OutOfServiceResponse{Node: "n1", HostId: "host-1", State: "reachable"}
			n := e.tracked("nodes", "", "n1").(*corev1.Node)
			n.Spec.Taints, n.Annotations = nil, nil
			n.Status.Conditions[0].Status = corev1.ConditionTrue
			require.NoError(t, e.kube.Tracker().Update(kindOf("nodes"), n, ""))
			require.NoError(t, e.kube.Tracker().Delete(kindOf("pods"), "default", "user"))
			anew := userOf("data", "n1")
			anew.Name, anew.UID, anew.DeletionTimestamp = "anew", "pod-2", &metav1.Time{Time: time.Unix(1, 0)}
			require.NoError(t, e.kube.Tracker().Add(anew))
		})
		e.sync()
		require.NotContains(t, e.pods(), "user")
		require.Contains(t, e.pods(), "anew")
	}
}

// A pod that somebody's finalizer keeps is forgotten once, and nodes are not looked at more often for ever.
func TestS170_APodThatAFinalizerKeepsIsForgottenOnce(t *testing.T) {
	e := tainted(t)
	deleted := 0
	e.kube.PrependReactor("delete", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		deleted++
		pod := e.tracked("pods", "default", "user").(*corev1.Pod)
		pod.DeletionGracePeriodSeconds = new(int64)
		require.NoError(t, e.kube.Tracker().Update(kindOf("pods"), pod, "default"))
		return true, nil, nil
	})
	for range 3 {
		e.sync()
	}
	require.Equal(t, 1, deleted)
}

// A step that is the next one again and again, as long as others do nothing, is no reason to hurry for ever.
func TestHurryEndsWhileAStepWaitsForOthers(t *testing.T) {
	e := silent(t, &writes{})
	l := e.loop()
	require.NoError(t, l.SyncNodes(t.Context()))
	e.kubelet(corev1.ConditionTrue) // its host did not end what it held
	for range hurryLooks + 2 {
		require.NoError(t, l.Sync(t.Context()))
		require.NoError(t, l.SyncNodes(t.Context()))
	}
	require.Equal(t, time.Minute, l.failover.hurry.pause(time.Minute))
}

// After a step nodes are looked at more often, for a while.
func TestHurryEnds(t *testing.T) {
	var h hurry
	require.Equal(t, 3*time.Second, h.pause(3*time.Second))
	h.begin()
	for range hurryLooks {
		h.looked()
		require.Equal(t, hurryPause, h.pause(3*time.Second))
		require.Equal(t, time.Millisecond, h.pause(time.Millisecond), "no look is put off")
	}
	h.looked()
	require.Equal(t, 3*time.Second, h.pause(3*time.Second))
}
