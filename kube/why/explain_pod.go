package why

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-storage/holdfast/fsm"
)

// pod tells whether the pod is scheduled and mounted.
func (e *explanation) pod() {
	about := e.Pod.Namespace + "/" + e.Pod.Name
	switch {
	case e.Pod.DeletionTimestamp != nil:
		e.terminating(about)
	case e.Pod.Spec.NodeName == "":
		e.add("scheduled", about, Waiting, e.scheduleRemedy(), "it is on no node yet%s", e.unschedulable())
	case e.Pod.Status.Phase == corev1.PodRunning:
		e.add("running", about, Done, "", "it runs on %s", e.Pod.Spec.NodeName)
	case e.Pod.Status.Phase == corev1.PodSucceeded || e.Pod.Status.Phase == corev1.PodFailed:
		e.add("running", about, Done, "", "it has ended: %s", e.Pod.Status.Phase)
	default:
		e.starting(about)
	}
}

func (e *explanation) terminating(about string) {
	host, known := e.Hosts[e.Pod.Spec.NodeName]
	if known && host.Record.GetState() != "" && host.Record.GetState() != "reachable" {
		e.add("running", about, Waiting, e.attachRemedy([]string{e.Pod.Spec.NodeName}), "it ends, but its node %s is %s: nobody confirms it", e.Pod.Spec.NodeName, host.Record.GetState())
		return
	}
	e.add("running", about, Waiting, "", "it ends on %s", e.Pod.Spec.NodeName)
}

func (e *explanation) unschedulable() string {
	for _, c := range e.Pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return ": " + c.Message
		}
	}
	return e.lastWarning(e.Events)
}

// scheduleRemedy names the nodes that a volume allows where none of them takes pods.
func (e *explanation) scheduleRemedy() string {
	for _, c := range e.Claims {
		if allowed := allowedHosts(c.Volume); len(allowed) > 0 && !slices.ContainsFunc(allowed, e.takesPods) {
			return "its volume is only on " + strings.Join(allowed, " and ") + ": uncordon or repair one of them; kubectl holdfast volumes " + c.Volume.Spec.CSI.VolumeHandle
		}
	}
	return ""
}

func (e *explanation) takesPods(name string) bool {
	host := e.Hosts[name]
	return host.Node != nil && !host.Node.Spec.Unschedulable && isReady(host.Node)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// allowedHosts are those that the volume's node affinity names; none: it names no host.
func allowedHosts(pv *corev1.PersistentVolume) (names []string) {
	if pv == nil || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, expression := range term.MatchExpressions {
			if expression.Key == fsm.TopologyKey {
				names = append(names, expression.Values...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// starting tells of a pod that is on a node and does not run.
func (e *explanation) starting(about string) {
	for _, status := range slices.Concat(e.Pod.Status.InitContainerStatuses, e.Pod.Status.ContainerStatuses) {
		if w := status.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			e.add("running", about, Broken, "kubectl logs -n "+e.Pod.Namespace+" "+e.Pod.Name+" -c "+status.Name, "container %s: %s %s", status.Name, w.Reason, w.Message)
			return
		}
	}
	for _, event := range slices.Backward(e.Events) {
		if event.Reason == "FailedMount" || event.Reason == "FailedMapVolume" {
			e.add("mounted", about, Broken, "kubectl holdfast operations", "%s", event.Message)
			return
		}
	}
	e.add("running", about, Waiting, "", "kubelet of %s prepares it", e.Pod.Spec.NodeName)
}
