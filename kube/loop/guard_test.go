package loop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

const lost = "volume v would be lost"

func (e *env) guards() (budgets, pods int) {
	return e.count(schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}),
		e.count(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) - e.controllers
}

// guardEnv is a cluster with nodes n1 and n2 of Holdfast, and n3 of somebody else. No pod that runs is removed while it is needed.
func guardEnv(t *testing.T, w *writes, objects ...runtime.Object) *env {
	e := newEnv(t, w, append(objects, aNode("n1"), aNode("n2"), aNode("n3"))...)
	e.log.nodes = []*adminpb.Node{{Id: "n1", State: "reachable", Adopted: true}, {Id: "n2", State: "reachable", Adopted: true}}
	e.onDelete = func(o runtime.Object) {
		pod, ok := o.(*corev1.Pod)
		if !ok || pod.Status.Phase != corev1.PodRunning {
			return
		}
		for _, n := range e.log.nodes {
			require.False(t, n.GetId() == pod.Spec.NodeName && len(n.GetStopReasons()) > 0, "the guard of %s is removed", n.GetId())
		}
	}
	return e
}

// look has a loop look, and another one if it was killed; then all is as check says, and stays so.
func (e *env) look(killed *bool, change, check func()) {
	e.t.Helper()
	change()
	err := e.loop().Sync(e.t.Context())
	if e.dead {
		*killed = revive(e.writes)
		err = e.loop().Sync(e.t.Context())
	}
	require.NoError(e.t, err)
	check()
	n := e.n
	require.NoError(e.t, e.loop().Sync(e.t.Context()))
	check()
	require.Equal(e.t, n, e.n, "nothing is left to do")
}

// S173: wherever the loop is killed, a guard's pod stands before there is a reason and stays while there is one, and is replaced, evicted,
// and made again only where nothing needs it.
func TestS173_AGuardStandsAndClosesWhereverTheLoopIsKilled(t *testing.T) {
	killedAnywhere(t, func(t *testing.T, w *writes) {
		e, killed := guardEnv(t, w), false
		var uid [2]string // of the pods on n1 and n2
		guards := func(pod1, closed1, pod2, closed2 bool) {
			t.Helper()
			for i, want := range [][]bool{{pod1, closed1}, {pod2, closed2}} {
				pod, closed := e.guard([]string{"n1", "n2"}[i])
				require.Equal(t, want, []bool{pod != nil, closed})
				uid[i] = ""
				if pod != nil {
					uid[i] = string(pod.UID)
					require.Equal(t, "role-1", string(metav1.GetControllerOf(pod).UID))
				}
			}
			_, pods := e.guards()
			require.LessOrEqual(t, pods, 2, "there is none on n3")
		}
		e.look(&killed, func() {}, func() { guards(true, false, true, false) })
		e.be(corev1.PodRunning)
		old := uid
		e.look(&killed, func() { e.must("n1", lost) }, func() { guards(true, true, true, false) })
		e.look(&killed, func() { e.must("n1", "volume w would be lost") }, func() { guards(true, true, true, false) })
		require.Equal(t, old, uid)
		e.look(&killed, func() { e.image = "holdfast:2" }, func() { guards(true, true, true, false) })
		require.Equal(t, old[0], uid[0], "one that is needed is not replaced")
		require.NotEqual(t, old[1], uid[1])
		e.be(corev1.PodRunning)
		e.look(&killed, func() { e.must("n1", "") }, func() { guards(true, false, true, false) })
		require.NotEqual(t, old[0], uid[0])
		e.be(corev1.PodRunning)
		e.look(&killed, func() {
			e.changeNode("n2", cordon)
			e.quietly(func() {
				require.NoError(t, e.kube.CoreV1().Pods("holdfast").Delete(t.Context(), "holdfast-drain-n2", metav1.DeleteOptions{}))
			})
		}, func() { guards(true, false, false, false) })
		e.look(&killed, func() { e.must("n2", lost) }, func() { guards(true, false, true, true) })
		e.look(&killed, func() { e.must("n2", "") }, func() { guards(true, false, true, false) })
		old = uid
		e.look(&killed, func() { e.changeNode("n2", uncordon) }, func() { guards(true, false, true, false) })
		require.Equal(t, old, uid)
		e.look(&killed, func() { e.be(corev1.PodFailed) }, func() { guards(true, false, true, false) })
		require.NotEqual(t, old[0], uid[0])
		require.NotEqual(t, old[1], uid[1])
		e.look(&killed, func() { e.log.nodes = e.log.nodes[:1] }, func() { guards(true, false, false, false) })
		w.dead = killed
	})
}

