package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// FailoverKind is what is done next with a node.
type FailoverKind uint8

const (
	FailoverNone FailoverKind = iota
	// FailoverWait: nothing now; Why says what is waited for.
	FailoverWait
	// FailoverRefuse: nothing, until somebody changes what Why names.
	FailoverRefuse
	// FailoverTakeOut takes the node out of service in the log.
	FailoverTakeOut
	// FailoverTaint sets the taint, under the proof.
	FailoverTaint
	// FailoverForgetPods removes the pods whose end was asked for, and whose volumes are free, from the API server at once, as it would
	// do by itself some time later: nobody is there who could confirm their end.
	FailoverForgetPods
	// FailoverEndPods deletes the pods whose volumes were taken from a node that is back, with their grace: those too that tolerate the
	// loop's taint, or that it did not reach before somebody took it off. Why says what the node's return waits for.
	FailoverEndPods
	// FailoverUntaint takes the loop's own taint off, and marks the node as returned where it is.
	FailoverUntaint
	// FailoverMarkReturned marks a node that was never tainted.
	FailoverMarkReturned
	// FailoverReturn returns the node to service in the log.
	FailoverReturn
)

// Failover is the one step to do next.
type Failover struct {
	Kind FailoverKind
	Why  string
	// Since is the index since which the node is out of service.
	Since uint64
}

// NodeFacts are what is known of a node. The Node was read before the log, and the log before the step is done: the step names the
// Node's resource version, so that it is refused where anything changed meanwhile.
type NodeFacts struct {
	Node *corev1.Node
	// Log is the log's answer; nil where it does not know the node.
	Log *adminpb.OutOfServiceResponse
	// Attachments are all that name the node.
	Attachments []storagev1.VolumeAttachment
	// Pods is what the pods there use.
	Pods PodFacts
	// LeaseSilent: the kubelet does not renew its Lease, though Kubernetes may not have the node as unknown yet.
	LeaseSilent bool
}

// PodFacts are what is known of the pods on a node.
type PodFacts struct {
	// Foreign says which of them may write to a volume of another driver that knows no attachments; empty: none does.
	Foreign string
	// Waiting are the names of persistent volumes that only pods use which did not start yet.
	Waiting map[string]bool
	// Ending: a pod that uses volumes of this driver was told to end.
	Ending bool
}

// NextFailover decides it (S170). The taint is set only while the node is out of service in the log, its kubelet is not heard of, every
// volume that its host had in use is proven to get no write acknowledged, and no other driver's volume is attached there. Then the log lets nothing of Holdfast happen there until
// the loop returned it, which it does after it took the taint off.
func NextFailover(f NodeFacts) Failover {
	switch {
	case f.Log == nil:
		return Failover{}
	case f.Log.GetSince() == 0:
		return f.inService()
	case f.annotated(AnnotationReturned, f.Log.GetSince()):
		return Failover{Kind: FailoverReturn, Since: f.Log.GetSince()}
	case f.mayReturn() && f.ownTaint():
		return Failover{Kind: FailoverUntaint, Since: f.Log.GetSince()}
	case f.mayReturn():
		return Failover{Kind: FailoverMarkReturned, Since: f.Log.GetSince()}
	case f.ownTaint() && !f.annotated(AnnotationOutOfService, f.Log.GetSince()):
		return Failover{Kind: FailoverUntaint, Why: "the taint is of an earlier time out of service"}
	case f.ownTaint() && f.tainted() && f.silent() && f.Log.GetProven() && f.Pods.Ending:
		return Failover{Kind: FailoverForgetPods, Since: f.Log.GetSince()}
	case !f.silent() && (f.ownTaint() || !f.tainted()):
		return Failover{Kind: FailoverEndPods, Why: f.returnWaits(), Since: f.Log.GetSince()}
	case f.ownTaint(), f.tainted():
		return Failover{Kind: FailoverWait, Why: f.returnWaits(), Since: f.Log.GetSince()}
	}
	return f.outOfService()
}

// inService: the log gives the node what it asks for.
func (f NodeFacts) inService() Failover {
	switch {
	case f.ownTaint():
		return Failover{Kind: FailoverUntaint, Why: "the log does not say that the node is out of service"}
	case f.tainted() || !f.silent() || f.Log.GetState() != "unreachable" || len(f.own()) == 0:
		return Failover{}
	case f.foreign() != "":
		return Failover{Kind: FailoverRefuse, Why: f.foreign()}
	case len(f.Log.GetRefused()) > 0:
		return Failover{Kind: FailoverRefuse, Why: sentence(f.Log.GetRefused(), f.Log.GetMore())}
	}
	return Failover{Kind: FailoverTakeOut}
}

