package loop

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

func containsAffinity(patch []byte) bool { return bytes.Contains(patch, []byte("nodeAffinity")) }

func terms(nodes ...string) (all []corev1.NodeSelectorTerm) {
	for _, n := range nodes {
		all = append(all, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: plan.TopologyKey, Operator: corev1.NodeSelectorOpIn, Values: []string{n}}}})
	}
	return all
}

// boundVolume is a volume on n1 and n2, and its claim.
func boundVolume() (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim-1"}}
	claim.Spec.VolumeName, claim.Status.Phase = "pvc-1", corev1.ClaimBound
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "pv-1", Labels: map[string]string{"team": "a"},
		Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": plan.Driver}, Finalizers: []string{"kubernetes.io/pv-protection"}}}
	pv.Spec = corev1.PersistentVolumeSpec{
		PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: plan.Driver, VolumeHandle: "hf-1"}},
		ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data", UID: "claim-1"},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "fast",
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms("n1", "n2")}},
	}
	pv.Status.Phase = corev1.VolumeBound
	return pv, claim
}

// moved is a cluster in which the log has the volume on n2 and n3 now.
func moved(t *testing.T, w *writes, objects ...runtime.Object) *env {
	pv, claim := boundVolume()
	e := newEnv(t, w, append(objects, pv, claim)...)
	e.log.nodes = []*adminpb.Node{{Id: "n1", State: "reachable"}, {Id: "n2", State: "reachable"}, {Id: "n3", State: "reachable"}}
	e.log.volumes = []*adminpb.Volume{{Id: "hf-1", Phase: "ready", Replicas: []*adminpb.Replica{{Node: "n2", State: "present", UpToDate: true}, {Node: "n3", State: "present", UpToDate: true}}}}
	return e
}

func (e *env) pv() *corev1.PersistentVolume {
	pv, err := found(e.kube.CoreV1().PersistentVolumes().Get(e.t.Context(), "pvc-1", metav1.GetOptions{}))
	require.NoError(e.t, err)
	return pv
}

// bind is Kubernetes' binder of volumes and claims.
func (e *env) bind() {
	e.quietly(func() {
		pv, phase := e.pv(), corev1.ClaimLost
		if pv != nil {
			phase = corev1.ClaimBound
			pv.Status.Phase = corev1.VolumeBound
			_, err := e.kube.CoreV1().PersistentVolumes().UpdateStatus(e.t.Context(), pv, metav1.UpdateOptions{})
			require.NoError(e.t, err)
		}
		claim, err := e.kube.CoreV1().PersistentVolumeClaims("default").Get(e.t.Context(), "data", metav1.GetOptions{})
		require.NoError(e.t, err)
		claim.Status.Phase = phase
		_, err = e.kube.CoreV1().PersistentVolumeClaims("default").UpdateStatus(e.t.Context(), claim, metav1.UpdateOptions{})
		require.NoError(e.t, err)
	})
}

