package loop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

func (e *env) guards() (budgets, pods int) {
	return e.count(schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}),
		e.count(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) - e.controllers
}

// S173: wherever the loop is killed, no pod of a guard is there without its budget, and the next loop comes to the same end.
func TestS173_AGuardIsMadeAndRemovedWhereverTheLoopIsKilled(t *testing.T) {
	killedAnywhere(t, func(t *testing.T, w *writes) {
		e := newEnv(t, w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "node-2"}})
		e.onWrite = func(o runtime.Object) {
			if _, ok := o.(*corev1.Pod); ok {
				budgets, _ := e.guards()
				require.Equal(t, 1, budgets)
			}
		}
		e.log.nodes = []*adminpb.Node{{Id: "n1", StopReasons: []string{"volume v would be lost"}}, {Id: "n2"}}
		_ = e.loop().Sync(t.Context())
		if w.at == 0 || !w.dead {
			e.log.nodes[0].StopReasons = nil
			_ = e.loop().Sync(t.Context())
			killed := revive(w)
			require.NoError(t, e.loop().Sync(t.Context()))
			budgets, pods := e.guards()
			require.Equal(t, []int{0, 0}, []int{budgets, pods})
			w.dead = killed
			return
		}
		killed := revive(w)
		for range 2 {
			require.NoError(t, e.loop().Sync(t.Context()))
			budgets, pods := e.guards()
			require.Equal(t, []int{1, 1}, []int{budgets, pods})
		}
		w.dead = killed
	})
}

// S173: a guard stays while nobody can tell, and goes with its node.
func TestS173_AGuardStaysWhileTheControllersDoNotAnswer(t *testing.T) {
	e := newEnv(t, &writes{}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "c-0", Labels: map[string]string{"app": "controller"}}})
	e.controllers = 1
	e.log.nodes = []*adminpb.Node{{Id: "n1", StopReasons: []string{"volume v would be lost"}}}
	require.NoError(t, e.loop().Sync(t.Context()))
	require.Contains(t, <-e.said.Events, plan.ReasonDrainBlocked)
	e.log.err = status.Error(codes.Unavailable, "no leader")
	l := e.loop()
	require.ErrorContains(t, l.Sync(t.Context()), "no leader")
	require.Empty(t, e.said.Events, "an election is no news")
	require.ErrorContains(t, l.Sync(t.Context()), "no leader")
	require.Contains(t, <-e.said.Events, plan.ReasonNoQuorum)
	budgets, pods := e.guards()
	require.Equal(t, []int{1, 1}, []int{budgets, pods})
	e.log.err = nil
	e.quietly(func() { require.NoError(t, e.kube.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{})) })
	require.NoError(t, e.loop().Sync(t.Context()))
	budgets, _ = e.guards()
	require.Zero(t, budgets)
}
