package loop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/apitest"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

const guardOfN1 = "holdfast-drain-n1"

// newRealGuardEnv has a node n1 that is Ready, and of Holdfast.
func newRealGuardEnv(t *testing.T, controllers string) *realEnv {
	e := newRealEnv(t, controllers)
	e.makeNode()
	e.setNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	e.log.nodes = []*adminpb.Node{{Id: "n1", State: "reachable", Adopted: true}}
	return e
}

// setNode changes the node and its status.
func (e *realEnv) setNode(change func(*corev1.Node)) {
	e.t.Helper()
	n, err := e.kube.CoreV1().Nodes().Get(e.t.Context(), "n1", metav1.GetOptions{})
	require.NoError(e.t, err)
	change(n)
	status := n.DeepCopy()
	n, err = e.kube.CoreV1().Nodes().Update(e.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(e.t, err)
	n.Status = status.Status
	_, err = e.kube.CoreV1().Nodes().UpdateStatus(e.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(e.t, err)
}

func (e *realEnv) must(why string) {
	e.log.nodes[0].StopReasons = nil
	if why != "" {
		e.log.nodes[0].StopReasons = []string{why}
	}
}

func (e *realEnv) sync() {
	e.t.Helper()
	require.NoError(e.t, e.loop().Sync(e.t.Context()))
}

// guard is the pod; nil: there is none.
func (e *realEnv) guard() *corev1.Pod {
	e.t.Helper()
	pod, err := found(e.kube.CoreV1().Pods("holdfast").Get(e.t.Context(), guardOfN1, metav1.GetOptions{}))
	require.NoError(e.t, err)
	return pod
}

func (e *realEnv) budget() *policyv1.PodDisruptionBudget {
	e.t.Helper()
	b, err := found(e.kube.PolicyV1().PodDisruptionBudgets("holdfast").Get(e.t.Context(), guardOfN1, metav1.GetOptions{}))
	require.NoError(e.t, err)
	return b
}

// run is what the kubelet says of the pod.
func (e *realEnv) run() {
	e.t.Helper()
	pod := e.guard()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	_, err := e.kube.CoreV1().Pods("holdfast").UpdateStatus(e.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(e.t, err)
}

func (e *realEnv) isCounted() bool {
	b := e.budget()
	return b != nil && b.Status.ExpectedPods == 1 && b.Status.CurrentHealthy == 1
}

// evict asks once, as a drain does again and again.
func (e *realEnv) evict() error {
	return e.kube.CoreV1().RESTClient().Post().MaxRetries(0).Namespace("holdfast").Resource("pods").Name(guardOfN1).SubResource("eviction").
		Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: guardOfN1, Namespace: "holdfast"}}).Do(e.t.Context()).Error()
}

// S173: a guard that stands is kept from the first moment of its budget, which no controller has seen; without a budget it goes, and does
// not come back to a node that is cordoned. One that does not run is not kept, which is why it stands.
func TestS173_AStandingGuardIsKeptFromTheFirstMoment(t *testing.T) {
	e := newRealGuardEnv(t, "")
	e.sync()
	require.Nil(t, e.budget())
	e.run()
	stands := e.guard().UID
	e.must(lost)
	e.sync()
	require.Zero(t, e.budget().Status.ObservedGeneration)
	for range 2 {
		require.True(t, apierrors.IsTooManyRequests(e.evict()))
		e.sync()
	}
	require.Equal(t, stands, e.guard().UID)
	e.must("")
	e.sync()
	require.Nil(t, e.budget())
	e.setNode(cordon)
	require.NoError(t, e.evict())
	e.sync()
	require.Nil(t, e.guard())
	e.must(lost)
	e.sync()
	require.NotNil(t, e.budget())
	require.NoError(t, e.evict(), "it does not run yet")
	e.sync()
	e.run()
	require.True(t, apierrors.IsTooManyRequests(e.evict()))
	e.must("")
	e.setNode(uncordon)
	e.sync()
	require.NotNil(t, e.guard())
	require.Nil(t, e.budget())
}

