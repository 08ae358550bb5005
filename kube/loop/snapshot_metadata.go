package loop

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// snapshotMetadataReconciler has clients find who serves changed blocks, under the CA certificate that is valid now.
type snapshotMetadataReconciler struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	Wanted  plan.SnapshotMetadata
	Metrics *Metrics
	Logger  *slog.Logger
}

func (r *snapshotMetadataReconciler) sync(ctx context.Context) error {
	text, err := os.ReadFile(r.Wanted.CAFile)
	if err != nil {
		return fmt.Errorf("read the CA certificate of changed blocks: %w", err)
	}
	certificates, err := plan.Certificates(text)
	if err != nil {
		return fmt.Errorf("the CA certificate of changed blocks, %s: %w", r.Wanted.CAFile, err)
	}
	role, err := r.Kube.RbacV1().ClusterRoles().Get(ctx, plan.MetadataOwnerRole, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the ClusterRole %s, to which the SnapshotMetadataService belongs: %w", plan.MetadataOwnerRole, err)
	}
	there, err := r.services().Get(ctx, plan.Driver, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		there = nil
	case err != nil:
		return fmt.Errorf("read the SnapshotMetadataService: %w", err)
	}
	return r.write(ctx, there, r.Wanted.NextService(there, role.UID, certificates))
}

func (r *snapshotMetadataReconciler) services() dynamic.ResourceInterface {
	return r.Dynamic.Resource(plan.SnapshotMetadataServices)
}

// write writes the service as it should be; next nil: it is.
func (r *snapshotMetadataReconciler) write(ctx context.Context, there, next *unstructured.Unstructured) (err error) {
	step := "update"
	switch {
	case next == nil:
		return nil
	case there == nil:
		step = "create"
		_, err = r.services().Create(ctx, next, metav1.CreateOptions{})
	default:
		_, err = r.services().Update(ctx, next, metav1.UpdateOptions{})
	}
	r.Metrics.step("snapshot-metadata", step, err)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s the SnapshotMetadataService, whose CRD may be missing: %w", step, err)
	}
	if err != nil {
		return fmt.Errorf("%s the SnapshotMetadataService: %w", step, err)
	}
	r.Logger.Info("clients find changed blocks of snapshots by the SnapshotMetadataService", "step", step, "address", r.Wanted.Address)
	return nil
}