// S173: a pod of an earlier version belongs to its budget. It stays while the budget does, and is replaced once nothing needs it.
func TestS173_AnEarlierGuardIsHandedOverWhereverTheLoopIsKilled(t *testing.T) {
	killedAnywhere(t, func(t *testing.T, w *writes) {
		g, n := plan.Guard{Namespace: "holdfast", Image: "holdfast:0"}, aNode("n1")
		budget := g.Budget(n, nil, lost)
		budget.UID, budget.ResourceVersion = "budget-0", "0"
		pod := g.Pod(n, nil, budget, false)
		pod.UID, pod.Status.Phase = "pod-0", corev1.PodRunning
		delete(pod.Annotations, plan.AnnotationGuardSpec)
		e, killed := guardEnv(t, w, budget, pod), false
		e.look(&killed, func() { e.must("n1", lost) }, func() {
			now, closed := e.guard("n1")
			require.True(t, closed)
			require.Equal(t, pod.UID, now.UID)
			require.True(t, metav1.IsControlledBy(now, budget))
			require.Equal(t, "role-1", string(metav1.GetControllerOf(e.budgetOf(now)).UID), "an uninstall removes the budget, and with it the pod")
		})
		e.be(corev1.PodRunning)
		e.look(&killed, func() { e.must("n1", "") }, func() {
			now, closed := e.guard("n1")
			require.False(t, closed)
			require.NotEqual(t, pod.UID, now.UID)
			require.Equal(t, "role-1", string(metav1.GetControllerOf(now).UID))
		})
		w.dead = killed
	})
}

// S173: of two loops, one that is late removes neither a budget nor a pod that the other closed a node with.
func TestS173_ALateLoopDoesNotOpenWhatAnotherClosed(t *testing.T) {
	e := guardEnv(t, &writes{})
	e.sync()
	e.be(corev1.PodRunning)
	e.must("n1", lost)
	e.sync()
	late, n := e.loop().guards, aNode("n1")
	facts := func() plan.GuardFacts {
		g, err := late.readGuards(t.Context(), e.log.nodes)
		require.NoError(t, err)
		return late.guardFacts(g, n)
	}
	e.must("n1", "")
	f := facts()
	require.NoError(t, late.doGuard(t.Context(), n, &f, plan.GuardSay))
	require.Equal(t, plan.GuardOpen, plan.NextGuard(f))
	e.must("n1", lost) // the same reason as before
	e.sync()
	require.True(t, apierrors.IsConflict(late.doGuard(t.Context(), n, &f, plan.GuardOpen)))
	require.NoError(t, late.lookAgain(t.Context(), n, &f, plan.GuardOpen))
	require.Equal(t, plan.GuardNone, plan.NextGuard(f))
	e.must("n1", "")
	e.sync()
	late.Guard.Image = "holdfast:2"
	f = facts()
	require.Equal(t, plan.GuardEvictPod, plan.NextGuard(f))
	e.must("n1", lost)
	e.sync()
	require.True(t, apierrors.IsTooManyRequests(late.doGuard(t.Context(), n, &f, plan.GuardEvictPod)))
	pod, closed := e.guard("n1")
	require.True(t, pod != nil && closed)
}

// S173: a reason that returns after the loop asked for it is found before the budget is removed.
func TestS173_AReasonThatReturnsIsFoundBeforeTheBudgetGoes(t *testing.T) {
	e := guardEnv(t, &writes{})
	e.must("n1", lost)
	e.sync()
	e.be(corev1.PodRunning)
	e.must("n1", "")
	e.onWrite = func(o runtime.Object) {
		if b, ok := o.(*policyv1.PodDisruptionBudget); ok && b.Annotations[plan.AnnotationWhy] == "" {
			e.must("n1", lost)
		}
	}
	e.sync()
	pod, closed := e.guard("n1")
	require.True(t, closed)
	require.Contains(t, e.budgetOf(pod).Annotations[plan.AnnotationWhy], lost)
}

// S173: the guards of a new version run one after the other, so that at most one node has none that runs.
func TestS173_OneGuardIsReplacedAtATime(t *testing.T) {
	e := guardEnv(t, &writes{})
	e.sync()
	e.be(corev1.PodRunning)
	e.image = "holdfast:2"
	replaced := func() (n int) {
		for _, node := range []string{"n1", "n2"} {
			if pod, _ := e.guard(node); pod.Spec.Containers[0].Image == e.image {
				n++
			}
		}
		return n
	}
	for range 2 {
		e.sync()
		require.Equal(t, 1, replaced(), "the first does not run yet")
	}
	e.image = "holdfast:3"
	e.sync()
	require.Equal(t, 1, replaced(), "one that does not run is replaced, whatever kept it from running")
	e.be(corev1.PodRunning)
	e.sync()
	require.Equal(t, 2, replaced())
}

