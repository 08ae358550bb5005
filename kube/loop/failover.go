package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

// maxFailoverSteps bounds what is done of one node before the others are looked at.
const maxFailoverSteps = 4

// failoverReconciler fails nodes over that are gone, and returns them.
type failoverReconciler struct {
	Kube     kubernetes.Interface
	Log      failoverLog
	Notifier *Notifier
	Metrics  *Metrics
	Logger   *slog.Logger
	Kubelets *Kubelets
	pods     podReader
	hurry    hurry
}

// failoverLog is what decides on failovers.
type failoverLog interface {
	OutOfService(ctx context.Context, node string) (*adminpb.OutOfServiceResponse, error)
	SetOutOfService(ctx context.Context, req *adminpb.SetOutOfServiceRequest) error
}

// sync looks at those of the nodes that are silent, or out of service; known are those that the log had last.
func (r *failoverReconciler) sync(ctx context.Context, nodes []corev1.Node, known map[string]*adminpb.Node) error {
	var failed []error
	refused := 0
	for i := range nodes {
		n := &nodes[i]
		if !plan.IsSilent(n) && !r.Kubelets.silent(n.Name) && n.Annotations[plan.AnnotationOutOfService] == "" && known[n.Name].GetOutOfService() == 0 {
			continue
		}
		did, err := r.failover(ctx, n.Name)
		if err != nil {
			failed = append(failed, fmt.Errorf("node %s: %w", n.Name, err))
		}
		if did.Kind == plan.FailoverRefuse {
			refused++
		}
	}
	r.hurry.looked()
	r.Metrics.refused("failover", refused)
	return errors.Join(failed...)
}

// failover does step after step of one node until there is none to do now, which it returns.
func (r *failoverReconciler) failover(ctx context.Context, name string) (step plan.Failover, err error) {
	for range maxFailoverSteps {
		f, err := r.readNode(ctx, name)
		if err != nil || f == nil {
			return step, err
		}
		step = plan.NextFailover(*f)
		done, err := r.doFailover(ctx, f, step)
		r.Metrics.step("failover", failoverNames[step.Kind], err)
		r.hurry.note(name, step)
		if err != nil || !done {
			return step, err
		}
	}
	return step, nil
}

// readNode reads the node first and the log last: what the log proves holds until it returns the node to service, and the node
// changes before that. nil: there is no such node.
func (r *failoverReconciler) readNode(ctx context.Context, name string) (*plan.NodeFacts, error) {
	n, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read it: %w", err)
	}
	attachments, err := r.attachmentsOn(ctx, name)
	if err != nil {
		return nil, err
	}
	answer, err := r.Log.OutOfService(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("ask the log about it: %w", err)
	}
	pods, err := r.pods.facts(ctx, name)
	return &plan.NodeFacts{Node: n, Log: answer, Attachments: attachments, Pods: pods, LeaseSilent: r.Kubelets.silent(name)}, err
}

func (r *failoverReconciler) attachmentsOn(ctx context.Context, node string) (on []storagev1.VolumeAttachment, err error) {
	all, err := r.Kube.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volume attachments: %w", err)
	}
	for _, a := range all.Items {
		if a.Spec.NodeName == node {
			on = append(on, a)
		}
	}
	return on, nil
}

var failoverNames = map[plan.FailoverKind]string{
	plan.FailoverNone: "none", plan.FailoverWait: "wait", plan.FailoverRefuse: "refuse", plan.FailoverTakeOut: "take-out", plan.FailoverTaint: "taint",
	plan.FailoverForgetPods: "forget-pods", plan.FailoverEndPods: "end-pods", plan.FailoverUntaint: "untaint", plan.FailoverMarkReturned: "mark-returned", plan.FailoverReturn: "return",
}

