// Package orphans reads what Kubernetes has of the driver's volumes, so that it can be compared with the log, and says which
// volumes without a PersistentVolume nobody can still be about to bind.
package orphans

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

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

// Lists answers the API server's lists, whole, one JSON document after another. A PersistentVolume that the loop is making anew is among
// them while it is not there: what was saved of it, in any namespace or, where that may not be asked, in this one, is read before
// and after the others, so that it is in one of them.
func Lists(ctx context.Context, api kubernetes.Interface, namespace string) ([]byte, error) {
	var all bytes.Buffer
	if err := saved(ctx, api, namespace, &all); err != nil {
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
		all.Write(text)
		all.WriteByte('\n')
	}
	if err := saved(ctx, api, namespace, &all); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}

// saved adds the PersistentVolumes that are being made anew (S172) as a list.
func saved(ctx context.Context, api kubernetes.Interface, namespace string, all *bytes.Buffer) error {
	options := metav1.ListOptions{LabelSelector: plan.LabelSavedVolume}
	maps, err := api.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, options)
	if apierrors.IsForbidden(err) {
		maps, err = api.CoreV1().ConfigMaps(namespace).List(ctx, options)
	}
	if err != nil {
		return fmt.Errorf("list the PersistentVolumes that are being made anew, which ConfigMaps have: %w", err)
	}
	list := corev1.PersistentVolumeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeList"}}
	for i := range maps.Items {
		pv, err := plan.Decode(maps.Items[i].Data[plan.SavedKey])
		if err != nil {
			return fmt.Errorf("ConfigMap %s/%s: %w", maps.Items[i].Namespace, maps.Items[i].Name, err)
		}
		list.Items = append(list.Items, *pv)
	}
	return json.NewEncoder(all).Encode(list)
}

// StillClaimed tells whether a claim exists for which the volume of this CSI name was made: its provisioner may be about to write
// the PersistentVolume. The external provisioner names volumes pvc-UID, of the claim's.
func StillClaimed(ctx context.Context, api kubernetes.Interface, namespace, claim, volumeName string) (bool, error) {
	if namespace == "" || claim == "" {
		return false, nil
	}
	pvc, err := api.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read claim %s/%s: %w", namespace, claim, err)
	}
	return volumeName == "pvc-"+string(pvc.UID), nil
}
