package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func term(nodes ...string) (terms []corev1.NodeSelectorTerm) {
	for _, n := range nodes {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: TopologyKey, Operator: corev1.NodeSelectorOpIn, Values: []string{n}}}})
	}
	return terms
}

// volume is a bound persistent volume on the nodes, as one of the options changes it.
func volume(nodes []string, options ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "pv-1", Annotations: map[string]string{}, Finalizers: []string{"kubernetes.io/pv-protection"}}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: "hf-1"}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "claim-1", ResourceVersion: "7"}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: term(nodes...)}}
	pv.Status.Phase = corev1.VolumeBound
	for _, o := range options {
		o(pv)
	}
	return pv
}

func retained(pv *corev1.PersistentVolume) {
	pv.Annotations[AnnotationReclaimPolicy] = "Delete"
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
}

func deleted(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{} }

func renewed(pv *corev1.PersistentVolume) { pv.UID = "pv-2" }

func claim(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim-1"}}
	c.Spec.VolumeName, c.Status.Phase = "pvc-1", phase
	return c
}

// S172: one step follows from what is there, so that a loop that was killed goes on with it.
func TestS172_TheNextStepOfAVolume(t *testing.T) {
	old, now := []string{"n1", "n2"}, term("n2", "n3")
	lost, bound := claim(corev1.ClaimLost), claim(corev1.ClaimBound)
	with := func(options ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return volume(old, options...)
	}
	moved := func(options ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return volume([]string{"n3", "n2"}, append(options, renewed)...)
	}
	pending := func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumePending }
	anywhere := func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }
	attacher := func(pv *corev1.PersistentVolume) {
		pv.Finalizers = append(pv.Finalizers, "external-attacher/csi-holdfast-storage")
	}
	deletes := func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	owned := func(pv *corev1.PersistentVolume) {
		pv.OwnerReferences = []metav1.OwnerReference{{Kind: "Backup", Name: "b", UID: "b-1"}}
	}
	resized := func(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = "changed" }
	for name, tc := range map[string]struct {
		facts VolumeFacts
		want  AffinityKind
	}{
		"nothing is there":                           {VolumeFacts{}, AffinityNone},
		"it is right":                                {VolumeFacts{PV: volume([]string{"n3", "n2"}), Claim: bound, Want: now}, AffinityNone},
		"the log does not know":                      {VolumeFacts{PV: with(), Claim: bound}, AffinityNone},
		"its maker lets it be used anywhere":         {VolumeFacts{PV: with(anywhere), Claim: bound, Want: now}, AffinityNone},
		"it is wrong":                                {VolumeFacts{PV: with(), Claim: bound, Want: now}, AffinityPatch},
		"it is wrong, and in use":                    {VolumeFacts{PV: with(), Claim: bound, Want: now, InUse: "a pod"}, AffinityWait},
		"it is not bound":                            {VolumeFacts{PV: with(pending), Want: now}, AffinityNone},
		"the API server refuses":                     {VolumeFacts{PV: with(), Claim: bound, Want: now, Immutable: true}, AffinityRetain},
		"retained":                                   {VolumeFacts{PV: with(retained), Claim: bound, Want: now, Immutable: true}, AffinitySave},
		"retained, and in use since":                 {VolumeFacts{PV: with(retained), Claim: bound, Want: now, Immutable: true, InUse: "a pod"}, AffinityRestore},
		"retained, and its claim went":               {VolumeFacts{PV: with(retained, pending), Want: now, Immutable: true}, AffinityRestore},
		"retained, and the log does not know":        {VolumeFacts{PV: with(retained), Claim: bound, Immutable: true}, AffinityRestore},
		"saved":                                      {VolumeFacts{PV: with(retained), Saved: with(retained), Claim: bound, Want: now, Immutable: true}, AffinityDelete},
		"saved by a loop that knew more":             {VolumeFacts{PV: with(retained), Saved: with(retained), Claim: bound, Want: now}, AffinityPatch},
		"saved before it changed":                    {VolumeFacts{PV: with(retained, resized), Saved: with(retained), Claim: bound, Want: now, Immutable: true}, AffinitySave},
		"saved before it got an owner":               {VolumeFacts{PV: with(retained, owned), Saved: with(retained), Claim: bound, Want: now, Immutable: true}, AffinitySave},
		"saved with its owner":                       {VolumeFacts{PV: with(retained, owned), Saved: with(retained, owned), Claim: bound, Want: now, Immutable: true}, AffinityDelete},
		"saved, and in use since":                    {VolumeFacts{PV: with(retained), Saved: with(retained), Claim: bound, Want: now, Immutable: true, InUse: "a pod"}, AffinityRestore},
		"restored, and still saved":                  {VolumeFacts{PV: with(), Saved: with(retained), Claim: bound, Want: now, Immutable: true, InUse: "a pod"}, AffinityForget},
		"somebody else's finalizer":                  {VolumeFacts{PV: with(attacher), Claim: bound, Want: now, Immutable: true}, AffinityWait},
		"retained, and somebody took that back":      {VolumeFacts{PV: with(retained, deletes), Claim: bound, Want: now, Immutable: true}, AffinityRetain},
		"saved, and somebody took Retain back":       {VolumeFacts{PV: with(retained, deletes), Saved: with(retained, deletes), Claim: bound, Want: now, Immutable: true}, AffinityRetain},
		"being deleted, and somebody took that back": {VolumeFacts{PV: with(retained, deletes, deleted), Saved: with(retained), Claim: bound, Want: now}, AffinityRetain},
		"being deleted":                              {VolumeFacts{PV: with(retained, deleted), Saved: with(retained), Claim: bound, Want: now}, AffinityStrip},
		"being deleted, and changed meanwhile":       {VolumeFacts{PV: with(retained, deleted, resized), Saved: with(retained), Claim: bound, Want: now}, AffinitySave},
		"being deleted, and attached":                {VolumeFacts{PV: with(retained, deleted, attacher), Saved: with(retained), Claim: bound, Want: now}, AffinityWait},
		"being deleted by somebody":                  {VolumeFacts{PV: with(deleted), Claim: bound, Want: now}, AffinityNone},
		"being deleted by somebody, renewed":         {VolumeFacts{PV: moved(deleted), Saved: with(retained), Claim: bound, Want: now}, AffinityNone},
		"deleted":                                    {VolumeFacts{Saved: with(retained), Claim: lost, Want: now}, AffinityCreate},
		"deleted, in use":                            {VolumeFacts{Saved: with(retained), Claim: lost, Want: now, InUse: "a pod"}, AffinityCreate},
		"deleted, and the log does not know":         {VolumeFacts{Saved: with(retained), Claim: lost}, AffinityCreate},
		"deleted, and its claim went":                {VolumeFacts{Saved: with(retained), Want: now}, AffinityCreate},
		"made anew, and not bound":                   {VolumeFacts{PV: moved(retained, pending), Saved: with(retained), Claim: lost, Want: now}, AffinityWait},
		"made anew, and half bound":                  {VolumeFacts{PV: moved(retained), Saved: with(retained), Claim: lost, Want: now}, AffinityWait},
		"made anew, and bound":                       {VolumeFacts{PV: moved(retained), Saved: with(retained), Claim: bound, Want: now}, AffinityRestore},
		"made anew, and its claim went":              {VolumeFacts{PV: moved(retained, pending), Saved: with(retained), Want: now}, AffinityRestore},
		"made anew, and moved again meanwhile":       {VolumeFacts{PV: moved(retained, pending), Saved: with(retained), Claim: lost, Want: term("n3", "n4"), Immutable: true}, AffinityWait},
		"made anew, restored":                        {VolumeFacts{PV: moved(), Saved: with(retained), Claim: bound, Want: now}, AffinityForget},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.want, NextAffinity(tc.facts).Kind)
			}
		})
	}
}

