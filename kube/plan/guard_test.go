package plan

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// S173: the pod stands before there is a reason, and is replaced, evicted or made again only where nothing needs it; the budget is removed
// only once it says that it may be.
func TestS173_TheNextStepOfAGuard(t *testing.T) {
	g := Guard{Namespace: "holdfast", Image: "holdfast:1", PullSecrets: []string{"b", "a"}}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"}}
	owner := GuardOwner(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: GuardOwnerRole, UID: "role-1"}})
	budget := func(why string) *policyv1.PodDisruptionBudget { return g.Budget(n, owner, why) }
	pod := func(phase corev1.PodPhase) *corev1.Pod {
		p := g.Pod(n, owner, nil, false)
		p.Status.Phase = phase
		return p
	}
	earlier := g.Budget(n, nil, "x")
	runs, waits, failed := pod(corev1.PodRunning), pod(corev1.PodPending), pod(corev1.PodFailed)
	goes, outdated, outdatedWaits, unowned := pod(corev1.PodRunning), pod(corev1.PodRunning), pod(corev1.PodPending), g.Pod(n, nil, earlier, false)
	goes.DeletionTimestamp, unowned.Status.Phase = &metav1.Time{}, corev1.PodRunning
	outdated.Annotations[AnnotationGuardSpec], outdatedWaits.Annotations[AnnotationGuardSpec] = "older", "older"
	ending := budget("x")
	ending.DeletionTimestamp = &metav1.Time{}
	facts := func(change func(*GuardFacts)) GuardFacts {
		f := GuardFacts{Ours: true, Usable: true, Owner: owner, Spec: g.SpecOf(n)}
		change(&f)
		return f
	}
	for name, tc := range map[string]struct {
		change func(*GuardFacts)
		want   GuardKind
	}{
		"a node without a pod":                    {func(*GuardFacts) {}, GuardPod},
		"one with a pod":                          {func(f *GuardFacts) { f.Pod = runs }, GuardNone},
		"one whose pod starts":                    {func(f *GuardFacts) { f.Pod = waits }, GuardNone},
		"a cordoned node, its pod was evicted":    {func(f *GuardFacts) { f.Usable = false }, GuardNone},
		"a cordoned node with a pod":              {func(f *GuardFacts) { f.Usable, f.Pod = false, outdated }, GuardNone},
		"somebody else's node":                    {func(f *GuardFacts) { f.Ours = false }, GuardNone},
		"one that was Holdfast's":                 {func(f *GuardFacts) { f.Ours, f.Pod = false, runs }, GuardEvictPod},
		"a pod that failed":                       {func(f *GuardFacts) { f.Pod = failed }, GuardEvictPod},
		"a pod that goes":                         {func(f *GuardFacts) { f.Pod = goes }, GuardNone},
		"an outdated pod":                         {func(f *GuardFacts) { f.Pod = outdated }, GuardEvictPod},
		"one that is another owner's":             {func(f *GuardFacts) { f.Pod = unowned }, GuardEvictPod},
		"an outdated pod while another starts":    {func(f *GuardFacts) { f.Pod, f.Missing = outdated, 1 }, GuardNone},
		"one that never ran":                      {func(f *GuardFacts) { f.Pod, f.Missing = outdatedWaits, 1 }, GuardEvictPod},
		"to be closed":                            {func(f *GuardFacts) { f.Why, f.Pod = "x", runs }, GuardBudget},
		"to be closed, without a pod":             {func(f *GuardFacts) { f.Why = "x" }, GuardBudget},
		"closed":                                  {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "x", budget("x"), runs }, GuardNone},
		"closed, without a pod":                   {func(f *GuardFacts) { f.Why, f.Budget = "x", budget("x") }, GuardPod},
		"closed and cordoned, without a pod":      {func(f *GuardFacts) { f.Why, f.Budget, f.Usable = "x", budget("x"), false }, GuardPod},
		"closed, its pod is outdated":             {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "x", budget("x"), outdated }, GuardNone},
		"closed, its pod is of an earlier budget": {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "x", budget("x"), unowned }, GuardNone},
		"closed, its pod failed":                  {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "x", budget("x"), failed }, GuardEvictPod},
		"closed, its pod never ran":               {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "x", budget("x"), outdatedWaits }, GuardEvictPod},
		"closed, for another reason":              {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "y", budget("x"), runs }, GuardSay},
		"closed by an earlier version":            {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "x", earlier, unowned }, GuardSay},
		"its budget goes":                         {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "x", ending, runs }, GuardNone},
		"to be opened":                            {func(f *GuardFacts) { f.Budget, f.Pod = budget("x"), runs }, GuardSay},
		"said to open":                            {func(f *GuardFacts) { f.Budget, f.Pod = budget(""), runs }, GuardOpen},
		"said to open, without a pod":             {func(f *GuardFacts) { f.Budget = budget("") }, GuardOpen},
		"said to open, and needed again":          {func(f *GuardFacts) { f.Why, f.Budget, f.Pod = "x", budget(""), runs }, GuardSay},
		"closed, and nobody can tell":             {func(f *GuardFacts) { f.Unknown, f.Budget, f.Pod = true, budget("x"), outdated }, GuardNone},
		"open, and nobody can tell":               {func(f *GuardFacts) { f.Unknown, f.Pod = true, runs }, GuardNone},
		"no owner is known":                       {func(f *GuardFacts) { f.Owner = nil }, GuardNone},
		"no owner is known, and it must close":    {func(f *GuardFacts) { f.Owner, f.Why, f.Budget = nil, "x", budget("x") }, GuardPod},
		"no owner is known of a pod":              {func(f *GuardFacts) { f.Owner, f.Pod = nil, runs }, GuardNone},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts(tc.change)
			if f.Pod != nil {
				f.Pod = f.Pod.DeepCopy()
				maps.Copy(f.Pod.Annotations, Marks(f.Why != ""))
			}
			require.Equal(t, tc.want, NextGuard(f))
		})
	}
	for name, change := range map[string]func(*GuardFacts){
		"it got a replica":          func(f *GuardFacts) { f.Holds = true },
		"it must not be drained":    func(f *GuardFacts) { f.Why, f.Budget = "x", budget("x") },
		"of a version without them": func(f *GuardFacts) { f.Pod.Annotations = map[string]string{AnnotationGuardSpec: f.Spec} },
	} {
		t.Run(name, func(t *testing.T) {
			f := facts(func(f *GuardFacts) { f.Pod = runs.DeepCopy() })
			require.Equal(t, GuardNone, NextGuard(f))
			change(&f)
			require.Equal(t, GuardMark, NextGuard(f))
			maps.Copy(f.Pod.Annotations, Marks(f.Holds || f.Why != ""))
			require.Equal(t, GuardNone, NextGuard(f))
			f.Pod.Annotations, f.Unknown = nil, true
			require.NotEqual(t, GuardMark, NextGuard(f))
		})
	}
}

