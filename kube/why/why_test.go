package why

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// world is a pod on n1 whose claim is bound to a volume with replicas on n1 and n2, and everything is well; a test changes one
// thing.
type world struct {
	pod        *corev1.Pod
	pvc        *corev1.PersistentVolumeClaim
	pv         *corev1.PersistentVolume
	class      *storagev1.StorageClass
	attachment *storagev1.VolumeAttachment
	events     []corev1.Event
	missing    map[string]bool // objects that are not there
	log        Log
	drivers    map[string]bool
}

func newWorld() *world {
	late, class := storagev1.VolumeBindingWaitForFirstConsumer, "fast"
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-" + "x"}
	}
	pvName := "pvc-1"
	return &world{
		pod: &corev1.Pod{ObjectMeta: meta("db-0"), Spec: corev1.PodSpec{NodeName: "n1", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
		pvc: &corev1.PersistentVolumeClaim{ObjectMeta: meta("data"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: pvName, StorageClassName: &class}},
		pv: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pvName}, Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "topology.holdfast.storage/node", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1", "n2"}}}}}}},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "v-1"}}}},
		class:      &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, VolumeBindingMode: &late},
		attachment: &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a1"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pvName}}, Status: storagev1.VolumeAttachmentStatus{Attached: true}},
		missing:    map[string]bool{},
		drivers:    map[string]bool{"n1": true, "n2": true},
		log: Log{
			Status:  &adminpb.StatusResponse{Leader: "c1", Members: make([]*adminpb.Member, 3)},
			Volumes: []*adminpb.Volume{{Id: "v-1", Phase: "ready", Replicas: []*adminpb.Replica{{Node: "n1"}, {Node: "n2"}}}},
			Nodes:   []*adminpb.Node{{Id: "n1", State: "reachable"}, {Id: "n2", State: "reachable"}},
		},
	}
}

func (w *world) warn(reason, message string) {
	w.events = append(w.events, corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: reason}, InvolvedObject: corev1.ObjectReference{UID: "uid-x"}, Type: corev1.EventTypeWarning, Reason: reason, Message: message})
}

// ask collects from an API server with these objects, and explains.
func (w *world) ask(t *testing.T, kind, name string) []Finding {
	t.Helper()
	var objects []runtime.Object
	for key, object := range map[string]runtime.Object{"pod": w.pod, "pvc": w.pvc, "pv": w.pv, "class": w.class, "attachment": w.attachment} {
		if !w.missing[key] {
			objects = append(objects, object)
		}
	}
	for i := range w.events {
		objects = append(objects, &w.events[i])
	}
	for _, name := range []string{"n1", "n2"} {
		ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: w.missing["room on "+name]}, Status: ready})
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if w.drivers[name] {
			csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver}}
		}
		objects = append(objects, csi)
	}
	facts, err := Collect(t.Context(), fake.NewClientset(objects...), w.log, kind, "shop", name)
	require.NoError(t, err)
	return Explain(facts)
}

func TestEverythingIsWell(t *testing.T) {
	findings := newWorld().ask(t, "pod", "db-0")
	_, isAny := Cause(findings)
	require.False(t, isAny, "%v", findings)
	require.Len(t, findings, 5) // cluster, bound, volume, attached, running
}

func TestTheCauseIsNamedWithItsRemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		change             func(*world)
		kind, object       string
		step, text, remedy string
		state              State
	}{
		"the log cannot be asked": {change: func(w *world) { w.log = Log{Trouble: "no controller answers"} }, step: "cluster", text: "no controller answers", remedy: "doctor", state: Unknown},
		"no leader":               {change: func(w *world) { w.log.Status.Leader = "" }, step: "cluster", text: "there is no leader", remedy: "status", state: Broken},
		"no such claim":           {change: func(w *world) { w.missing["pvc"] = true }, step: "claim", text: "no claim of this name", state: Broken},
		"no class":                {change: func(w *world) { w.pvc.Spec.VolumeName, w.missing["class"] = "", true }, step: "bound", text: `class "fast" is not there`, state: Broken},
		"the volume's object is gone": {change: func(w *world) { w.missing["pv"], w.pvc.Status.Phase = true, corev1.ClaimLost }, step: "bound", text: "gone from Kubernetes",
			remedy: "orphans", state: Broken},
		"late binding": {change: func(w *world) { w.pvc.Spec.VolumeName = "" }, kind: "pvc", object: "data", step: "bound", text: "waits until a pod", state: Waiting},
		"no capacity": {change: func(w *world) {
			w.pvc.Spec.VolumeName = ""
			w.warn("ProvisioningFailed", "rpc error: code = ResourceExhausted desc = no pool has 10 GiB")
		}, step: "bound", text: "no pool has 10 GiB", remedy: "free or add capacity", state: Waiting},
		"the log does not have it": {change: func(w *world) { w.log.Volumes = nil }, step: "volume", text: "the log has no volume v-1", remedy: "history v-1", state: Broken},
		"a replica's host is away": {change: func(w *world) {
			w.log.Volumes[0].Abnormal, w.log.Volumes[0].Condition = true, "one replica is out of reach"
			w.log.Nodes[1].State = "unreachable"
		}, step: "volume", text: "out of reach (n2 is unreachable)", remedy: "volumes v-1", state: Broken},
		"the driver did not register": {change: func(w *world) { w.drivers["n1"] = false }, step: "driver", text: "kubelet of n1 does not know", remedy: "get pods", state: Broken},
		"another node has it, which is away": {change: func(w *world) {
			w.attachment.Spec.NodeName, w.log.Nodes[1].State, w.pod.Status.Phase = "n2", "unreachable", corev1.PodPending
		}, step: "attached", text: "still attached to n2, which is unreachable", remedy: "kubectl taint nodes n2", state: Waiting},
		"attaching fails": {change: func(w *world) {
			w.attachment.Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "FailedPrecondition: published elsewhere"}}
		}, step: "attached", text: "published elsewhere", state: Broken},
		"its hosts take no pods": {change: func(w *world) {
			w.pod.Spec.NodeName, w.missing["room on n1"], w.missing["room on n2"] = "", true, true
		}, step: "scheduled", text: "on no node", remedy: "only on n1 and n2: uncordon", state: Waiting},
		"it does not mount": {change: func(w *world) {
			w.pod.Status.Phase = corev1.PodPending
			w.warn("FailedMount", "MountVolume.MountDevice failed: busy")
		}, step: "mounted",
			text: "MountDevice failed: busy", remedy: "operations", state: Broken},
		"its container fails": {change: func(w *world) {
			w.pod.Status.Phase = corev1.PodPending
			w.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "db", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		}, step: "running", text: "container db: ImagePullBackOff", state: Broken},
		"it ends on a host that is away": {change: func(w *world) {
			now := metav1.Now()
			w.pod.DeletionTimestamp, w.pod.Finalizers, w.log.Nodes[0].State = &now, []string{"a/b"}, "unreachable"
		}, step: "running", text: "its node n1 is unreachable", remedy: "taint nodes n1", state: Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tc.change(w)
			kind, object := tc.kind, tc.object
			if kind == "" {
				kind, object = "pod", "db-0"
			}
			cause, isAny := Cause(w.ask(t, kind, object))
			require.True(t, isAny)
			require.Equal(t, []any{tc.step, tc.state}, []any{cause.Step, cause.State}, "%+v", cause)
			require.Contains(t, cause.Text, tc.text)
			require.Contains(t, cause.Remedy, tc.remedy)
			require.False(t, strings.HasSuffix(cause.Text, "."))
		})
	}
}

func TestAPodThatIsNotThere(t *testing.T) {
	_, err := Collect(t.Context(), fake.NewClientset(), Log{}, "pod", "shop", "db-0")
	require.ErrorContains(t, err, "read pod shop/db-0")
}

func TestAGenericEphemeralClaimHasThePodsName(t *testing.T) {
	w := newWorld()
	w.pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	require.Equal(t, []string{"db-0-scratch"}, ClaimsOf(w.pod))
}
