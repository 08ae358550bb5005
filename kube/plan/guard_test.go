package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// S173: the budget is there before the pod, and goes before it.
func TestS173_TheNextStepOfAGuard(t *testing.T) {
	g := Guard{Namespace: "holdfast", Image: "holdfast:1", PullSecrets: []string{"b", "a"}}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"}}
	budget := g.Budget(n, "why")
	budget.UID = "budget-1"
	pod := g.Pod(n, budget, "why")
	goes, failed, stray := pod.DeepCopy(), pod.DeepCopy(), pod.DeepCopy()
	goes.DeletionTimestamp = &metav1.Time{}
	failed.Status.Phase = corev1.PodFailed
	stray.OwnerReferences[0].UID = "budget-0"
	ending := budget.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{}
	for name, tc := range map[string]struct {
		facts GuardFacts
		want  GuardKind
	}{
		"open":                         {GuardFacts{}, GuardNone},
		"to be closed":                 {GuardFacts{Why: "x"}, GuardBudget},
		"to be closed, a pod is left":  {GuardFacts{Why: "x", Pod: stray}, GuardBudget},
		"with a budget":                {GuardFacts{Why: "x", Budget: budget}, GuardPod},
		"closed":                       {GuardFacts{Why: "x", Budget: budget, Pod: pod}, GuardNone},
		"its pod failed":               {GuardFacts{Why: "x", Budget: budget, Pod: failed}, GuardRemovePod},
		"its pod is of another budget": {GuardFacts{Why: "x", Budget: budget, Pod: stray}, GuardRemovePod},
		"its pod goes":                 {GuardFacts{Why: "x", Budget: budget, Pod: goes}, GuardNone},
		"its budget goes":              {GuardFacts{Why: "x", Budget: ending, Pod: pod}, GuardNone},
		"to be opened":                 {GuardFacts{Budget: budget, Pod: pod}, GuardOpen},
		"opened, with a pod":           {GuardFacts{Pod: pod}, GuardRemovePod},
		"opened, its pod goes":         {GuardFacts{Pod: goes}, GuardNone},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, NextGuard(tc.facts)) })
	}
	require.True(t, metav1.IsControlledBy(pod, budget))
	require.Equal(t, "n1", pod.Spec.NodeName)
	require.Equal(t, budget.Spec.Selector.MatchLabels[LabelDrainGuard], pod.Labels[LabelDrainGuard])
	require.Equal(t, 1, budget.Spec.MinAvailable.IntValue())
	require.Equal(t, []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}, pod.Spec.ImagePullSecrets)
	n.Name = strings.Repeat("n", 200)
	require.Equal(t, "holdfast-drain-node-1", GuardName(n))
	require.IsType(t, &policyv1.PodDisruptionBudget{}, budget)
}

// S173: a node is guarded for its volumes' sake, and for its controller's.
func TestS173_WhyANodeIsGuarded(t *testing.T) {
	on := func(n string) *corev1.Pod { return &corev1.Pod{Spec: corev1.PodSpec{NodeName: n}} }
	nodes := []*adminpb.Node{{Id: "n1", StopReasons: []string{"volume v would be lost: x"}}, {Id: "n2"}, {Id: "n3"}}
	members := []*adminpb.Member{
		{Id: "c-0", Stoppable: true, Reachable: true}, {Id: "c-1", Reachable: true, StopReason: "no quorum would be left"}, {Id: "c-2", StopReason: "it is away"}, {Id: "c-3", Reachable: true},
	}
	pods := map[string]*corev1.Pod{"c-0": on("n1"), "c-1": on("n2"), "c-2": on("n3"), "c-3": on("")}
	whys := GuardWhys(nodes, members, pods)
	require.Len(t, whys, 2)
	require.Contains(t, whys["n1"], "volume v would be lost: x: wait")
	require.Equal(t, "controller c-1 must not stop: no quorum would be left", whys["n2"])
	pods["c-1"] = on("n1")
	require.Contains(t, GuardWhys(nodes, members, pods)["n1"], "up to date; controller c-1")
}
