package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func attached(driver string) storagev1.VolumeAttachment {
	name := "pvc-1"
	return storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
}

func node(ready corev1.ConditionStatus, annotations map[string]string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: annotations}, Spec: corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

var ownTaint = corev1.Taint{Key: TaintOutOfService, Value: TaintValue, Effect: corev1.TaintEffectNoExecute}

func away(x *adminpb.OutOfServiceResponse) *adminpb.OutOfServiceResponse {
	x.Node, x.State = "n1", "unreachable"
	if x.Since != 0 {
		x.ReturnWaits = "its host cannot be reached"
	}
	return x
}

func proven() *adminpb.OutOfServiceResponse {
	return away(&adminpb.OutOfServiceResponse{Index: 90, Since: 80, Proven: true, Ended: []*adminpb.WritesEnded{{Volume: "v1", Generation: 80, Witness: "n2", Reason: "why"}}})
}

// bySilentLease are the same facts where only the kubelet's Lease says that Kubernetes does not hear of it.
func bySilentLease(f NodeFacts) NodeFacts {
	if f.Node = f.Node.DeepCopy(); IsSilent(f.Node) {
		f.Node.Status.Conditions[0].Status, f.LeaseSilent = corev1.ConditionTrue, true
	}
	return f
}

// S170: the taint is set under all of its conditions and under none less, and only one step follows from what is there.
func TestS170_TheNextStepOfAFailover(t *testing.T) {
	out, back := map[string]string{AnnotationOutOfService: "80"}, map[string]string{AnnotationReturned: "80"}
	ours, other := attached(Driver), attached("ebs.csi.aws.com")
	asked, ending := ours, ours
	asked.Status.Attached = false
	ending.DeletionTimestamp = &metav1.Time{}
	silent, ready := corev1.ConditionUnknown, corev1.ConditionTrue
	attachments := func(all ...storagev1.VolumeAttachment) []storagev1.VolumeAttachment { return all }
	returned := &adminpb.OutOfServiceResponse{Since: 80, Proven: true, State: "reachable"}
	waiting := PodFacts{Waiting: map[string]bool{"pvc-1": true}}
	inTree := node(silent, nil)
	inTree.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/" + Driver + "^v1"}, {Name: "kubernetes.io/gce-pd/x"}}
	for name, tc := range map[string]struct {
		facts NodeFacts
		want  FailoverKind
		why   string
	}{
		"a node that the log does not know":        {NodeFacts{node(silent, nil), nil, attachments(ours), PodFacts{}, false}, FailoverNone, ""},
		"a node that is there":                     {NodeFacts{node(ready, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours), PodFacts{}, false}, FailoverNone, ""},
		"a kubelet that says it is not ready":      {NodeFacts{node(corev1.ConditionFalse, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours), PodFacts{}, false}, FailoverNone, ""},
		"a host that a controller hears of":        {NodeFacts{node(silent, nil), &adminpb.OutOfServiceResponse{State: "reachable", Refused: []string{"it is there"}}, attachments(ours), PodFacts{}, false}, FailoverNone, ""},
		"nothing of ours is attached":              {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), nil, PodFacts{}, false}, FailoverNone, ""},
		"only asked for":                           {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), attachments(asked), PodFacts{}, false}, FailoverNone, ""},
		"it is gone":                               {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours), PodFacts{}, false}, FailoverTakeOut, ""},
		"somebody tainted it":                      {NodeFacts{node(silent, nil, ownTaint), away(&adminpb.OutOfServiceResponse{}), attachments(ours), PodFacts{}, false}, FailoverNone, ""},
		"the log refuses":                          {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{Refused: []string{"its only copy"}}), attachments(ours), PodFacts{}, false}, FailoverRefuse, "its only copy"},
		"another driver's volume is there":         {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours, other), PodFacts{}, false}, FailoverRefuse, "ebs.csi.aws.com"},
		"a volume without attachment":              {NodeFacts{inTree, away(&adminpb.OutOfServiceResponse{}), attachments(ours), PodFacts{}, false}, FailoverRefuse, "gce-pd"},
		"a pod there writes to another volume":     {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours), PodFacts{Foreign: "nfs.csi.k8s.io"}, false}, FailoverRefuse, "nfs.csi.k8s.io"},
		"taken out, and a pod there writes":        {NodeFacts{node(silent, nil), proven(), attachments(ours), PodFacts{Foreign: "nfs.csi.k8s.io"}, false}, FailoverRefuse, "nfs.csi.k8s.io"},
		"back, and a new pod waits for its volume": {NodeFacts{node(ready, nil), returned, attachments(ours), waiting, false}, FailoverMarkReturned, ""},
		"back, and one is detached that pods want": {NodeFacts{node(ready, nil), returned, attachments(ending), waiting, false}, FailoverEndPods, "1 volumes"},
		"back, and its kubelet is silent":          {NodeFacts{node(silent, nil), &adminpb.OutOfServiceResponse{Since: 80, State: "reachable", Waits: []string{"n2 has not"}}, attachments(ours), waiting, false}, FailoverWait, "n2 has not"},
		"back, and a pod uses another volume":      {NodeFacts{node(ready, nil), returned, attachments(ours), PodFacts{Waiting: map[string]bool{"pvc-2": true}}, false}, FailoverEndPods, "1 volumes"},
		"taken out and not proven":                 {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{Since: 80, Waits: []string{"n2 has not"}}), attachments(ours), PodFacts{}, false}, FailoverWait, "n2 has not"},
		"taken out, and another driver came":       {NodeFacts{node(silent, nil), proven(), attachments(ours, other), PodFacts{}, false}, FailoverRefuse, "ebs"},
		"proven":                                   {NodeFacts{node(silent, nil), proven(), attachments(ours), PodFacts{}, false}, FailoverTaint, ""},
		"proven, and the kubelet is back":          {NodeFacts{node(ready, nil), proven(), attachments(ours), PodFacts{}, false}, FailoverEndPods, ""},
		"proven, and an admin tainted it":          {NodeFacts{node(silent, nil, ownTaint), proven(), attachments(ours), PodFacts{}, false}, FailoverWait, "cannot be reached"},
		"tainted, and away":                        {NodeFacts{node(silent, out, ownTaint), proven(), nil, PodFacts{}, false}, FailoverWait, "cannot be reached"},
		"tainted, and a pod was told to end":       {NodeFacts{node(silent, out, ownTaint), proven(), attachments(ours), PodFacts{Ending: true}, false}, FailoverForgetPods, ""},
		"told to end, and the kubelet is back":     {NodeFacts{node(ready, out, ownTaint), proven(), attachments(ours), PodFacts{Ending: true}, false}, FailoverEndPods, ""},
		"told to end, and an admin tainted it":     {NodeFacts{node(silent, nil, ownTaint), proven(), attachments(ours), PodFacts{Ending: true}, false}, FailoverWait, ""},
		"told to end, and our taint is off":        {NodeFacts{node(silent, out), proven(), attachments(ours), PodFacts{Ending: true}, false}, FailoverWait, ""},
		"told to end, and it is not proven":        {NodeFacts{node(silent, out, ownTaint), away(&adminpb.OutOfServiceResponse{Since: 80}), attachments(ours), PodFacts{Ending: true}, false}, FailoverWait, ""},
		"tainted, and back with a volume":          {NodeFacts{node(ready, out, ownTaint), returned, attachments(ours), PodFacts{}, false}, FailoverEndPods, "1 volumes"},
		"tainted, and detaching":                   {NodeFacts{node(ready, out, ownTaint), returned, attachments(ending), PodFacts{}, false}, FailoverEndPods, "1 volumes"},
		"our taint is off, and it is back":         {NodeFacts{node(ready, out), returned, attachments(ours), PodFacts{}, false}, FailoverEndPods, "1 volumes"},
		"an admin's taint, and back with a volume": {NodeFacts{node(ready, nil, ownTaint), returned, attachments(ours), PodFacts{}, false}, FailoverWait, "1 volumes"},
		"tainted, and back":                        {NodeFacts{node(ready, out, ownTaint), returned, attachments(asked), PodFacts{}, false}, FailoverUntaint, ""},
		"tainted, back, and the kubelet is silent": {NodeFacts{node(silent, out, ownTaint), returned, nil, PodFacts{}, false}, FailoverUntaint, ""},
		"somebody took our taint off":              {NodeFacts{node(ready, out), returned, nil, PodFacts{}, false}, FailoverUntaint, ""},
		"back before it was tainted":               {NodeFacts{node(ready, nil), returned, nil, PodFacts{}, false}, FailoverMarkReturned, ""},
		"back, under an admin's taint":             {NodeFacts{node(ready, nil, ownTaint), returned, nil, PodFacts{}, false}, FailoverMarkReturned, ""},
		"marked":                                   {NodeFacts{node(ready, back), returned, nil, PodFacts{}, false}, FailoverReturn, ""},
		"marked for an earlier time":               {NodeFacts{node(silent, map[string]string{AnnotationReturned: "70"}), proven(), attachments(ours), PodFacts{}, false}, FailoverTaint, ""},
		"our taint of an earlier time":             {NodeFacts{node(silent, map[string]string{AnnotationOutOfService: "70"}, ownTaint), proven(), attachments(ours), PodFacts{}, false}, FailoverUntaint, "earlier"},
		"our taint without the log":                {NodeFacts{node(silent, out, ownTaint), away(&adminpb.OutOfServiceResponse{}), attachments(ours), PodFacts{}, false}, FailoverUntaint, "does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				step := NextFailover(tc.facts)
				require.Equal(t, tc.want, step.Kind, step.Why)
				require.Contains(t, step.Why, tc.why)
				if step.Kind >= FailoverTaint && step.Kind != FailoverUntaint {
					require.EqualValues(t, 80, step.Since)
				}
				require.Equal(t, step, NextFailover(bySilentLease(tc.facts)))
			}
		})
	}
}

func TestS170_AnEventHasTheEntry(t *testing.T) {
	require.Equal(t, "log index 90, out of service since 80: v1 generation 80 seen by n2", Entry(proven()))
	require.Equal(t, "log index 90, generation 80: why", EntryOf(proven(), "v1"))
	require.Empty(t, EntryOf(proven(), "v2"))
	require.Equal(t, "a; b; c; and 3 more", sentence([]string{"a", "b", "c", "d"}, 2))
}
