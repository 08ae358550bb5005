package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-storage/holdfast/csi/identity"
)

// driver is the CSI driver whose volumes are explained; claims of others are passed over.
const driver = identity.Name

// Explain answers the steps in order. The first that is not Done is the cause; later ones are told where they are known.
func Explain(f Facts) []Finding {
	e := &explanation{Facts: f}
	e.cluster()
	for i := range f.Claims {
		e.claim(&f.Claims[i])
	}
	if f.Pod != nil {
		e.pod()
	}
	return e.findings
}

// Cause is the first finding that is not Done; ok is false where all is.
func Cause(findings []Finding) (cause Finding, ok bool) {
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.State != Done })
	if i < 0 {
		return Finding{}, false
	}
	return findings[i], true
}

type explanation struct {
	Facts
	findings []Finding
}

func (e *explanation) add(step, about string, state State, remedy, format string, args ...any) {
	e.findings = append(e.findings, Finding{Step: step, About: about, State: state, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (e *explanation) cluster() {
	switch {
	case e.Trouble != "":
		e.add("cluster", "holdfast", Unknown, "kubectl holdfast doctor", "the log could not be asked: %s", e.Trouble)
	case e.Status.GetLeader() == "":
		e.add("cluster", "holdfast", Broken, "kubectl holdfast status", "there is no leader: nothing new is provisioned, attached or staged until a majority of controllers runs; mounted volumes go on")
	default:
		e.add("cluster", "holdfast", Done, "", "%s leads %d members", e.Status.GetLeader(), len(e.Status.GetMembers()))
	}
}

// claim tells the steps of one claim until one is not done.
func (e *explanation) claim(c *Claim) {
	about := c.Namespace + "/" + c.Name
	if c.Object == nil {
		e.add("claim", about, Broken, "", "there is no claim of this name")
		return
	}
	if !e.bound(c, about) {
		return
	}
	if source := c.Volume.Spec.CSI; source == nil || source.Driver != driver {
		e.add("claim", about, Unknown, "", "its volume %s is not of %s", c.Volume.Name, driver)
		return
	}
	e.record(c, about)
	if e.Pod != nil && e.Pod.Spec.NodeName != "" {
		e.attachment(c, about, e.Pod.Spec.NodeName)
	}
}

func (e *explanation) bound(c *Claim, about string) bool {
	switch {
	case c.Volume != nil:
		e.add("bound", about, Done, "", "bound to %s", c.Volume.Name)
		return true
	case c.Class == nil:
		e.add("bound", about, Broken, "kubectl get storageclasses", "its storage class %q is not there", className(c.Object))
	case c.Object.Status.Phase == corev1.ClaimLost:
		e.add("bound", about, Broken, "kubectl holdfast volumes orphans", "its volume %s is gone from Kubernetes; the log still has what it is", c.Object.Spec.VolumeName)
	case waitsForPod(c) && (e.Pod == nil || e.Pod.Spec.NodeName == ""):
		e.add("bound", about, Waiting, "", "its class binds late: it waits until a pod that uses it is scheduled%s", e.lastWarning(c.Events))
	default:
		e.add("bound", about, Waiting, provisionRemedy(c.Events), "it is not provisioned yet%s", e.lastWarning(c.Events))
	}
	return false
}

func className(pvc *corev1.PersistentVolumeClaim) string {
	if pvc.Spec.StorageClassName == nil {
		return ""
	}
	return *pvc.Spec.StorageClassName
}

func waitsForPod(c *Claim) bool {
	return c.Class.VolumeBindingMode != nil && *c.Class.VolumeBindingMode == "WaitForFirstConsumer" &&
		c.Object.Annotations["volume.kubernetes.io/selected-node"] == ""
}

func (*explanation) lastWarning(events []Said) string {
	for _, event := range slices.Backward(events) {
		if event.Warning {
			return ": " + event.Message
		}
	}
	return ""
}

func provisionRemedy(events []Said) string {
	for _, event := range events {
		if strings.Contains(event.Message, "ResourceExhausted") {
			return "kubectl holdfast nodes -o wide; then free or add capacity"
		}
	}
	return ""
}