// S172: what is made anew is the same volume for the same claim, where the log has it now.
func TestS172_WhatIsMadeAnew(t *testing.T) {
	saved := volume([]string{"n1"}, retained, func(pv *corev1.PersistentVolume) {
		pv.Labels = map[string]string{"team": "a"}
		pv.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Backup", Name: "b", UID: "b-1", BlockOwnerDeletion: new(bool)}}
	})
	text, err := Encode(saved)
	require.NoError(t, err)
	read, err := Decode(text)
	require.NoError(t, err)
	for range 2 {
		pv := Renewed(read, term("n2"))
		require.Equal(t, "pvc-1", pv.Name)
		require.Empty(t, pv.UID)
		require.Empty(t, pv.ResourceVersion)
		require.Equal(t, saved.Labels, pv.Labels)
		require.Equal(t, saved.OwnerReferences, pv.OwnerReferences)
		require.Equal(t, saved.Finalizers, pv.Finalizers)
		require.Equal(t, "hf-1", pv.Spec.CSI.VolumeHandle)
		require.Equal(t, "claim-1", string(pv.Spec.ClaimRef.UID))
		require.Empty(t, pv.Spec.ClaimRef.ResourceVersion)
		require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
		require.Equal(t, "Delete", pv.Annotations[AnnotationReclaimPolicy])
		require.Equal(t, term("n2"), pv.Spec.NodeAffinity.Required.NodeSelectorTerms)
		require.Equal(t, term("n1"), Renewed(read, nil).Spec.NodeAffinity.Required.NodeSelectorTerms)
	}
	for _, bad := range []string{"", "{", "{}", `{"metadata":{"name":"a","uid":"b"}}`} {
		_, err := Decode(bad)
		require.ErrorContains(t, err, "saved persistent volume")
	}
}

