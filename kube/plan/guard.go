package plan

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// GuardKind is what is done next with the guard of a node: a pod that a drain has to evict, and a PodDisruptionBudget that does not let
// it. Neither the workload's pods nor those of a DaemonSet, which a drain leaves alone, can stand for what the node keeps. The pod stands
// on every node, as the API server asks no budget of one that does not run yet; the budget comes and goes with the reason, and is
// obeyed from its first moment. A guard stays while the loop is dead: what it said last holds.
type GuardKind uint8

const (
	GuardNone GuardKind = iota
	// GuardBudget makes the budget.
	GuardBudget
	// GuardSay writes into the budget why the node must not be drained now, or that it may be. A budget is removed only in the version
	// that says so: a loop that is late does not remove one that another loop needs again.
	GuardSay
	// GuardOpen removes the budget.
	GuardOpen
	// GuardPod makes the pod.
	GuardPod
	// GuardMark says by the pod whether an autoscaler may take the machine away.
	GuardMark
	// GuardEvictPod removes the pod as a drain would, so that a budget which another loop made meanwhile keeps it.
	GuardEvictPod
)

// GuardFacts are what is known of a node's guard.
type GuardFacts struct {
	Why string // the node must not be drained, because; empty: it may
	// Unknown: nobody can tell, as no controller hears of the host or none adopted it, and the node is there. What was said last holds.
	Unknown bool
	// Ours: the log has the node, or a controller runs there.
	Ours bool
	// Usable: the node is Ready, and neither cordoned, drained by an autoscaler, nor being deleted.
	Usable bool
	// Holds: something is gone for good with the machine, a replica, a snapshot or a controller's log, also where the node may be
	// drained; or nobody can tell.
	Holds bool
	// Missing is how many guards should run and do not.
	Missing int
	// Owner is what both belong to, and go with; nil: it could not be read.
	Owner *metav1.OwnerReference
	// Spec is GuardSpec of the pod that would be made now.
	Spec   string
	Budget *policyv1.PodDisruptionBudget
	Pod    *corev1.Pod
}

// NextGuard decides the one step to do next (S173).
func NextGuard(f GuardFacts) GuardKind {
	closed := f.IsClosed()
	switch {
	case f.Budget == nil && closed:
		return GuardBudget
	case f.Budget == nil:
		return f.nextPod(closed)
	case f.Budget.DeletionTimestamp != nil:
		return GuardNone // it goes, and is made again then
	case !f.isSaid():
		return GuardSay
	case !closed:
		return GuardOpen
	}
	return f.nextPod(closed)
}

// IsClosed tells whether the node must not be drained, as far as anybody can tell.
func (f *GuardFacts) IsClosed() bool { return f.Why != "" || f.Unknown && f.Budget != nil }

// nextPod replaces one that runs only where nothing needs it and all others run: until the next one runs, a drain passes. One on a
// cordoned node stays, and one that was evicted from there does not come back, unless the node must not be drained.
func (f *GuardFacts) nextPod(closed bool) GuardKind {
	switch {
	case f.Pod == nil && (closed || f.Stands()) && (f.Owner != nil || f.Budget != nil):
		return GuardPod
	case f.Pod == nil || f.Pod.DeletionTimestamp != nil:
		return GuardNone
	case hasEnded(f.Pod), !f.Runs() && !f.isCurrent():
		return GuardEvictPod // it keeps nothing
	case !f.Unknown && !isMarked(f.Pod, f.Holds || closed):
		return GuardMark
	case closed:
		return GuardNone
	case !f.Ours, f.Usable && f.Missing == 0 && !f.isCurrent():
		return GuardEvictPod
	}
	return GuardNone
}

// Stands tells whether the node has a guard without a reason, too.
func (f *GuardFacts) Stands() bool { return f.Ours && f.Usable }