func (e *env) saved() int {
	return e.count(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
}

// S172: wherever the loop is killed the object, or a copy of it, is there; what is deleted keeps its content; and the next loop comes to
// the same end.
func TestS172_AVolumeIsMadeAnewWhereverTheLoopIsKilled(t *testing.T) {
	killedAnywhere(t, func(t *testing.T, w *writes) {
		e := moved(t, w)
		deletions := 0
		e.onDelete = func(o runtime.Object) {
			if pv, ok := o.(*corev1.PersistentVolume); ok {
				deletions++
				require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
				require.Equal(t, 1, e.saved())
			}
		}
		_ = e.loop().Sync(t.Context())
		killed := revive(w)
		for range 4 {
			require.True(t, e.pv() != nil || e.saved() == 1, "it is lost")
			e.bind()
			require.NoError(t, e.loop().Sync(t.Context()))
		}
		w.dead = killed
		pv := e.pv()
		require.Equal(t, terms("n2", "n3"), pv.Spec.NodeAffinity.Required.NodeSelectorTerms)
		require.Equal(t, corev1.PersistentVolumeReclaimDelete, pv.Spec.PersistentVolumeReclaimPolicy)
		require.Equal(t, map[string]string{"pv.kubernetes.io/provisioned-by": plan.Driver}, pv.Annotations)
		require.Equal(t, map[string]string{"team": "a"}, pv.Labels)
		require.Equal(t, []string{"kubernetes.io/pv-protection"}, pv.Finalizers)
		require.Equal(t, "hf-1", pv.Spec.CSI.VolumeHandle)
		require.Equal(t, "claim-1", string(pv.Spec.ClaimRef.UID))
		require.Equal(t, 1, deletions, "once")
		require.Zero(t, e.saved())
	})
}

// S172: what is in use, of another driver or not known to the log is not touched.
func TestS172_WhatIsNotTouched(t *testing.T) {
	name := "pvc-1"
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: plan.Driver, NodeName: "n2",
		Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "user"}, Spec: corev1.PodSpec{NodeName: "n2", Volumes: []corev1.Volume{{Name: "v",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
	ended, pending := pod.DeepCopy(), pod.DeepCopy()
	ended.Status.Phase, pending.Spec.NodeName = corev1.PodSucceeded, ""
	for story, tc := range map[string]struct {
		objects []runtime.Object
		change  func(*env)
		touched bool
	}{
		"it is attached":          {objects: []runtime.Object{attachment}},
		"a pod uses it":           {objects: []runtime.Object{pod}},
		"a pod that ended":        {objects: []runtime.Object{ended}, touched: true},
		"a pod that waits for it": {objects: []runtime.Object{pending}, touched: true},
		"the log does not know":   {change: func(e *env) { e.log.volumes = nil }},
		"its replica at another site moved": {objects: []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, change: func(e *env) {
			e.log.nodes[0].Site, e.log.nodes[1].Site, e.log.nodes[2].Site = "A", "B", "B"
			e.log.volumes[0].Replicas[0].Node = "n1"
		}},
		"a replica is made": {change: func(e *env) {
			e.log.volumes[0].Replicas = append(e.log.volumes[0].Replicas, &adminpb.Replica{Node: "n1", State: "planned"})
		}},
	} {
		t.Run(story, func(t *testing.T) {
			w := &writes{}
			e := moved(t, w, tc.objects...)
			if tc.change != nil {
				tc.change(e)
			}
			for range 2 {
				require.NoError(t, e.loop().Sync(t.Context()))
			}
			require.Equal(t, tc.touched, w.n > 0)
		})
	}
}

// S172: what the API server would not take anew is not deleted.
func TestS172_WhatCouldNotBeMadeAnewStays(t *testing.T) {
	e := moved(t, &writes{})
	e.noVolumes = true
	for range 2 {
		require.ErrorContains(t, e.loop().Sync(t.Context()), "a policy denied it")
		require.Nil(t, e.pv().DeletionTimestamp)
		require.Equal(t, "pv-1", string(e.pv().UID))
	}
	e.noVolumes = false
	for range 3 {
		require.NoError(t, e.loop().Sync(t.Context()))
		e.bind()
	}
	require.Equal(t, terms("n2", "n3"), e.pv().Spec.NodeAffinity.Required.NodeSelectorTerms)
}

// Where the API server lets it be changed, it is changed in place; also where an earlier loop had begun otherwise.
func TestS172_ItIsChangedInPlaceWhereThatIsPossible(t *testing.T) {
	w := &writes{}
	e := moved(t, w)
	e.immutable = false
	for range 2 {
		require.NoError(t, e.loop().Sync(t.Context()))
	}
	require.Equal(t, 1, w.n)
	require.Equal(t, "pv-1", string(e.pv().UID))
	require.Equal(t, terms("n2", "n3"), e.pv().Spec.NodeAffinity.Required.NodeSelectorTerms)
}

// S172: a saved volume that cannot be read keeps no other volume from its place; it stays, and its claim is told.
func TestS172_ASavedVolumeThatCannotBeReadConcernsNoOther(t *testing.T) {
	pv, claim := boundVolume()
	another, err := plan.Encode(pv)
	require.NoError(t, err)
	pv.Name, pv.Spec.CSI.Driver = "pvc-9", "csi.example.com"
	foreign, err := plan.Encode(pv)
	require.NoError(t, err)
	claim.Name, claim.UID, claim.Spec.VolumeName = "lost", "claim-9", "pvc-9"
	for name, text := range map[string]string{"cut short": another[:len(another)/2], "nothing": "", "another volume": another, "another driver's": foreign} {
		t.Run(name, func(t *testing.T) {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "holdfast-saved-pvc-9", Labels: map[string]string{plan.LabelSavedVolume: "true"}},
				Data: map[string]string{plan.SavedKey: text}}
			e := moved(t, &writes{}, m, claim.DeepCopy())
			for range 4 {
				require.ErrorContains(t, e.loop().Sync(t.Context()), "holdfast-saved-pvc-9")
				e.bind()
			}
			require.Equal(t, terms("n2", "n3"), e.pv().Spec.NodeAffinity.Required.NodeSelectorTerms)
			require.Equal(t, corev1.PersistentVolumeReclaimDelete, e.pv().Spec.PersistentVolumeReclaimPolicy)
			require.Equal(t, 1, e.saved(), "it stays")
			require.Contains(t, <-e.said.Events, "holdfast-saved-pvc-9")
			all, err := e.kube.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, all.Items, 1, "nothing is made of it")
		})
	}
}

// S172: a volume of which something was saved that cannot be read is not deleted, nor is what was saved written over.
func TestS172_AVolumeWhoseSavedCopyCannotBeReadStays(t *testing.T) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "holdfast-saved-pvc-1", Labels: map[string]string{plan.LabelSavedVolume: "true"}},
		Data: map[string]string{plan.SavedKey: "{"}}
	w := &writes{}
	e := moved(t, w, m)
	for range 3 {
		require.ErrorContains(t, e.loop().Sync(t.Context()), "holdfast-saved-pvc-1")
		require.Nil(t, e.pv().DeletionTimestamp)
	}
	require.Zero(t, w.n)
}
