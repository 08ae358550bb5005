package loop

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	k8stesting "k8s.io/client-go/testing"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

func (e *env) deletePod(name string) {
	e.quietly(func() {
		require.NoError(e.t, e.kube.CoreV1().Pods("holdfast").Delete(e.t.Context(), name, metav1.DeleteOptions{}))
	})
}

// S173: a guard does not come back to a node that an autoscaler drains, which waits until no pod of that name is there; nor is it
// kept from coming where the node must not be drained.
func TestS173_AnAutoscalersDrainEnds(t *testing.T) {
	for _, key := range []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"} {
		t.Run(key, func(t *testing.T) {
			e := guardEnv(t, &writes{})
			e.sync()
			e.be(corev1.PodRunning)
			e.changeNode("n1", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
			})
			e.deletePod("holdfast-drain-n1")
			for range 2 {
				e.sync()
				pod, _ := e.guard("n1")
				require.Nil(t, pod)
			}
			e.must("n1", lost)
			e.sync()
			pod, closed := e.guard("n1")
			require.True(t, pod != nil && closed)
			e.must("n1", "")
			e.deletePod("holdfast-drain-n1")
			e.changeNode("n1", func(n *corev1.Node) { n.Spec.Taints[0].Key = "node-role.kubernetes.io/control-plane" })
			e.sync()
			pod, closed = e.guard("n1")
			require.True(t, pod != nil && !closed)
		})
	}
}

// S173: an autoscaler does not take a machine away for good that holds a replica, a controller, or what keeps it from being drained; what
// was said last stays while nobody can tell.
func TestS173_AnAutoscalerTakesNoMachineThatHoldsSomething(t *testing.T) {
	controller := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "c-0", Labels: map[string]string{"app": "controller"}}}
	controller.Spec.NodeName = "n3"
	e := guardEnv(t, &writes{}, controller)
	e.log.nodes[0].Volumes = 1
	says := func(node, safe, stay string) {
		t.Helper()
		for range 2 {
			e.sync()
			pod, _ := e.guard(node)
			require.Equal(t, []string{safe, stay}, []string{pod.Annotations[plan.AnnotationSafeToEvict], pod.Annotations[plan.AnnotationDoNotDisrupt]})
		}
	}
	says("n1", "false", "true")
	says("n2", "true", "false")
	says("n3", "false", "true")
	e.log.nodes[1].Pools = []*adminpb.Pool{{Id: "empty"}, {Id: "hp-1", ReservedBytes: 1 << 20}} // of a snapshot whose volume is gone
	says("n2", "false", "true")
	e.log.nodes[1].Pools = nil
	says("n2", "true", "false")
	e.be(corev1.PodRunning)
	old, _ := e.guard("n1")
	e.log.nodes[0].Volumes = 0
	says("n1", "true", "false")
	e.must("n1", lost)
	says("n1", "false", "true")
	e.log.nodes[0].State = "unreachable"
	e.must("n1", "")
	says("n1", "false", "true")
	now, _ := e.guard("n1")
	require.Equal(t, old.UID, now.UID)
}

// S173: a guard that is made while nobody can tell says that the machine must stay.
func TestS173_AnAutoscalerTakesNoMachineOfWhichNobodyCanTell(t *testing.T) {
	e := guardEnv(t, &writes{})
	e.log.nodes[0].Adopted = false
	for range 2 {
		e.sync()
		pod, _ := e.guard("n1")
		require.Equal(t, "false", pod.Annotations[plan.AnnotationSafeToEvict])
		require.Equal(t, "true", pod.Annotations[plan.AnnotationDoNotDisrupt])
	}
}

// S173: what a guard does not depend on does not keep a node from being closed.
func TestS173_ANodeIsClosedWhateverElseFails(t *testing.T) {
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumes", "storageclasses"} {
		t.Run(resource, func(t *testing.T) {
			e := guardEnv(t, &writes{})
			e.kube.PrependReactor("list", resource, func(k8stesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("the server was unable to return a response in the time allotted")
			})
			e.must("n1", lost)
			for range 2 {
				require.ErrorContains(t, e.loop().Sync(t.Context()), "time allotted")
				_, closed := e.guard("n1")
				require.True(t, closed)
			}
		})
	}
	e := guardEnv(t, &writes{})
	e.log.volumesErr = errors.New("volumes: message larger than max")
	e.must("n1", lost)
	require.ErrorContains(t, e.loop().Sync(t.Context()), "larger than max")
	_, closed := e.guard("n1")
	require.True(t, closed)
}

// S173: nodes are closed before guards of nodes that are gone are removed: the API server may take its time for these.
func TestS173_NodesAreClosedBeforeWhatIsLeftGoes(t *testing.T) {
	e := guardEnv(t, &writes{})
	e.log.nodes = append(e.log.nodes, &adminpb.Node{Id: "n3", State: "reachable", Adopted: true})
	e.must("n3", lost)
	e.sync()
	e.quietly(func() { require.NoError(t, e.kube.CoreV1().Nodes().Delete(t.Context(), "n3", metav1.DeleteOptions{})) })
	e.log.nodes = e.log.nodes[:2]
	e.must("n1", lost)
	removed := 0
	e.onDelete = func(runtime.Object) {
		removed++
		require.NotNil(t, e.budgetOf(e.podOf("n1")))
	}
	e.sync()
	require.Equal(t, 2, removed)
}

// podOf is the guard on a node, also in the middle of a write.
func (e *env) podOf(node string) *corev1.Pod {
	object, err := e.kube.Tracker().Get(podKind, "holdfast", "holdfast-drain-"+node)
	require.NoError(e.t, err)
	return object.(*corev1.Pod)
}

func (e *env) weakenBudget(node string) {
	zero := intstr.FromInt32(0)
	b := e.budgetOf(e.podOf(node)).DeepCopy()
	b.Spec.MinAvailable = &zero
	require.NoError(e.t, e.kube.Tracker().Update(budgets, b, "holdfast"))
}

// S173: a budget that was changed so that it keeps nothing is written again; where somebody changes it each time, that is an error, and
// each look ends.
func TestS173_ABudgetThatKeepsNothingIsWrittenAgain(t *testing.T) {
	w := &writes{}
	e := guardEnv(t, w)
	e.must("n1", lost)
	e.sync()
	for range 2 {
		e.weakenBudget("n1")
		e.sync()
		require.Equal(t, 1, e.budgetOf(e.podOf("n1")).Spec.MinAvailable.IntValue())
	}
	e.weakenBudget("n1")
	e.onWrite = func(o runtime.Object) {
		if b, ok := o.(*policyv1.PodDisruptionBudget); ok {
			zero := intstr.FromInt32(0)
			b.Spec.MinAvailable = &zero
		}
	}
	n := w.n
	require.ErrorContains(t, e.loop().Sync(t.Context()), "does not stay")
	require.LessOrEqual(t, w.n, n+2)
}