// S173: what a guard is made of. It belongs to the Role, or to its budget; what would let a drain leave it alone is not on it.
func TestS173_AGuard(t *testing.T) {
	g := Guard{Namespace: "holdfast", Image: "holdfast:1", PullSecrets: []string{"b", "a"}}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"}}
	owner := GuardOwner(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: GuardOwnerRole, UID: "role-1"}})
	budget := g.Budget(n, owner, "why")
	budget.UID = "budget-1"
	pod := g.Pod(n, owner, budget, false)
	require.Equal(t, owner.UID, metav1.GetControllerOf(pod).UID)
	require.Equal(t, owner.UID, metav1.GetControllerOf(budget).UID)
	require.Nil(t, owner.BlockOwnerDeletion, "it would need rights over the Role")
	require.True(t, metav1.IsControlledBy(g.Pod(n, nil, budget, false), budget))
	require.Equal(t, "n1", pod.Spec.NodeName)
	require.Equal(t, budget.Spec.Selector.MatchLabels[LabelDrainGuard], pod.Labels[LabelDrainGuard])
	require.Equal(t, 1, budget.Spec.MinAvailable.IntValue())
	require.Equal(t, []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}, pod.Spec.ImagePullSecrets)
	require.Equal(t, []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}, pod.Spec.Tolerations)
	said := Say(budget, nil, "")
	require.Equal(t, "why", budget.Annotations[AnnotationWhy])
	require.Empty(t, said.Annotations[AnnotationWhy])
	require.Equal(t, budget.OwnerReferences, said.OwnerReferences)
	require.Equal(t, g.SpecOf(n), pod.Annotations[AnnotationGuardSpec])
	g.PullSecrets = []string{"a", "b"}
	require.Equal(t, g.SpecOf(n), pod.Annotations[AnnotationGuardSpec])
	g.Image = "holdfast:2"
	require.NotEqual(t, g.SpecOf(n), pod.Annotations[AnnotationGuardSpec])
	n.Name = strings.Repeat("n", 200)
	require.Equal(t, "holdfast-drain-node-1", GuardName(n))
}

// S173: what the log does not hear of is not known while the node is there; one that is away is not closed for that.
func TestS173_AHostThatIsNotHeardOf(t *testing.T) {
	ready := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	away := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}
	require.True(t, IsUnheard(&adminpb.Node{State: "unreachable"}, ready))
	require.False(t, IsUnheard(&adminpb.Node{State: "unreachable"}, away))
	require.False(t, IsUnheard(&adminpb.Node{State: "reachable", Adopted: true}, ready))
	require.False(t, IsUnheard(&adminpb.Node{State: "lost"}, ready))
	require.True(t, IsUnheard(&adminpb.Node{State: "reachable"}, ready), "after a restore the log does not know what the host has")
	notReady := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}}}
	require.True(t, IsUnheard(&adminpb.Node{State: "unreachable"}, notReady), "its kubelet says so: it is there")
	require.False(t, IsUnheard(nil, ready))
	require.True(t, IsUsable(ready))
	require.False(t, IsUsable(away))
	goes := ready.DeepCopy()
	goes.DeletionTimestamp = &metav1.Time{}
	require.False(t, IsUsable(goes))
	ready.Spec.Unschedulable = true
	require.False(t, IsUsable(ready))
	require.False(t, IsUsable(&corev1.Node{}))
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
