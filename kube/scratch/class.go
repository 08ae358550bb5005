package scratch

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/csi/identity"
)

// isDefault is the annotation of the class that a claim without one has.
const isDefault = "storageclass.kubernetes.io/is-default-class"

// ClassNamed is the class of a name, or why its claims are no scratch claims.
func ClassNamed(ctx context.Context, api kubernetes.Interface, name string) (*storagev1.StorageClass, error) {
	class, err := api.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no storage class %q", name)
	}
	if err != nil {
		return nil, fmt.Errorf("look at the storage class: %w", err)
	}
	if why := unfit(class); why != "" {
		return nil, fmt.Errorf("storage class %s %s", name, why)
	}
	return class, nil
}

// ChooseClass is the only class that is fit, or the default one of them.
func ChooseClass(ctx context.Context, api kubernetes.Interface) (*storagev1.StorageClass, error) {
	list, err := api.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the storage classes: %w", err)
	}
	var fit, marked []*storagev1.StorageClass
	var names []string
	for i := range list.Items {
		class := &list.Items[i]
		if unfit(class) != "" {
			continue
		}
		fit, names = append(fit, class), append(names, class.Name)
		if class.Annotations[isDefault] == "true" {
			marked = append(marked, class)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(marked) == 1:
		return marked[0], nil
	case len(fit) == 0:
		return nil, fmt.Errorf("none of %d storage classes is of %s, removes its volumes, and makes them where a pod is", len(list.Items), identity.Name)
	}
	return nil, fmt.Errorf("choose one of the storage classes %s", strings.Join(names, ", "))
}

// unfit says why scratch claims are not of a class; empty: they may be.
func unfit(class *storagev1.StorageClass) string {
	switch {
	case class.Provisioner != identity.Name:
		return "is of " + class.Provisioner + ", not of " + identity.Name
	case class.ReclaimPolicy != nil && *class.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return "keeps the volumes of claims that are deleted (reclaimPolicy)"
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return "makes volumes before it is known where their pods are (volumeBindingMode)"
	}
	return ""
}

// Replicated tells whether volumes of a class have copies on two hosts.
func Replicated(class *storagev1.StorageClass) bool {
	return class.Parameters["replicas"] == "2" || class.Parameters["sites"] != ""
}