// S173: a guard stays while nobody can tell, and goes with its node, also where another node has its name.
func TestS173_AGuardStaysWhileTheControllersDoNotAnswer(t *testing.T) {
	e := guardEnv(t, &writes{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "c-0", Labels: map[string]string{"app": "controller"}}})
	e.controllers = 1
	e.must("n1", lost)
	e.log.nodes = e.log.nodes[:1]
	require.NoError(t, e.loop().Sync(t.Context()))
	require.Contains(t, <-e.said.Events, "a drain that begins now passes")
	e.log.err = status.Error(codes.Unavailable, "no leader")
	l := e.loop()
	require.ErrorContains(t, l.Sync(t.Context()), "no leader")
	require.Empty(t, e.said.Events, "an election is no news")
	require.ErrorContains(t, l.Sync(t.Context()), "no leader")
	require.Contains(t, <-e.said.Events, plan.ReasonNoQuorum)
	budgets, pods := e.guards()
	require.Equal(t, []int{1, 1}, []int{budgets, pods})
	e.log.err = nil
	e.must("n1", "")
	e.log.nodes[0].State = "unreachable"
	e.sync()
	_, closed := e.guard("n1")
	require.True(t, closed, "the host is not heard of, and the node is there")
	old, _ := e.guard("n1")
	e.changeNode("n1", func(n *corev1.Node) { n.UID = "uid-4" })
	e.sync()
	now, closed := e.guard("n1")
	require.False(t, closed)
	require.Equal(t, "uid-4", now.Labels[plan.LabelDrainGuard])
	require.NotEqual(t, old.UID, now.UID)
	e.quietly(func() { require.NoError(t, e.kube.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{})) })
	e.sync()
	budgets, pods = e.guards()
	require.Equal(t, []int{0, 0}, []int{budgets, pods})
}

// S173: without the Role to which guards belong a node that must not be drained is closed all the same; its pod belongs to the budget.
func TestS173_AGuardIsMadeWithoutItsOwner(t *testing.T) {
	e := guardEnv(t, &writes{})
	e.quietly(func() {
		require.NoError(t, e.kube.RbacV1().Roles("holdfast").Delete(t.Context(), plan.GuardOwnerRole, metav1.DeleteOptions{}))
	})
	e.must("n1", lost)
	for range 2 {
		require.ErrorContains(t, e.loop().Sync(t.Context()), "read role holdfast-kube")
		pod, closed := e.guard("n1")
		require.True(t, closed)
		require.True(t, metav1.IsControlledBy(pod, e.budgetOf(pod)))
		pod, _ = e.guard("n2")
		require.Nil(t, pod, "drains refuse a pod without a controller")
	}
}

// S173: a node with a controller has a guard too, and neither a node that is not Ready nor one of a list that is old gets one without a reason.
func TestS173_WhichNodesHaveAGuard(t *testing.T) {
	controller := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "c-0", Labels: map[string]string{"app": "controller"}}}
	controller.Spec.NodeName = "n3"
	e := guardEnv(t, &writes{}, controller)
	e.changeNode("n2", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	e.sync()
	for node, want := range map[string]bool{"n1": true, "n2": false, "n3": true} {
		pod, _ := e.guard(node)
		require.Equal(t, want, pod != nil, node)
	}
	e.changeNode("n2", cordon)
	l := e.loop().guards
	g, err := l.readGuards(t.Context(), e.log.nodes)
	require.NoError(t, err)
	require.NoError(t, l.guard(t.Context(), g, aNode("n2")))
	pod, _ := e.guard("n2")
	require.Nil(t, pod)
}

// The loop does not spend one look on the guards of a large cluster.
func TestManyNewGuardsAreMadeInSeveralLooks(t *testing.T) {
	e := newEnv(t, &writes{})
	e.quietly(func() {
		for i := range maxNewGuards + 5 {
			n := aNode(string(rune('a' + i)))
			require.NoError(t, e.kube.Tracker().Add(n))
			e.log.nodes = append(e.log.nodes, &adminpb.Node{Id: n.Name})
		}
	})
	e.must("y", lost)
	e.sync()
	budgets, pods := e.guards()
	require.Equal(t, []int{1, maxNewGuards + 1}, []int{budgets, pods})
	_, closed := e.guard("y")
	require.True(t, closed)
	e.sync()
	_, pods = e.guards()
	require.Equal(t, maxNewGuards+5, pods)
}
