package loop

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// takeTaintOff is what a person does who sees the taint.
func takeTaintOff(e *env) {
	e.quietly(func() {
		n := e.node()
		n.Spec.Taints = n.Spec.Taints[:1]
		_, err := e.kube.CoreV1().Nodes().Update(e.t.Context(), n, metav1.UpdateOptions{})
		require.NoError(e.t, err)
	})
}

// detached: the volumes of pods that are gone are detached, and nobody ends a pod that tolerates the taint.
func detached(e *env) {
	e.quietly(func() {
		_, err := e.kube.CoreV1().Pods("default").Get(e.t.Context(), "user", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			err = e.kube.StorageV1().VolumeAttachments().Delete(e.t.Context(), plan.Driver+"-n1", metav1.DeleteOptions{})
			require.True(e.t, err == nil || apierrors.IsNotFound(err), err)
		}
	})
}

// S170: a node whose pods did not end under the taint, because it was taken off or they tolerate it, returns all the same: their mounts
// are dead, and the loop ends them.
func TestS170_ANodeReturnsWhosePodsDidNotEndUnderTheTaint(t *testing.T) {
	for name, order := range map[string][]func(*env){
		"somebody took the taint off": {(*env).sync, sever, (*env).sync, takeTaintOff, comeBack, (*env).sync, detached, (*env).sync},
		"the pod tolerates it":        {(*env).sync, sever, (*env).sync, comeBack, (*env).sync, detached, (*env).sync},
	} {
		t.Run(name, func(t *testing.T) { failOverWhereverKilled(t, order, silent) })
		t.Run(name+", known by its Lease", func(t *testing.T) { failOverWhereverKilled(t, order, leaseSilent) })
	}
}

// S170: no pod is ended under the taint while the kubelet is not heard of: it may tolerate it, and nobody would confirm its end.
func TestS170_APodThatToleratesTheTaintIsLeftWhileItsNodeIsAway(t *testing.T) {
	e := silent(t, &writes{})
	for _, do := range []func(*env){(*env).sync, sever, (*env).sync, (*env).sync} {
		do(e)
	}
	require.True(t, e.isTainted(e.node()))
	pod, err := e.kube.CoreV1().Pods("default").Get(t.Context(), "user", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
}
