package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// startupReconciler takes the taint of nodes that join off those that have the driver.
type startupReconciler struct {
	Kube    kubernetes.Interface
	Metrics *Metrics
	Logger  *slog.Logger
}

func (r *startupReconciler) sync(ctx context.Context, nodes []corev1.Node) error {
	var failed []error
	for i := range nodes {
		if n := &nodes[i]; plan.Starts(n) {
			if err := r.end(ctx, n); err != nil {
				failed = append(failed, fmt.Errorf("node %s: take the taint %s off: %w", n.Name, plan.TaintStartup, err))
			}
		}
	}
	return errors.Join(failed...)
}

// end takes the taint off a node that may have been read a moment ago: where it changed since, that is refused and done the next time.
func (r *startupReconciler) end(ctx context.Context, n *corev1.Node) error {
	csi, err := r.Kube.StorageV1().CSINodes().Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || !plan.EndsStartup(n, csi) {
		return err
	}
	err = patchNode(ctx, r.Kube, n, nil, plan.AfterStartup(n))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	r.Metrics.step("startup", "untaint", err)
	if err == nil {
		r.Logger.Info("a node that joined has the driver, and its startup taint is taken off", "node", n.Name)
	}
	return err
}
