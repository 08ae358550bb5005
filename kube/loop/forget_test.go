package loop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
