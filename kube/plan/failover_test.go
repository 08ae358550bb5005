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
	return storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "n1"}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
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
	inTree := node(silent, nil)
	inTree.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/" + Driver + "^v1"}, {Name: "kubernetes.io/gce-pd/x"}}
	for name, tc := range map[string]struct {
		facts NodeFacts
		want  FailoverKind
		why   string
	}{
		"a node that the log does not know":        {NodeFacts{node(silent, nil), nil, attachments(ours)}, FailoverNone, ""},
		"a node that is there":                     {NodeFacts{node(ready, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours)}, FailoverNone, ""},
		"a kubelet that says it is not ready":      {NodeFacts{node(corev1.ConditionFalse, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours)}, FailoverNone, ""},
		"a host that a controller hears of":        {NodeFacts{node(silent, nil), &adminpb.OutOfServiceResponse{State: "reachable", Refused: []string{"it is there"}}, attachments(ours)}, FailoverNone, ""},
		"nothing of ours is attached":              {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), nil}, FailoverNone, ""},
		"only asked for":                           {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), attachments(asked)}, FailoverNone, ""},
		"it is gone":                               {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours)}, FailoverTakeOut, ""},
		"somebody tainted it":                      {NodeFacts{node(silent, nil, ownTaint), away(&adminpb.OutOfServiceResponse{}), attachments(ours)}, FailoverNone, ""},
		"the log refuses":                          {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{Refused: []string{"its only copy"}}), attachments(ours)}, FailoverRefuse, "its only copy"},
		"another driver's volume is there":         {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{}), attachments(ours, other)}, FailoverRefuse, "ebs.csi.aws.com"},
		"a volume without attachment":              {NodeFacts{inTree, away(&adminpb.OutOfServiceResponse{}), attachments(ours)}, FailoverRefuse, "gce-pd"},
		"taken out and not proven":                 {NodeFacts{node(silent, nil), away(&adminpb.OutOfServiceResponse{Since: 80, Waits: []string{"n2 has not"}}), attachments(ours)}, FailoverWait, "n2 has not"},
		"taken out, and another driver came":       {NodeFacts{node(silent, nil), proven(), attachments(ours, other)}, FailoverRefuse, "ebs"},
		"proven":                                   {NodeFacts{node(silent, nil), proven(), attachments(ours)}, FailoverTaint, ""},
		"proven, and the kubelet is back":          {NodeFacts{node(ready, nil), proven(), attachments(ours)}, FailoverEndPods, ""},
		"proven, and an admin tainted it":          {NodeFacts{node(silent, nil, ownTaint), proven(), attachments(ours)}, FailoverWait, "cannot be reached"},
		"tainted, and away":                        {NodeFacts{node(silent, out, ownTaint), proven(), nil}, FailoverWait, "cannot be reached"},
		"tainted, and back with a volume":          {NodeFacts{node(ready, out, ownTaint), returned, attachments(ours)}, FailoverWait, "1 volumes"},
		"tainted, and detaching":                   {NodeFacts{node(ready, out, ownTaint), returned, attachments(ending)}, FailoverWait, "1 volumes"},
		"tainted, and back":                        {NodeFacts{node(ready, out, ownTaint), returned, attachments(asked)}, FailoverUntaint, ""},
		"tainted, back, and the kubelet is silent": {NodeFacts{node(silent, out, ownTaint), returned, nil}, FailoverUntaint, ""},
		"somebody took our taint off":              {NodeFacts{node(ready, out), returned, nil}, FailoverUntaint, ""},
		"back before it was tainted":               {NodeFacts{node(ready, nil), returned, nil}, FailoverMarkReturned, ""},
		"back, under an admin's taint":             {NodeFacts{node(ready, nil, ownTaint), returned, nil}, FailoverMarkReturned, ""},
		"marked":                                   {NodeFacts{node(ready, back), returned, nil}, FailoverReturn, ""},
		"marked for an earlier time":               {NodeFacts{node(silent, map[string]string{AnnotationReturned: "70"}), proven(), attachments(ours)}, FailoverTaint, ""},
		"our taint of an earlier time":             {NodeFacts{node(silent, map[string]string{AnnotationOutOfService: "70"}, ownTaint), proven(), attachments(ours)}, FailoverUntaint, "earlier"},
		"our taint without the log":                {NodeFacts{node(silent, out, ownTaint), away(&adminpb.OutOfServiceResponse{}), attachments(ours)}, FailoverUntaint, "does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				step := NextFailover(tc.facts)
				require.Equal(t, tc.want, step.Kind, step.Why)
				require.Contains(t, step.Why, tc.why)
				if step.Kind >= FailoverTaint && step.Kind != FailoverUntaint {
					require.EqualValues(t, 80, step.Since)
				}
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