func TestWhereTheLogHasAVolume(t *testing.T) {
	nodes := map[string]*adminpb.Node{"n1": {Id: "n1"}, "n2": {Id: "n2", Labels: []*fsmpb.Label{{Key: "zone", Value: "b"}}}}
	of := func(phase string, states ...string) *adminpb.Volume {
		v := &adminpb.Volume{Phase: phase}
		for i, state := range states {
			v.Replicas = append(v.Replicas, &adminpb.Replica{Node: []string{"n1", "n2", "n9"}[i], State: state})
		}
		return v
	}
	for name, tc := range map[string]struct {
		v    *adminpb.Volume
		want []string
	}{
		"two":                       {of("ready", "present", "present"), []string{TopologyKey + "=n1", TopologyKey + "=n2,zone=b"}},
		"one whose device is gone":  {of("ready", "missing", "gone"), []string{TopologyKey + "=n1"}},
		"one leaves":                {of("ready", "leaving", "present"), []string{TopologyKey + "=n2,zone=b"}},
		"one is made":               {of("ready", "present", "planned"), nil},
		"a host that is not known":  {of("ready", "present", "present", "present"), nil},
		"it leaves an unknown host": {of("ready", "present", "gone", "leaving"), []string{TopologyKey + "=n1"}},
		"it is being created":       {of("creating", "present", "present"), nil},
	} {
		keys, _ := termKeys(WantedTerms(tc.v, nodes, nil))
		require.Equal(t, tc.want, keys, name)
	}
}

// A volume that is replicated to another site has a replica there too: no pod of this Kubernetes can use that one.
func TestHostsOfOtherSitesAreNotWanted(t *testing.T) {
	nodes := map[string]*adminpb.Node{"n1": {Id: "n1", Site: "A"}, "n2": {Id: "n2", Site: "A"}, "b1": {Id: "b1", Site: "B"}, "b2": {Id: "b2", Site: "B"}}
	kube := func(names ...string) (all []corev1.Node) {
		for _, name := range names {
			all = append(all, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return all
	}
	at := func(hosts ...string) *adminpb.Volume {
		v := &adminpb.Volume{Phase: "ready"}
		for _, h := range hosts {
			v.Replicas = append(v.Replicas, &adminpb.Replica{Node: h, State: "present"})
		}
		return v
	}
	planned := at("n1", "b1")
	planned.Replicas[1].State = "planned"
	for name, tc := range map[string]struct {
		kube []corev1.Node
		v    *adminpb.Volume
		have []string // of the persistent volume
		want []corev1.NodeSelectorTerm
		step AffinityKind
	}{
		"it is replicated to another site":    {kube("n1", "n2", "other"), at("n1", "b1"), []string{"n1"}, term("n1"), AffinityNone},
		"it is being replicated there":        {kube("n1", "n2"), planned, []string{"n1"}, term("n1"), AffinityNone},
		"it was made at both sites":           {kube("n1", "n2"), at("n1", "b1"), []string{"n1", "b1"}, term("n1"), AffinityNone},
		"its replica there moved":             {kube("n1", "n2"), at("n1", "b2"), []string{"n1", "b1"}, term("n1"), AffinityNone},
		"its replica here moved":              {kube("n1", "n2"), at("n2", "b1"), []string{"n1", "b1"}, term("n2"), AffinityPatch},
		"its object came from the other site": {kube("b1"), at("n1", "b1"), []string{"n1"}, term("b1"), AffinityPatch},
		"it is at the other site only":        {kube("n1", "n2"), at("b1"), []string{"n1"}, nil, AffinityNone},
		"Kubernetes has the nodes of both":    {kube("n1", "b1"), at("n1", "b1"), []string{"n1"}, term("n1", "b1"), AffinityPatch},
		"no host is a node of Kubernetes":     {kube("other"), at("n1", "b1"), []string{"n1"}, term("n1", "b1"), AffinityPatch},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere := HostsElsewhere(nodes, tc.kube)
			want := WantedTerms(tc.v, nodes, elsewhere)
			require.Equal(t, tc.want, want)
			for range 2 {
				f := VolumeFacts{PV: volume(tc.have), Claim: claim(corev1.ClaimBound), Want: want, Elsewhere: elsewhere}
				require.Equal(t, tc.step, NextAffinity(f).Kind)
			}
		})
	}
}
