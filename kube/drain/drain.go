// Package drain says what draining a node would do to storage: it lays the pods that Kubernetes would evict beside what the log says of
// their volumes, of the host and of the controllers. Plan is pure; Collect reads.
package drain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
	"github.com/holdfast-storage/holdfast/kube/why"
)

// The states of findings.
const (
	OK     = "ok"
	Waits  = "waits"   // somebody waits until something is done
	AtRisk = "at-risk" // the drain must not be begun, or does not end
)

// Facts are what is known when a node is about to be drained.
type Facts struct {
	Node    string
	Volumes []*adminpb.Volume
	Nodes   []*adminpb.Node         // with why they must not stop
	Risk    *adminpb.AtRiskResponse // if the node stopped
	Members []*adminpb.Member
	Kube    *Kube // nil: no Kubernetes was asked
}

// Kube is what Kubernetes says.
type Kube struct {
	Pods        []corev1.Pod                  // on the node
	Controllers map[string]*corev1.Pod        // the controllers' pods, by name
	Closed      map[string]string             // nodes on which no pod begins, and why
	Host        string                        // the id under which the node's kubelet has a host of Holdfast; empty: it has none
	Budget      *policyv1.PodDisruptionBudget // the guard's of the node; nil: there is none
}

// Plan says what a drain would do, the worst first.
func Plan(f *Facts) *adminpb.DrainPlanResponse {
	resp := &adminpb.DrainPlanResponse{Index: f.Risk.GetIndex(), Node: f.Node}
	resp.Findings = append(resp.Findings, f.node()...)
	resp.Findings = append(resp.Findings, f.controllers()...)
	resp.Findings = append(resp.Findings, f.guard()...)
	users := f.users()
	for _, v := range f.Volumes {
		if found := f.volume(v, users); found != nil {
			resp.Findings = append(resp.Findings, found)
		}
	}
	slices.SortStableFunc(resp.Findings, func(a, b *adminpb.DrainFinding) int { return cmp.Compare(rank[b.GetState()], rank[a.GetState()]) })
	conclude(resp)
	return resp
}

var rank = map[string]int{OK: 0, Waits: 1, AtRisk: 2}

func conclude(resp *adminpb.DrainPlanResponse) {
	count := map[string]int{}
	for _, found := range resp.GetFindings() {
		count[found.GetState()]++
	}
	resp.Harmless = count[Waits]+count[AtRisk] == 0
	resp.Summary = fmt.Sprintf("drain of node %s: %d at risk, %d wait, %d ok", resp.GetNode(), count[AtRisk], count[Waits], count[OK])
}

// IsRegistered tells whether the log has a host under the node's name.
func (f *Facts) IsRegistered() bool {
	return slices.ContainsFunc(f.Nodes, func(n *adminpb.Node) bool { return n.GetId() == f.Node })
}

func (f *Facts) node() []*adminpb.DrainFinding {
	if !f.IsRegistered() {
		return []*adminpb.DrainFinding{f.unregistered()}
	}
	away := f.away()
	if away == "" {
		return nil
	}
	return []*adminpb.DrainFinding{{Kind: "node", About: f.Node, State: AtRisk, Text: "the host is " + away + ": what it does is not known, and nothing on it is unmounted",
		Remedy: "`holdfast doctor --node " + f.Node + "`"}}
}

// unregistered is said of a node that only Kubernetes has.
func (f *Facts) unregistered() *adminpb.DrainFinding {
	one := &adminpb.DrainFinding{Kind: "node", About: f.Node, State: OK, Text: "the log has no host of this name: no volume has a copy here or is used here"}
	if f.Kube != nil && f.Kube.Host != "" {
		one.State = AtRisk
		one.Text = fmt.Sprintf("its kubelet has the host %s of Holdfast, and the log has no host %s: what is here is not known", f.Kube.Host, f.Node)
		one.Remedy = "`holdfast nodes`; then `holdfast nodes drain-plan " + f.Kube.Host + "`, if it is there"
	}
	return one
}

// away is the state of a host that is not reachable, or that a restored log did not adopt; empty: it is, or the log does not have it.
func (f *Facts) away() string {
	i := slices.IndexFunc(f.Nodes, func(n *adminpb.Node) bool { return n.GetId() == f.Node })
	switch {
	case i < 0 || f.Nodes[i].GetState() == "reachable" && f.Nodes[i].GetAdopted():
		return ""
	case f.Nodes[i].GetState() == "reachable":
		return "not adopted since the log was restored"
	}
	return f.Nodes[i].GetState()
}

// guard is what the node's guard answers to a drain.
func (f *Facts) guard() []*adminpb.DrainFinding {
	if f.Kube == nil {
		return nil
	}
	one := &adminpb.DrainFinding{Kind: "guard", About: f.Node, State: OK, Text: "the drain guard lets the drain end"}
	closed := plan.GuardWhys(f.Nodes, f.Members, f.Kube.Controllers)[f.Node]
	switch {
	case closed != "" && f.Kube.Budget != nil && !f.guardRuns():
		one.State, one.Text = AtRisk, "the drain guard's pod does not run, so that a drain passes, and the node must not be drained: "+closed
		one.Remedy = "see why the pod " + f.Kube.Budget.Name + " does not run"
	case closed != "" && f.Kube.Budget != nil:
		one.State, one.Text = AtRisk, "the drain guard keeps `kubectl drain` from ending: "+closed
	case closed != "":
		one.State, one.Text = AtRisk, "the node must not be drained, and no guard keeps it from that: "+closed
		one.Remedy = "see whether `holdfast kube` runs"
	case f.Kube.Budget != nil && f.away() != "":
		one.State, one.Text = AtRisk, "the drain guard keeps the drain from ending, as it did when the host was heard of: "+f.Kube.Budget.Annotations[plan.AnnotationWhy]
		one.Remedy = "have the host reachable and adopted; or `kubectl delete poddisruptionbudget " + f.Kube.Budget.Name + "`"
	case f.Kube.Budget != nil:
		one.State, one.Text = Waits, "the drain guard still stands, although its reason is gone: "+f.Kube.Budget.Annotations[plan.AnnotationWhy]
		one.Remedy = "wait until `holdfast kube` removes it, within a minute"
	}
	return []*adminpb.DrainFinding{one}
}

// guardRuns tells whether the guard's pod is one that a budget keeps.
func (f *Facts) guardRuns() bool {
	return slices.ContainsFunc(f.Kube.Pods, func(pod corev1.Pod) bool {
		return isGuard(&pod) && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
	})
}

func isGuard(pod *corev1.Pod) bool { return pod.Labels[plan.LabelDrainGuard] != "" }

// user are the pods on the node that use a claim.
type user struct {
	names   []string
	evicted bool // one of them is, by a drain
}

// users are the pods on the node, by their claims' namespace and name.
func (f *Facts) users() map[string]user {
	users := map[string]user{}
	if f.Kube == nil {
		return users
	}
	for i := range f.Kube.Pods {
		pod := &f.Kube.Pods[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || isGuard(pod) {
			continue
		}
		name, stays := pod.Namespace+"/"+pod.Name, staysInDrain(pod)
		if stays {
			name += " (a DaemonSet's or the kubelet's: it is not evicted)"
		}
		for _, claim := range why.ClaimsOf(pod) {
			key := pod.Namespace + "/" + claim
			users[key] = user{append(users[key].names, name), users[key].evicted || !stays}
		}
	}
	return users
}

// staysInDrain tells whether kubectl leaves a pod where it is.
func staysInDrain(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "DaemonSet" && o.Controller != nil && *o.Controller
	})
}
