// Package orphans reads what Kubernetes has of the driver's volumes, so that it can be compared with the log, and says which
// volumes without a PersistentVolume nobody can still be about to bind.
package orphans

import (
	"bytes"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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

// Lists answers the API server's lists, whole, one JSON document after another.
func Lists(ctx context.Context, api kubernetes.Interface) ([]byte, error) {
	var all bytes.Buffer
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
	return all.Bytes(), nil
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
