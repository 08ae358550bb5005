// Package plan decides what the loop beside the controllers changes in Kubernetes: pure functions from what the log says and what the
// API server says to one wanted step, or to sentences. Each is asked again after its step was done, so that a loop that was killed
// between any two goes on where it was: what it did is in the objects.
package plan

// Names of what the loop keeps in Kubernetes' objects.
const (
	Driver = "csi.holdfast.storage"

	// TaintOutOfService makes Kubernetes delete a node's pods and detach its volumes, without asking its kubelet.
	TaintOutOfService = "node.kubernetes.io/out-of-service"
	TaintValue        = "nodeshutdown"

	// TaintStartup is what a cluster gives to nodes that join, so that no pod is placed there before the driver is: by kubelet's
	// registerWithTaints, or by who makes the nodes. Its value and effect are free. The loop takes it off.
	TaintStartup = "csi.holdfast.storage/agent-not-ready"

	// AnnotationOutOfService is on a node whose taint the loop set: the index since which it is out of service.
	AnnotationOutOfService = "holdfast.storage/out-of-service"
	// AnnotationReturned is on a node that the loop returns to service: that index. It changes the node before the log does, so that
	// another loop's taint, which was decided before, is refused.
	AnnotationReturned = "holdfast.storage/returned"
	// AnnotationReclaimPolicy is on a persistent volume that is made anew: the reclaim policy that it gets back.
	AnnotationReclaimPolicy = "holdfast.storage/reclaim-policy"

	// LabelSavedVolume is on a ConfigMap with a persistent volume that is made anew.
	LabelSavedVolume = "holdfast.storage/saved-volume"
	// SavedKey is where that ConfigMap has it.
	SavedKey = "persistent-volume.json"
	// LabelDrainGuard is on a pod, and on its PodDisruptionBudget, that keep a node from being drained: the node's uid.
	LabelDrainGuard = "holdfast.storage/drain-guard"
	// AnnotationWhy is on that budget: why the node must not be drained; empty: it may be, and the budget goes.
	AnnotationWhy = "holdfast.storage/why"
	// AnnotationGuardNode is on both: the node's name.
	AnnotationGuardNode = "holdfast.storage/node"
	// AnnotationGuardSpec is on that pod: which it was made from.
	AnnotationGuardSpec = "holdfast.storage/guard-spec"
	// AnnotationSafeToEvict and AnnotationDoNotDisrupt on that pod say to autoscalers whether they may take the machine away for good.
	AnnotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	AnnotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)
