// Package orphans reads what Kubernetes has of the driver's volumes, so that it can be compared with the log, and says which
// volumes without a PersistentVolume nobody can still be about to bind.
package orphans

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// lists are the paths of what is compared. Snapshots are there only where their CRDs are.
var lists = []struct {
	path     string
	optional bool
}{
	{"/api/v1/persistentvolumes", false},
	{"/apis/storage.k8s.io/v1/volumeattachments", false},
	{"/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents", true},
}

// Listed is what Kubernetes has.
type Listed struct {
	Text []byte // the API server's lists, whole, one JSON document after another
	// Unreadable are PersistentVolumes that the loop is making anew, and of which what was saved cannot be read: which volumes they have
	// is not known.
	Unreadable []Unreadable
}

// Unreadable is such a PersistentVolume.
type Unreadable struct {
	Name string // of the PersistentVolume, as its ConfigMap's has it
	Why  error
}

// Lists reads them. A PersistentVolume that the loop is making anew is among them while it is not there: what was saved of it is read
// before and after the others, so that it is in one of them. It is looked for in all namespaces or, where that may not be asked, in the
// one that is given, which has to be the controllers': in another one it would not be seen.
func Lists(ctx context.Context, api kubernetes.Interface, namespace string) (*Listed, error) {
	all := &Listed{}
	if err := all.addSaved(ctx, api, namespace); err != nil {
		return nil, err
	}
	for _, list := range lists {
		text, err := api.CoreV1().RESTClient().Get().AbsPath(list.path).DoRaw(ctx)
		if apierrors.IsNotFound(err) && list.optional {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", list.path, err)
		}
		all.add(text)
	}
	return all, all.addSaved(ctx, api, namespace)
}

func (l *Listed) add(text []byte) { l.Text = append(append(l.Text, text...), '\n') }

// addSaved adds the PersistentVolumes that are being made anew (S172) as a list.
func (l *Listed) addSaved(ctx context.Context, api kubernetes.Interface, namespace string) error {
	maps, err := savedMaps(ctx, api, namespace)
	if err != nil {
		return fmt.Errorf("list the PersistentVolumes that are being made anew, which ConfigMaps have: %w", err)
	}
	list := corev1.PersistentVolumeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeList"}}
	for i := range maps {
		pv, err := plan.ReadSaved(&maps[i])
		if err == nil {
			list.Items = append(list.Items, *pv)
			continue
		}
		name := plan.NameOfSaved(maps[i].Name)
		if !slices.ContainsFunc(l.Unreadable, func(u Unreadable) bool { return u.Name == name }) {
			l.Unreadable = append(l.Unreadable, Unreadable{Name: name, Why: err})
		}
	}
	text, err := json.Marshal(list)
	l.add(text)
	return err
}

func savedMaps(ctx context.Context, api kubernetes.Interface, namespace string) ([]corev1.ConfigMap, error) {
	options := metav1.ListOptions{LabelSelector: plan.LabelSavedVolume}
	maps, err := api.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, options)
	if apierrors.IsForbidden(err) {
		_, ofCluster := api.CoreV1().ConfigMaps(namespace).Get(ctx, clusterRecord, metav1.GetOptions{})
		if ofCluster != nil {
			return nil, fmt.Errorf("%w, and namespace %s is not known to be the controllers', which --holdfast-namespace names: %w", err, namespace, ofCluster)
		}
		maps, err = api.CoreV1().ConfigMaps(namespace).List(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	return maps.Items, nil
}

// clusterRecord is the ConfigMap that says in the controllers' namespace who founded the cluster. It outlives them.
const clusterRecord = "holdfast-cluster"

// Holds says why a leak may be the volume of a PersistentVolume that is being made anew, whose name is not known to have one; empty: it
// is not. A provisioner gives a volume and its PersistentVolume one name. leaks are the names of all of them, and listed those of the
// PersistentVolumes that are there.
func (l *Listed) Holds(leak string, leaks, listed []string) string {
	for _, u := range l.Unreadable {
		switch {
		case slices.Contains(listed, u.Name):
		case u.Name == leak, !slices.Contains(leaks, u.Name):
			return fmt.Sprintf("PersistentVolume %s is being made anew, and which volume it has cannot be read: %v; give it to its claim by hand, and delete the ConfigMap", u.Name, u.Why)
		}
	}
	return ""
}

// StillClaimed tells whether a claim exists for which the volume of this CSI name was made: its provisioner may be about to write
// the PersistentVolume. The external provisioner names volumes pvc-UID, of the claim's. Without the claim's name all are looked at.
func StillClaimed(ctx context.Context, api kubernetes.Interface, namespace, claim, volumeName string) (bool, error) {
	if namespace == "" || claim == "" {
		return anyClaims(ctx, api, volumeName)
	}
	pvc, err := api.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read claim %s/%s: %w", namespace, claim, err)
	}
	return madeFor(pvc, volumeName), nil
}

func madeFor(pvc *corev1.PersistentVolumeClaim, volumeName string) bool {
	return volumeName == "pvc-"+string(pvc.UID)
}

// anyClaims looks through the claims of all namespaces: a provisioner without --extra-create-metadata does not say for which it makes
// a volume.
func anyClaims(ctx context.Context, api kubernetes.Interface, volumeName string) (bool, error) {
	all, err := api.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("look for the claim of volume %s: %w", volumeName, err)
	}
	return slices.ContainsFunc(all.Items, func(pvc corev1.PersistentVolumeClaim) bool { return madeFor(&pvc, volumeName) }), nil
}