// outOfService: it is taken out, and the taint is not set yet.
func (f NodeFacts) outOfService() Failover {
	since := f.Log.GetSince()
	switch {
	case f.foreign() != "":
		return Failover{Kind: FailoverRefuse, Why: f.foreign(), Since: since}
	case !f.Log.GetProven():
		return Failover{Kind: FailoverWait, Why: sentence(f.Log.GetWaits(), f.Log.GetMore()), Since: since}
	}
	return Failover{Kind: FailoverTaint, Since: since}
}

// silent: Kubernetes does not hear of the kubelet. One that says that it is not ready is there.
func (f NodeFacts) silent() bool { return f.LeaseSilent || IsSilent(f.Node) }

// IsSilent tells whether Kubernetes has the node as one whose kubelet it does not hear of any more.
func IsSilent(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

func (f NodeFacts) tainted() bool {
	return slices.ContainsFunc(f.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == TaintOutOfService })
}

// ownTaint: the loop set it, whether or not somebody took it off since.
func (f NodeFacts) ownTaint() bool { return f.Node.Annotations[AnnotationOutOfService] != "" }

func (f NodeFacts) annotated(key string, since uint64) bool {
	return f.Node.Annotations[key] == strconv.FormatUint(since, 10)
}

// mayReturn: its host ended what it held, and Kubernetes detached all of it, but for what pods wait for that were made since: nothing
// detaches that while they are there, and the attacher publishes it again once the node serves. Which pods started is known while the
// kubelet is heard of.
func (f NodeFacts) mayReturn() bool { return f.Log.GetReturnWaits() == "" && f.held() == 0 }

func (f NodeFacts) held() (n int) {
	for _, a := range f.own() {
		name := a.Spec.Source.PersistentVolumeName
		if f.silent() || a.DeletionTimestamp != nil || name == nil || !f.Pods.Waiting[*name] {
			n++
		}
	}
	return n
}

func (f NodeFacts) returnWaits() string {
	if why := f.Log.GetReturnWaits(); why != "" {
		return why
	}
	return fmt.Sprintf("%d volumes are still attached there: delete the pods that use them", f.held())
}

// own are the attachments of this driver that are made, or being ended. One that is only asked for waits until the node is in service.
func (f NodeFacts) own() (own []storagev1.VolumeAttachment) {
	for _, a := range f.Attachments {
		if a.Spec.Attacher == Driver && (a.Status.Attached || a.DeletionTimestamp != nil) {
			own = append(own, a)
		}
	}
	return own
}

// foreign says which other driver's volume is used there, by its attachments, by what the node's status says or by its pods; empty: none is. The
// taint detaches all volumes by force and has all pods run elsewhere, and the log proves nothing of theirs.
func (f NodeFacts) foreign() string {
	for _, a := range f.Attachments {
		if a.Spec.Attacher != Driver {
			return foreignWhy(a.Spec.Attacher)
		}
	}
	for _, v := range f.Node.Status.VolumesAttached {
		if name := string(v.Name); !strings.HasPrefix(name, "kubernetes.io/csi/"+Driver+"^") {
			return foreignWhy(name)
		}
	}
	if f.Pods.Foreign != "" {
		return foreignWhy(f.Pods.Foreign)
	}
	return ""
}

func foreignWhy(what string) string {
	return fmt.Sprintf("volumes of %s are used there too, of which the log knows nothing: make sure that the node is off, then taint it: kubectl taint nodes NODE %s=%s:NoExecute", what, TaintOutOfService, TaintValue)
}

// sentence is the first of several reasons.
func sentence(reasons []string, more uint64) string {
	const most = 3
	n := min(len(reasons), most)
	text := strings.Join(reasons[:n], "; ")
	if left := uint64(len(reasons)-n) + more; left > 0 { //nolint:gosec // a count
		text += fmt.Sprintf("; and %d more", left)
	}
	return text
}

// Entry is the proof as an Event has it: the index that it was read at, and of each volume the generation and the witness.
func Entry(x *adminpb.OutOfServiceResponse) string {
	var parts []string
	for _, e := range x.GetEnded() {
		parts = append(parts, fmt.Sprintf("%s generation %d seen by %s", e.GetVolume(), e.GetGeneration(), e.GetWitness()))
	}
	return fmt.Sprintf("log index %d, out of service since %d: %s", x.GetIndex(), x.GetSince(), sentence(parts, x.GetMore()))
}

// EntryOf is the proof of one volume; empty where the answer has none.
func EntryOf(x *adminpb.OutOfServiceResponse, volume string) string {
	for _, e := range x.GetEnded() {
		if e.GetVolume() == volume {
			return fmt.Sprintf("log index %d, generation %d: %s", x.GetIndex(), e.GetGeneration(), e.GetReason())
		}
	}
	return ""
}
