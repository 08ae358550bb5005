package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// AffinityKind is what is done next with a persistent volume whose node affinity is not where the log has the volume's replicas.
type AffinityKind uint8

const (
	AffinityNone AffinityKind = iota
	// AffinityWait: nothing now; Why says what is waited for.
	AffinityWait
	// AffinityPatch changes it in place, which the API server may refuse.
	AffinityPatch
	// AffinityRetain notes the reclaim policy in an annotation, and makes it Retain.
	AffinityRetain
	// AffinitySave writes the object, as it is now, into a ConfigMap.
	AffinitySave
	// AffinityDelete deletes it, at exactly the version that was saved.
	AffinityDelete
	// AffinityStrip takes off the finalizers that only keep its content, which Retain keeps.
	AffinityStrip
	// AffinityCreate makes it anew, with its name, its claim and its volume.
	AffinityCreate
	// AffinityRestore gives it its reclaim policy back.
	AffinityRestore
	// AffinityForget removes the ConfigMap.
	AffinityForget
)

// Affinity is the one step to do next.
type Affinity struct {
	Kind AffinityKind
	Why  string
}

// VolumeFacts are what is known of a persistent volume.
type VolumeFacts struct {
	PV    *corev1.PersistentVolume // nil: there is none of the name
	Saved *corev1.PersistentVolume // what was saved of it; nil: nothing
	// SavedVersion is the resource version of the ConfigMap that has it: a loop that was late neither overwrites nor removes
	// what another one saved since.
	SavedVersion string
	Claim        *corev1.PersistentVolumeClaim
	// Want are where the log has it; nil: the log does not know now.
	Want []corev1.NodeSelectorTerm
	// Elsewhere are the hosts of other sites, which no pod here can be on: they are neither wanted nor missed.
	Elsewhere map[string]bool
	// InUse says what uses it; empty: nothing does.
	InUse string
	// Immutable: the API server refused to change a node affinity.
	Immutable bool
}

// removableFinalizers protect a persistent volume's content from being lost with the object. Retain does that too.
var removableFinalizers = []string{"kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"}

// NextAffinity decides it (S172). What was saved is made again whatever else is true, so that no claim is left without its volume;
// nothing is begun on a volume that is in use.
func NextAffinity(f VolumeFacts) Affinity {
	switch {
	case f.PV == nil && f.Saved == nil:
		return Affinity{}
	case f.PV == nil:
		return Affinity{Kind: AffinityCreate}
	case f.PV.DeletionTimestamp != nil:
		return f.deleting()
	case f.Want == nil || f.agrees():
		return f.finish()
	case f.InUse != "":
		if f.began() {
			return f.finish()
		}
		return Affinity{AffinityWait, f.InUse}
	}
	return f.change()
}

// change: its affinity is wrong, and nothing uses it.
func (f VolumeFacts) change() Affinity {
	switch {
	case f.PV.Status.Phase != corev1.VolumeBound || f.PV.Spec.ClaimRef == nil:
		return f.finish()
	case !f.Immutable:
		return Affinity{Kind: AffinityPatch}
	case f.foreignFinalizer() != "":
		return Affinity{AffinityWait, fmt.Sprintf("it has the finalizer %s of somebody else", f.foreignFinalizer())}
	case !f.retained():
		return Affinity{Kind: AffinityRetain}
	case !f.saved():
		return Affinity{Kind: AffinitySave}
	}
	return Affinity{Kind: AffinityDelete}
}

// deleting: it goes as soon as its finalizers are off. Only what this loop saved is helped on.
func (f VolumeFacts) deleting() Affinity {
	switch {
	case f.Saved == nil || f.Saved.UID != f.PV.UID:
		return Affinity{}
	case !f.retained():
		return Affinity{Kind: AffinityRetain}
	case !f.saved():
		return Affinity{Kind: AffinitySave}
	case f.foreignFinalizer() != "":
		return Affinity{AffinityWait, fmt.Sprintf("it has the finalizer %s of somebody else", f.foreignFinalizer())}
	}
	return Affinity{Kind: AffinityStrip}
}

// finish ends what was begun. The reclaim policy returns when the claim is bound to the volume again, or is not there any more.
func (f VolumeFacts) finish() Affinity {
	switch {
	case f.PV.Annotations[AnnotationReclaimPolicy] != "" && f.claimed() && !f.bound():
		return Affinity{AffinityWait, "its claim is not bound to it again"}
	case f.PV.Annotations[AnnotationReclaimPolicy] != "":
		return Affinity{Kind: AffinityRestore}
	case f.Saved != nil:
		return Affinity{Kind: AffinityForget}
	}
	return Affinity{}
}

func (f VolumeFacts) began() bool {
	return f.Saved != nil || f.PV.Annotations[AnnotationReclaimPolicy] != ""
}