// S173: the eviction API refuses to evict the guard once its budget was counted, too, and no budget is left once the node may stop.
func TestS173_AGuardIsNotEvicted(t *testing.T) {
	e := newRealGuardEnv(t, "disruption-controller")
	_, err := e.kube.SchedulingV1().PriorityClasses().Get(t.Context(), "system-node-critical", metav1.GetOptions{})
	require.NoError(t, err)
	e.sync()
	e.run()
	e.must(lost)
	e.sync()
	e.eventually("its budget is counted", e.isCounted)
	for range 2 {
		require.True(t, apierrors.IsTooManyRequests(e.evict()))
		e.sync()
	}
	e.must("")
	e.sync()
	require.Nil(t, e.budget())
	require.NoError(t, e.evict())
}

// S173: by the real API server: of two loops, one that is late removes neither a budget nor a pod with which the other closed the node.
func TestS173_ALateLoopIsRefused(t *testing.T) {
	e := newRealGuardEnv(t, "")
	e.sync()
	e.run()
	e.must(lost)
	e.sync()
	late, ctx := e.loop().guards, t.Context()
	n, err := e.kube.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	require.NoError(t, err)
	facts := func() plan.GuardFacts {
		g, err := late.readGuards(ctx, e.log.nodes)
		require.NoError(t, err)
		return late.guardFacts(g, n)
	}
	e.must("")
	f := facts()
	require.NoError(t, late.doGuard(ctx, n, &f, plan.GuardSay))
	require.Equal(t, plan.GuardOpen, plan.NextGuard(f))
	e.must(lost)
	e.sync()
	require.True(t, apierrors.IsConflict(late.doGuard(ctx, n, &f, plan.GuardOpen)))
	e.must("")
	e.sync()
	late.Guard.Image = "holdfast:2"
	f = facts()
	require.Equal(t, plan.GuardEvictPod, plan.NextGuard(f))
	e.must(lost)
	e.sync()
	short, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	require.Error(t, late.doGuard(short, n, &f, plan.GuardEvictPod))
	require.NotNil(t, e.guard())
	require.NotNil(t, e.budget())
}

// S173: an uninstall takes the loop's Role, and with it Kubernetes takes guards, also that of an earlier version, whose pod belongs to its
// budget.
func TestS173_GuardsGoWithTheRole(t *testing.T) {
	for name, owned := range map[string]bool{"of this version": true, "of an earlier one": false} {
		t.Run(name, func(t *testing.T) {
			e := newRealGuardEnv(t, "garbage-collector-controller")
			e.must(lost)
			if !owned {
				l := e.loop()
				n, err := e.kube.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
				require.NoError(t, err)
				b, err := e.kube.PolicyV1().PodDisruptionBudgets("holdfast").Create(t.Context(), l.Guard.Budget(n, nil, lost), metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = e.kube.CoreV1().Pods("holdfast").Create(t.Context(), l.Guard.Pod(n, nil, b, true), metav1.CreateOptions{})
				require.NoError(t, err)
				e.run()
			}
			e.sync()
			e.run()
			require.Equal(t, owned, metav1.GetControllerOf(e.guard()).Kind == "Role")
			require.NoError(t, e.kube.RbacV1().Roles("holdfast").Delete(t.Context(), plan.GuardOwnerRole, metav1.DeleteOptions{}))
			e.eventually("both go", func() bool { return e.guard() == nil && e.budget() == nil })
		})
	}
}

// S173: the real `kubectl drain`, without --force, waits at a closed guard, passes an open one, and passes again.
func TestS173_KubectlWaitsAtAGuard(t *testing.T) {
	programs, _ := filepath.Glob(filepath.Join(os.Getenv(apitest.BinariesEnv), "kubectl-v*"))
	if len(programs) == 0 {
		t.Skipf("there is no kubectl-VERSION in %s=%s", apitest.BinariesEnv, os.Getenv(apitest.BinariesEnv))
	}
	e := newRealGuardEnv(t, "disruption-controller")
	dir := t.TempDir()
	config := writeKubeconfig(t, dir, e.config)
	drain := func(more ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), programs[len(programs)-1], append([]string{"--kubeconfig", config, "--cache-dir", dir, "drain", "n1"}, more...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	e.sync()
	e.run()
	e.must(lost)
	e.sync()
	e.eventually("its budget is counted", e.isCounted) // before that each refusal asks for 10 s of patience
	out, err := drain("--timeout=3s")
	require.Error(t, err)
	require.Contains(t, out, "Cannot evict pod as it would violate the pod's disruption budget")
	require.NotNil(t, e.guard())
	e.must("")
	e.sync()
	for range 2 {
		out, err = drain()
		require.NoError(t, err, out)
		e.sync()
		require.Nil(t, e.guard())
	}
}
