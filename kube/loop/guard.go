package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

const (
	// maxGuardSteps bounds what is done of one guard: a budget is said to go, and goes; a pod is marked, goes, and comes; or it is seen to be needed again.
	maxGuardSteps = 8
	// maxNewGuards bounds how many nodes without a reason get a pod at one look: a new cluster does not keep the loop from its other duties.
	maxNewGuards = 20
	// evictTimeout bounds an eviction: where a budget is new the API server asks the client to try again, which it would do for minutes.
	evictTimeout = 5 * time.Second
)

// guardReconciler keeps the guards of nodes at what the log says.
type guardReconciler struct {
	Kube     kubernetes.Interface
	Log      guardLog
	Notifier *Notifier
	Metrics  *Metrics
	// Guard is what they are made with. Without an image there are none.
	Guard plan.Guard
	// Namespace is the controllers'; ControllerSelector selects their pods.
	Namespace, ControllerSelector string
}

// guardLog is what guards depend on.
type guardLog interface {
	nodeLog
	Members(ctx context.Context) ([]*adminpb.Member, error)
}

// sync has a guard's pod stand on each node that is there, and closes the nodes that must not be drained, and no other: those first,
// and again once what is left of nodes that are gone was removed, which may have their guards' names.
func (r *guardReconciler) sync(ctx context.Context, nodes []*adminpb.Node, there []corev1.Node) error {
	if r.Guard.Image == "" {
		return nil
	}
	g, err := r.readGuards(ctx, nodes)
	if err != nil {
		return err
	}
	closed, open := r.countGuards(g, there)
	again, _ := r.guardEach(ctx, g, closed)
	strays := r.removeStrayGuards(ctx, there, g)
	_, err = r.guardEach(ctx, g, append(again, open...))
	return errors.Join(g.ownerErr, strays, err)
}

// guardEach brings one guard after the other to where it is wanted, and returns the nodes of which that failed.
func (r *guardReconciler) guardEach(ctx context.Context, g *guards, nodes []*corev1.Node) (failed []*corev1.Node, err error) {
	var why []error
	for _, n := range nodes {
		if err := r.guard(ctx, g, n); err != nil {
			failed, why = append(failed, n), append(why, fmt.Errorf("guard of node %s: %w", n.Name, err))
		}
	}
	return failed, errors.Join(why...)
}

// countGuards divides the nodes by whether they must not be drained, which it says to them, and counts the guards that do not run.
func (r *guardReconciler) countGuards(g *guards, there []corev1.Node) (closed, open []*corev1.Node) {
	for i := range there {
		n := &there[i]
		f := r.guardFacts(g, n)
		if f.Stands() && !f.Runs() {
			g.missing++
		}
		if f.Why == "" {
			open = append(open, n)
			continue
		}
		closed = append(closed, n)
		note := "This node must not be drained or stopped: " + f.Why
		if !f.Runs() {
			note += ". Its guard does not run yet: a drain that begins now passes"
		}
		r.Notifier.Node(n, plan.Notice{Reason: plan.ReasonDrainBlocked, Note: note})
	}
	r.Metrics.refused("drain", len(closed))
	r.Metrics.missing.Set(float64(g.missing))
	return closed, open
}

// guard does step after step of one guard.
func (r *guardReconciler) guard(ctx context.Context, g *guards, n *corev1.Node) error {
	f, last := r.guardFacts(g, n), plan.GuardNone
	defer func() { g.keep(n, &f) }()
	for range maxGuardSteps {
		kind := plan.NextGuard(f)
		switch {
		case kind == plan.GuardNone || !g.mayDo(kind, &f):
			return nil
		case kind == last:
			return fmt.Errorf("%s: what was written does not stay so: see which admission webhook or policy changes it", guardNames[kind])
		}
		last = kind
		err := r.lookAgain(ctx, n, &f, kind)
		if err != nil {
			return err
		}
		if plan.NextGuard(f) != kind {
			continue
		}
		err = r.doGuard(ctx, n, &f, kind)
		r.Metrics.step("guard", guardNames[kind], err)
		if err != nil {
			return fmt.Errorf("%s: %w", guardNames[kind], err)
		}
	}
	return nil
}

var guardNames = map[plan.GuardKind]string{
	plan.GuardBudget: "budget", plan.GuardSay: "say", plan.GuardOpen: "open", plan.GuardPod: "pod", plan.GuardMark: "mark", plan.GuardEvictPod: "evict-pod",
}

// lookAgain reads anew what a step depends on that removes something, the log before the budget that would say so if another loop closed
// the node since; and the node before a pod is made for which there is no reason.
func (r *guardReconciler) lookAgain(ctx context.Context, n *corev1.Node, f *plan.GuardFacts, kind plan.GuardKind) error {
	removes := kind == plan.GuardOpen || kind == plan.GuardEvictPod
	if !removes && (kind != plan.GuardPod || f.IsClosed()) {
		return nil
	}
	now, err := found(r.Kube.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{}))
	switch {
	case err != nil:
		return fmt.Errorf("read the node again: %w", err)
	case now == nil || now.UID != n.UID:
		*f = plan.GuardFacts{}
		return nil
	case !removes:
		f.Usable = plan.IsUsable(now)
		return nil
	}
	nodes, err := r.Log.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("ask the controllers for their nodes again: %w", err)
	}
	g, err := r.readGuards(ctx, nodes)
	if err != nil {
		return err
	}
	g.missing = f.Missing
	*f = r.guardFacts(g, now)
	return nil
}

// doGuard does one step, and notes it in what is known.
func (r *guardReconciler) doGuard(ctx context.Context, n *corev1.Node, f *plan.GuardFacts, kind plan.GuardKind) (err error) {
	budgets, pods := r.Kube.PolicyV1().PodDisruptionBudgets(r.Namespace), r.Kube.CoreV1().Pods(r.Namespace)
	switch kind {
	case plan.GuardBudget:
		f.Budget, err = budgets.Create(ctx, r.Guard.Budget(n, f.Owner, f.Why), metav1.CreateOptions{})
	case plan.GuardSay:
		f.Budget, err = budgets.Update(ctx, plan.Say(f.Budget, f.Owner, f.Why), metav1.UpdateOptions{})
	case plan.GuardOpen:
		err = gone(budgets.Delete(ctx, f.Budget.Name, metav1.DeleteOptions{Preconditions: exactly(f.Budget)}))
		f.Budget = nil
	case plan.GuardPod:
		f.Pod, err = pods.Create(ctx, r.Guard.Pod(n, f.Owner, f.Budget, f.Holds || f.IsClosed()), metav1.CreateOptions{})
	case plan.GuardMark:
		f.Pod, err = r.mark(ctx, f)
	case plan.GuardEvictPod:
		err = r.evict(ctx, f.Pod)
		f.Pod = nil
	case plan.GuardNone:
	}
	return err
}

// mark says by the pod whether an autoscaler may take the machine away.
func (r *guardReconciler) mark(ctx context.Context, f *plan.GuardFacts) (*corev1.Pod, error) {
	meta := map[string]any{"uid": f.Pod.UID, "annotations": plan.Marks(f.Holds || f.IsClosed())}
	body, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return f.Pod, err
	}
	return r.Kube.CoreV1().Pods(r.Namespace).Patch(ctx, f.Pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
}

// exactly is the object as it was read.
func exactly(o metav1.Object) *metav1.Preconditions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

// evict removes this pod unless a budget keeps it.
func (r *guardReconciler) evict(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	return gone(r.Kube.CoreV1().Pods(r.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}))
}

// gone is the error of a deletion, nil where somebody was there before.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