// retained: its content stays without the object, and its own policy is noted. Somebody may have set a policy since that was noted.
func (f VolumeFacts) retained() bool {
	return f.PV.Annotations[AnnotationReclaimPolicy] != "" && f.PV.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

// claimed: the claim that it is bound to is still there.
func (f VolumeFacts) claimed() bool {
	return f.Claim != nil && f.PV.Spec.ClaimRef != nil && f.Claim.UID == f.PV.Spec.ClaimRef.UID
}

func (f VolumeFacts) bound() bool {
	return f.Claim.Status.Phase == corev1.ClaimBound && f.Claim.Spec.VolumeName == f.PV.Name && f.PV.Status.Phase == corev1.VolumeBound
}

// saved: what was saved is what it is now.
func (f VolumeFacts) saved() bool {
	return f.Saved != nil && f.Saved.UID == f.PV.UID && equality.Semantic.DeepEqual(f.Saved.Spec, f.PV.Spec) &&
		maps.Equal(f.Saved.Annotations, f.PV.Annotations) && maps.Equal(f.Saved.Labels, f.PV.Labels) &&
		equality.Semantic.DeepEqual(f.Saved.OwnerReferences, f.PV.OwnerReferences)
}

func (f VolumeFacts) foreignFinalizer() string {
	for _, name := range f.PV.Finalizers {
		if !slices.Contains(removableFinalizers, name) {
			return name
		}
	}
	return ""
}

// agrees: it names the hosts of this site that the log does, each in one term. A volume without an affinity may be used anywhere,
// which its maker said.
func (f VolumeFacts) agrees() bool {
	if f.PV.Spec.NodeAffinity == nil || f.PV.Spec.NodeAffinity.Required == nil {
		return true
	}
	have, readable := termKeys(slices.DeleteFunc(slices.Clone(f.PV.Spec.NodeAffinity.Required.NodeSelectorTerms), f.isElsewhere))
	want, _ := termKeys(f.Want)
	return !readable || slices.Equal(have, want)
}

func (f VolumeFacts) isElsewhere(t corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
		return e.Key == TopologyKey && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 && f.Elsewhere[e.Values[0]]
	})
}

// termKeys are the terms in a form in which they are compared; not readable are terms that no topology makes.
func termKeys(terms []corev1.NodeSelectorTerm) (keys []string, readable bool) {
	for _, t := range terms {
		var parts []string
		for _, e := range t.MatchExpressions {
			if e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 {
				return nil, false
			}
			parts = append(parts, e.Key+"="+e.Values[0])
		}
		if len(t.MatchFields) > 0 {
			return nil, false
		}
		slices.Sort(parts)
		keys = append(keys, strings.Join(parts, ","))
	}
	slices.Sort(keys)
	return slices.Compact(keys), true
}

// TopologyKey is the segment that names the host.
const TopologyKey = "topology.holdfast.storage/node"

// HostsElsewhere are the hosts at sites of which no host is a node of this Kubernetes; none where no host at all is one.
func HostsElsewhere(nodes map[string]*adminpb.Node, kube []corev1.Node) map[string]bool {
	own, elsewhere := map[string]bool{}, map[string]bool{}
	for i := range kube {
		if n := nodes[kube[i].Name]; n != nil {
			own[n.GetSite()] = true
		}
	}
	for id, n := range nodes {
		if len(own) > 0 && !own[n.GetSite()] {
			elsewhere[id] = true
		}
	}
	return elsewhere
}

// WantedTerms are where the log has a volume's replicas, as the provisioner would say it, but for those elsewhere; nil while a
// replica is being made, or a host is not known: then it is looked at again.
func WantedTerms(v *adminpb.Volume, nodes map[string]*adminpb.Node, elsewhere map[string]bool) (terms []corev1.NodeSelectorTerm) {
	if v.GetPhase() != "ready" || v.GetConversion() != nil {
		return nil
	}
	for _, r := range v.GetReplicas() {
		switch n := nodes[r.GetNode()]; {
		case elsewhere[r.GetNode()]:
		case r.GetState() == "planned" || n == nil && r.GetState() != "leaving" && r.GetState() != "gone":
			return nil
		case r.GetState() == "present" || r.GetState() == "missing":
			terms = append(terms, termOf(n))
		}
	}
	return terms
}

func termOf(n *adminpb.Node) (t corev1.NodeSelectorTerm) {
	segments := map[string]string{TopologyKey: n.GetId()}
	for _, l := range n.GetLabels() {
		segments[l.GetKey()] = l.GetValue()
	}
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{segments[key]}})
	}
	return t
}

// Renewed is the object that is made anew of what was saved, where the log has the volume now; where the log does not know, where it was.
func Renewed(saved *corev1.PersistentVolume, want []corev1.NodeSelectorTerm) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{Spec: *saved.Spec.DeepCopy()}
	pv.Name, pv.Labels, pv.Annotations = saved.Name, maps.Clone(saved.Labels), maps.Clone(saved.Annotations)
	pv.Finalizers, pv.OwnerReferences = slices.Clone(saved.Finalizers), saved.DeepCopy().OwnerReferences
	if pv.Spec.ClaimRef != nil {
		pv.Spec.ClaimRef.ResourceVersion = ""
	}
	if want != nil {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: want}}
	}
	return pv
}

// Stripped are the finalizers that stay.
func Stripped(finalizers []string) (left []string) {
	for _, name := range finalizers {
		if !slices.Contains(removableFinalizers, name) {
			left = append(left, name)
		}
	}
	return left
}