// doFailover does the step; done tells whether there may be another one now.
func (r *failoverReconciler) doFailover(ctx context.Context, f *plan.NodeFacts, step plan.Failover) (done bool, err error) {
	switch step.Kind {
	case plan.FailoverWait:
		r.Notifier.Node(f.Node, plan.FailoverWaits(f.Node.Name, step.Why))
	case plan.FailoverRefuse:
		r.Notifier.Node(f.Node, plan.Notice{Reason: plan.ReasonNoFailover, Note: "Its volumes are not failed over: " + step.Why})
	case plan.FailoverTakeOut:
		return true, r.takeOut(ctx, f)
	case plan.FailoverTaint:
		return false, r.taint(ctx, f)
	case plan.FailoverForgetPods:
		return false, r.forgetPods(ctx, f, step)
	case plan.FailoverEndPods:
		return false, r.endPods(ctx, f, step)
	case plan.FailoverUntaint:
		return true, r.untaint(ctx, f, step)
	case plan.FailoverMarkReturned:
		return true, patchNode(ctx, r.Kube, f.Node, map[string]any{plan.AnnotationReturned: since(step.Since)}, nil)
	case plan.FailoverReturn:
		return false, r.returnNode(ctx, f, step)
	case plan.FailoverNone:
	}
	return false, nil
}

func since(index uint64) string { return strconv.FormatUint(index, 10) }

func (r *failoverReconciler) takeOut(ctx context.Context, f *plan.NodeFacts) error {
	err := r.Log.SetOutOfService(ctx, &adminpb.SetOutOfServiceRequest{
		Node: f.Node.Name, HostId: f.Log.GetHostId(), Reason: "neither Kubernetes nor a controller hears of it",
	})
	if err != nil {
		return fmt.Errorf("take it out of service: %w", err)
	}
	r.Logger.Info("a node is out of service: what its host held ends", "node", f.Node.Name, "host", f.Log.GetHostId())
	return nil
}

// taint sets the taint together with the loop's note that it is its own, and says why to the node and to the pods on it.
func (r *failoverReconciler) taint(ctx context.Context, f *plan.NodeFacts) error {
	now := metav1.Now()
	taints := append([]corev1.Taint{}, f.Node.Spec.Taints...)
	taints = append(taints, corev1.Taint{Key: plan.TaintOutOfService, Value: plan.TaintValue, Effect: corev1.TaintEffectNoExecute, TimeAdded: &now})
	if err := patchNode(ctx, r.Kube, f.Node, map[string]any{plan.AnnotationOutOfService: since(f.Log.GetSince())}, taints); err != nil {
		return fmt.Errorf("taint it: %w", err)
	}
	r.Logger.Info("a node is tainted as out of service", "node", f.Node.Name, "proof", plan.Entry(f.Log))
	r.Notifier.Node(f.Node, plan.Notice{Reason: plan.ReasonOutOfService, Entry: f.Log.GetSince(), Note: "Nothing that this node writes to a Holdfast volume is acknowledged, and its pods run elsewhere: " + plan.Entry(f.Log)})
	return r.noticePods(ctx, f)
}

// untaint takes off the taint that the loop set, and no other; with the note, so that an admin's taint of later is not taken for it.
func (r *failoverReconciler) untaint(ctx context.Context, f *plan.NodeFacts, step plan.Failover) error {
	taints := []corev1.Taint{}
	for _, t := range f.Node.Spec.Taints {
		if t.Key != plan.TaintOutOfService || t.Value != plan.TaintValue || t.Effect != corev1.TaintEffectNoExecute {
			taints = append(taints, t)
		}
	}
	annotations := map[string]any{plan.AnnotationOutOfService: nil}
	if step.Since != 0 {
		annotations[plan.AnnotationReturned] = since(step.Since)
	}
	if err := patchNode(ctx, r.Kube, f.Node, annotations, taints); err != nil {
		return fmt.Errorf("take its taint off: %w", err)
	}
	r.Logger.Info("the taint of a node is taken off", "node", f.Node.Name, "why", step.Why)
	return nil
}

func (r *failoverReconciler) returnNode(ctx context.Context, f *plan.NodeFacts, step plan.Failover) error {
	err := r.Log.SetOutOfService(ctx, &adminpb.SetOutOfServiceRequest{Node: f.Node.Name, Returned: step.Since, Reason: "its host ended what it held"})
	if err != nil {
		return fmt.Errorf("return it to service: %w", err)
	}
	r.Notifier.Node(f.Node, plan.Notice{Reason: plan.ReasonReturned, Note: "Its host ended what it held, and it serves again", Good: true})
	return nil
}