// Runs tells whether a budget keeps the pod.
func (f *GuardFacts) Runs() bool {
	return f.Pod != nil && f.Pod.DeletionTimestamp == nil && f.Pod.Status.Phase == corev1.PodRunning
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// isMarked tells whether the pod says to autoscalers what they are to do.
func isMarked(pod *corev1.Pod, holds bool) bool {
	for key, value := range Marks(holds) {
		if pod.Annotations[key] != value {
			return false
		}
	}
	return true
}

// Marks are the annotations by which the pod tells autoscalers whether they may take the machine away: cluster-autoscaler leaves one alone
// that runs a pod of an owner which it does not know, and Karpenter none, unless the pod says so.
func Marks(holds bool) map[string]string {
	return map[string]string{AnnotationSafeToEvict: strconv.FormatBool(!holds), AnnotationDoNotDisrupt: strconv.FormatBool(holds)}
}

// isCurrent tells whether the pod is as it would be made now. One of an earlier version belongs to its budget.
func (f *GuardFacts) isCurrent() bool {
	owner := metav1.GetControllerOf(f.Pod)
	return f.Pod.Annotations[AnnotationGuardSpec] == f.Spec && (f.Owner == nil || owner != nil && owner.UID == f.Owner.UID)
}

// isSaid tells whether the budget says what is known, and keeps the pod where it is to.
func (f *GuardFacts) isSaid() bool {
	if f.Why == "" && f.Unknown {
		return true
	}
	if f.Why != "" && !equality.Semantic.DeepEqual(f.Budget.Spec, budgetSpec(f.Budget.Labels[LabelDrainGuard])) {
		return false
	}
	owner := metav1.GetControllerOf(f.Budget)
	return f.Budget.Annotations[AnnotationWhy] == f.Why && (f.Owner == nil || owner != nil && owner.UID == f.Owner.UID)
}

// HoldsData tells whether the log has anything in the host's pools: replicas, or snapshots, which outlive their volumes.
func HoldsData(host *adminpb.Node) bool {
	return host.GetVolumes() > 0 || slices.ContainsFunc(host.GetPools(), func(p *adminpb.Pool) bool { return p.GetReservedBytes() > 0 })
}

// drainTaints are set by autoscalers on a node that they drain without cordoning it. They wait until no pod of a name that they evicted is there.
var drainTaints = []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"}

// IsUsable tells whether the node runs pods, and is neither cordoned, drained by an autoscaler, nor being deleted.
func IsUsable(n *corev1.Node) bool {
	drained := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(drainTaints, t.Key) })
	return isReady(n) && !n.Spec.Unschedulable && !drained && n.DeletionTimestamp == nil
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// IsUnheard tells whether why a host must not stop is not known, while its node is there: the log does not hear of it, or was restored and
// did not adopt it. A kubelet that says that it is not ready, as while its container runtime does not run, is there.
func IsUnheard(host *adminpb.Node, n *corev1.Node) bool {
	known := host == nil || host.GetState() == "lost" || host.GetState() == "reachable" && host.GetAdopted()
	return !known && !IsSilent(n)
}

// GuardWhys say which nodes must not be drained: those with the last good copy of a replicated volume, by the log, and those
// with a controller that must not stop. pods are the controllers' pods, by name.
func GuardWhys(nodes []*adminpb.Node, members []*adminpb.Member, pods map[string]*corev1.Pod) map[string]string {
	whys := map[string]string{}
	for _, n := range nodes {
		if len(n.GetStopReasons()) > 0 {
			whys[n.GetId()] = sentence(n.GetStopReasons(), 0) + ": wait until their other replicas are up to date"
		}
	}
	for _, m := range members {
		pod := pods[m.GetId()]
		if m.GetStoppable() || pod == nil || pod.Spec.NodeName == "" || !m.GetReachable() {
			continue
		}
		why := fmt.Sprintf("controller %s must not stop: %s", m.GetId(), m.GetStopReason())
		if other := whys[pod.Spec.NodeName]; other != "" {
			why = other + "; " + why
		}
		whys[pod.Spec.NodeName] = why
	}
	return whys
}
