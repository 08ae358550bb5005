// Package drain says what draining a node would do to storage: it lays the pods that Kubernetes would evict beside what the log says of
// their volumes, of the host and of the controllers. Plan is pure; Collect reads.
package drain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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

func (f *Facts) node() []*adminpb.DrainFinding {
	i := slices.IndexFunc(f.Nodes, func(n *adminpb.Node) bool { return n.GetId() == f.Node })
	if i < 0 || f.Nodes[i].GetState() == "reachable" {
		return nil
	}
	return []*adminpb.DrainFinding{{Kind: "node", About: f.Node, State: AtRisk, Text: "the host is " + f.Nodes[i].GetState() + ": what it does is not known, and nothing on it is unmounted",
		Remedy: "`holdfast doctor --node " + f.Node + "`"}}
}

// controllers are those that run on the node: by their pods, and without Kubernetes by their addresses.
func (f *Facts) controllers() (found []*adminpb.DrainFinding) {
	for _, m := range f.Members {
		if !f.runsHere(m) {
			continue
		}
		one := &adminpb.DrainFinding{Kind: "controller", About: m.GetId(), State: OK, Text: "the controller may stop: " + m.GetStopReason()}
		if !m.GetStoppable() || !m.GetReachable() {
			one.State, one.Text = AtRisk, "the controller must not stop: "+cmp.Or(m.GetStopReason(), m.GetDetail())
			one.Remedy = "wait until `holdfast members` shows every controller ready"
		}
		found = append(found, one)
	}
	return found
}

func (f *Facts) runsHere(m *adminpb.Member) bool {
	if f.Kube != nil {
		pod := f.Kube.Controllers[m.GetId()]
		return pod != nil && pod.Spec.NodeName == f.Node
	}
	at, err := netip.ParseAddrPort(m.GetAddress())
	if err != nil || at.Addr().IsLoopback() {
		return false // a name, or a cluster on one machine: it says nothing of the host
	}
	return slices.ContainsFunc(f.Nodes, func(n *adminpb.Node) bool {
		return n.GetId() == f.Node && slices.Contains(n.GetAddresses(), at.Addr().String())
	})
}

// guard is what the node's guard answers to a drain.
func (f *Facts) guard() []*adminpb.DrainFinding {
	if f.Kube == nil {
		return nil
	}
	one := &adminpb.DrainFinding{Kind: "guard", About: f.Node, State: OK, Text: "the drain guard lets the drain end"}
	closed := plan.GuardWhys(f.Nodes, f.Members, f.Kube.Controllers)[f.Node]
	switch {
	case closed != "" && f.Kube.Budget != nil:
		one.State, one.Text = AtRisk, "the drain guard keeps `kubectl drain` from ending: "+closed
	case closed != "":
		one.State, one.Text = AtRisk, "the node must not be drained, and no guard keeps it from that: "+closed
		one.Remedy = "see whether `holdfast kube` runs"
	case f.Kube.Budget != nil:
		one.State, one.Text = Waits, "the drain guard still stands, although its reason is gone: "+f.Kube.Budget.Annotations["holdfast.storage/why"]
		one.Remedy = "wait until `holdfast kube` removes it, within a minute"
	}
	return []*adminpb.DrainFinding{one}
}

// users are the pods on the node that a drain evicts, by their claims' namespace and name.
func (f *Facts) users() map[string][]string {
	users := map[string][]string{}
	if f.Kube == nil {
		return users
	}
	for i := range f.Kube.Pods {
		pod := &f.Kube.Pods[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		if staysInDrain(pod) {
			name += " (a DaemonSet's or the kubelet's: it is not evicted)"
		}
		for _, claim := range why.ClaimsOf(pod) {
			key := pod.Namespace + "/" + claim
			users[key] = append(users[key], name)
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

// volume is what happens to a volume; nil: the node has nothing of it.
func (f *Facts) volume(v *adminpb.Volume, users map[string][]string) *adminpb.DrainFinding {
	here := slices.ContainsFunc(v.GetReplicas(), func(r *adminpb.Replica) bool { return r.GetNode() == f.Node })
	used := slices.ContainsFunc(v.GetPublications(), func(p *adminpb.Publication) bool { return p.GetNode() == f.Node })
	if v.GetPhase() != "ready" || !here && !used {
		return nil
	}
	one := &adminpb.DrainFinding{Kind: "volume", About: v.GetId(), Name: v.GetName(), State: OK}
	if c := v.GetClaim(); c != nil {
		one.Name, one.Pods = c.GetNamespace()+"/"+c.GetName(), users[c.GetNamespace()+"/"+c.GetName()]
	}
	f.judge(one, v, used)
	return one
}

func (f *Facts) judge(one *adminpb.DrainFinding, v *adminpb.Volume, used bool) {
	risk := f.riskOf(v.GetId())
	elsewhere := f.elsewhere(v)
	switch {
	case risk.GetImpact() == "lost" || risk.GetImpact() == "frozen":
		one.State, one.Text = AtRisk, fmt.Sprintf("it would be %s if the host stopped then: %s", risk.GetImpact(), risk.GetReason())
		one.Remedy = "wait until `holdfast volumes replicas " + v.GetId() + "` shows the other replica up to date"
	case used && len(elsewhere) == 0:
		one.State, one.Text = Waits, "its only copy is here: who uses it waits until `kubectl uncordon "+f.Node+"`"
		one.Remedy = "stop who uses it, or give it a replica on another host first"
		if f.Kube == nil {
			one.Text = "its only copy is here: who uses it cannot use it on another host"
		}
	case used && risk.GetImpact() == "unavailable":
		one.State, one.Text = Waits, "nobody can use it meanwhile: "+risk.GetReason()
		one.Remedy = "wait until `holdfast volumes replicas " + v.GetId() + "` shows the other replica up to date"
	case used:
		one.Text = "who uses it can go on on " + strings.Join(elsewhere, ", ")
	case len(elsewhere) == 0:
		one.Text = "its only copy is here, and nothing uses it on this node"
	default:
		one.Text = "it is used elsewhere, or nowhere, and goes on with the copy on " + strings.Join(elsewhere, ", ")
	}
}

func (f *Facts) riskOf(id string) *adminpb.VolumeRisk {
	for _, r := range f.Risk.GetVolumes() {
		if r.GetVolume() == id {
			return r
		}
	}
	return nil
}

// elsewhere are the other hosts with a copy that can be reached.
func (f *Facts) elsewhere(v *adminpb.Volume) (nodes []string) {
	for _, r := range v.GetReplicas() {
		reached := slices.ContainsFunc(f.Nodes, func(n *adminpb.Node) bool { return n.GetId() == r.GetNode() && n.GetState() == "reachable" })
		if r.GetNode() != f.Node && reached {
			nodes = append(nodes, r.GetNode())
		}
	}
	return nodes
}
