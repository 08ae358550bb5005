package loop

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

// guards is what is known of all guards.
type guards struct {
	whys     map[string]string        // by node: why it must not be drained
	hosts    map[string]*adminpb.Node // by node: what the log has
	members  map[string]bool          // nodes with a controller
	owner    *metav1.OwnerReference
	ownerErr error // why it is not known
	budgets  map[string]*policyv1.PodDisruptionBudget
	pods     map[string]*corev1.Pod // both by their node's uid
	// missing is how many guards should run and do not, made how many pods were made without a reason at this look.
	missing, made int
}

// readGuards reads the log before the API server's objects; nodes are what the log says.
func (r *guardReconciler) readGuards(ctx context.Context, nodes []*adminpb.Node) (*guards, error) {
	members, err := r.Log.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the controllers for their members: %w", err)
	}
	pods, err := controllerPods(ctx, r.Kube, r.Namespace, r.ControllerSelector)
	if err != nil {
		return nil, err
	}
	g := &guards{whys: plan.GuardWhys(nodes, members, pods), hosts: byID(nodes), members: map[string]bool{}}
	for _, pod := range pods {
		g.members[pod.Spec.NodeName] = true
	}
	g.owner, g.ownerErr = r.guardOwner(ctx)
	return g, r.readGuardObjects(ctx, g)
}

// guardOwner is what guards belong to. Where it cannot be read a pod belongs to its budget, and is made with it only.
func (r *guardReconciler) guardOwner(ctx context.Context) (*metav1.OwnerReference, error) {
	role, err := r.Kube.RbacV1().Roles(r.Namespace).Get(ctx, plan.GuardOwnerRole, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read role %s, to which the guards of drains belong: %w", plan.GuardOwnerRole, err)
	}
	return plan.GuardOwner(role), nil
}

func (r *guardReconciler) readGuardObjects(ctx context.Context, g *guards) error {
	selected := metav1.ListOptions{LabelSelector: plan.LabelDrainGuard}
	budgets, err := r.Kube.PolicyV1().PodDisruptionBudgets(r.Namespace).List(ctx, selected)
	if err != nil {
		return fmt.Errorf("list the budgets of guards: %w", err)
	}
	pods, err := r.Kube.CoreV1().Pods(r.Namespace).List(ctx, selected)
	if err != nil {
		return fmt.Errorf("list the pods of guards: %w", err)
	}
	g.budgets, g.pods = map[string]*policyv1.PodDisruptionBudget{}, map[string]*corev1.Pod{}
	for i := range budgets.Items {
		g.budgets[budgets.Items[i].Labels[plan.LabelDrainGuard]] = &budgets.Items[i]
	}
	for i := range pods.Items {
		g.pods[pods.Items[i].Labels[plan.LabelDrainGuard]] = &pods.Items[i]
	}
	return nil
}

// guardFacts are what is known of one guard.
func (r *guardReconciler) guardFacts(g *guards, n *corev1.Node) plan.GuardFacts {
	host := g.hosts[n.Name]
	unheard := plan.IsUnheard(host, n)
	return plan.GuardFacts{
		Why: g.whys[n.Name], Unknown: unheard, Ours: host != nil || g.members[n.Name], Usable: plan.IsUsable(n), Missing: g.missing,
		Holds: unheard || plan.HoldsData(host) || g.members[n.Name],
		Owner: g.owner, Spec: r.Guard.SpecOf(n), Budget: g.budgets[string(n.UID)], Pod: g.pods[string(n.UID)],
	}
}

// keep remembers what is known of one guard after what was done.
func (g *guards) keep(n *corev1.Node, f *plan.GuardFacts) {
	delete(g.budgets, string(n.UID))
	delete(g.pods, string(n.UID))
	if f.Budget != nil {
		g.budgets[string(n.UID)] = f.Budget
	}
	if f.Pod != nil {
		g.pods[string(n.UID)] = f.Pod
	}
}

// mayDo bounds the pods of one look, and counts a guard that is replaced among those that do not run.
func (g *guards) mayDo(kind plan.GuardKind, f *plan.GuardFacts) bool {
	switch {
	case kind == plan.GuardEvictPod:
		g.missing++
	case kind == plan.GuardPod && !f.IsClosed():
		g.made++
		return g.made <= maxNewGuards
	}
	return true
}

// removeStrayGuards removes the guards of nodes that are gone, also where another node has the name now.
func (r *guardReconciler) removeStrayGuards(ctx context.Context, nodes []corev1.Node, g *guards) error {
	there := map[string]bool{}
	for i := range nodes {
		there[string(nodes[i].UID)] = true
	}
	var failed []error
	for uid, b := range g.budgets {
		if over, err := r.isGone(ctx, there, uid, b.Annotations[plan.AnnotationGuardNode]); err != nil || !over {
			failed = append(failed, err)
			continue
		}
		failed = append(failed, gone(r.Kube.PolicyV1().PodDisruptionBudgets(r.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{Preconditions: exactly(b)})))
	}
	for uid, pod := range g.pods {
		if over, err := r.isGone(ctx, there, uid, pod.Spec.NodeName); err != nil || !over {
			failed = append(failed, err)
			continue
		}
		failed = append(failed, r.evict(ctx, pod))
	}
	return errors.Join(failed...)
}

// isGone asks for a node that is not in the list, which may be older than its guard.
func (r *guardReconciler) isGone(ctx context.Context, there map[string]bool, uid, name string) (bool, error) {
	if there[uid] {
		return false, nil
	}
	n, err := found(r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("read node %s, whose guard is there: %w", name, err)
	}
	return n == nil || string(n.UID) != uid, nil
}
