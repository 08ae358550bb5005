package loop

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

// maxGuardSteps bounds what is done of one guard: the budget, and then its pod.
const maxGuardSteps = 3

// syncGuards guards the nodes that must not be drained, and no other.
func (l *Loop) syncGuards(ctx context.Context, nodes []*adminpb.Node, c *cluster) error {
	if l.Guard.Image == "" {
		return nil
	}
	members, err := l.Log.Members(ctx)
	if err != nil {
		return fmt.Errorf("ask the controllers for their members: %w", err)
	}
	pods, err := l.controllerPods(ctx)
	if err != nil {
		return err
	}
	whys := plan.GuardWhys(nodes, members, pods)
	budgets, guards, err := l.readGuards(ctx)
	if err != nil {
		return err
	}
	failed := []error{l.removeStrayGuards(ctx, c, budgets)}
	closed := 0
	for i := range c.nodes {
		n := &c.nodes[i]
		f := plan.GuardFacts{Why: whys[n.Name], Budget: budgets[string(n.UID)], Pod: guards[string(n.UID)]}
		if f.Why != "" {
			closed++
			l.Notifier.Node(n, plan.Notice{Reason: plan.ReasonDrainBlocked, Note: "This node must not be drained or stopped: " + f.Why})
		}
		if err := l.guard(ctx, n, f); err != nil {
			failed = append(failed, fmt.Errorf("guard of node %s: %w", n.Name, err))
		}
	}
	l.Metrics.refused("drain", closed)
	return errors.Join(failed...)
}

// guard does step after step of one guard.
func (l *Loop) guard(ctx context.Context, n *corev1.Node, f plan.GuardFacts) (err error) {
	for range maxGuardSteps {
		kind := plan.NextGuard(f)
		if kind == plan.GuardNone {
			return nil
		}
		err := l.doGuard(ctx, n, &f, kind)
		l.Metrics.step("guard", guardNames[kind], err)
		if err != nil {
			return err
		}
	}
	return nil
}

var guardNames = map[plan.GuardKind]string{
	plan.GuardBudget: "budget", plan.GuardPod: "pod", plan.GuardRemovePod: "remove-pod", plan.GuardOpen: "open",
}

// doGuard does one step, and notes it in what is known.
func (l *Loop) doGuard(ctx context.Context, n *corev1.Node, f *plan.GuardFacts, kind plan.GuardKind) (err error) {
	budgets, pods := l.Kube.PolicyV1().PodDisruptionBudgets(l.Namespace), l.Kube.CoreV1().Pods(l.Namespace)
	switch kind {
	case plan.GuardBudget:
		f.Budget, err = budgets.Create(ctx, l.Guard.Budget(n, f.Why), metav1.CreateOptions{})
	case plan.GuardPod:
		f.Pod, err = pods.Create(ctx, l.Guard.Pod(n, f.Budget, f.Why), metav1.CreateOptions{})
	case plan.GuardRemovePod:
		err = gone(pods.Delete(ctx, f.Pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(f.Pod.UID))}))
		f.Pod = nil
	case plan.GuardOpen:
		err = gone(budgets.Delete(ctx, f.Budget.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(f.Budget.UID))}))
		f.Budget = nil
	case plan.GuardNone:
	}
	return err
}

// gone is the error of a deletion, nil where somebody was there before.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// readGuards are the budgets and pods of guards, by their nodes' uid.
func (l *Loop) readGuards(ctx context.Context) (map[string]*policyv1.PodDisruptionBudget, map[string]*corev1.Pod, error) {
	selected := metav1.ListOptions{LabelSelector: plan.LabelDrainGuard}
	budgets, err := l.Kube.PolicyV1().PodDisruptionBudgets(l.Namespace).List(ctx, selected)
	if err != nil {
		return nil, nil, fmt.Errorf("list the budgets of guards: %w", err)
	}
	pods, err := l.Kube.CoreV1().Pods(l.Namespace).List(ctx, selected)
	if err != nil {
		return nil, nil, fmt.Errorf("list the pods of guards: %w", err)
	}
	b, p := map[string]*policyv1.PodDisruptionBudget{}, map[string]*corev1.Pod{}
	for i := range budgets.Items {
		b[budgets.Items[i].Labels[plan.LabelDrainGuard]] = &budgets.Items[i]
	}
	for i := range pods.Items {
		p[pods.Items[i].Labels[plan.LabelDrainGuard]] = &pods.Items[i]
	}
	return b, p, nil
}

// removeStrayGuards removes the budgets of nodes that are gone; their pods go with their nodes.
func (l *Loop) removeStrayGuards(ctx context.Context, c *cluster, budgets map[string]*policyv1.PodDisruptionBudget) error {
	there := map[string]bool{}
	for i := range c.nodes {
		there[string(c.nodes[i].UID)] = true
	}
	var failed []error
	for uid, b := range budgets {
		if !there[uid] {
			failed = append(failed, gone(l.Kube.PolicyV1().PodDisruptionBudgets(l.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{})))
		}
	}
	return errors.Join(failed...)
}

// controllerPods are the pods of the controllers, by name.
func (l *Loop) controllerPods(ctx context.Context) (map[string]*corev1.Pod, error) {
	pods, err := l.Kube.CoreV1().Pods(l.Namespace).List(ctx, metav1.ListOptions{LabelSelector: l.ControllerSelector})
	if err != nil {
		return nil, fmt.Errorf("list the controllers' pods: %w", err)
	}
	all := map[string]*corev1.Pod{}
	for i := range pods.Items {
		all[pods.Items[i].Name] = &pods.Items[i]
	}
	return all, nil
}
