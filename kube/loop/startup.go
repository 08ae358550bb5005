package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return plan.Starts(&n) }) {
		return nil
	}
	offered, err := r.offered(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for i := range nodes {
		if n := &nodes[i]; plan.EndsStartup(n, offered[n.Name]) {
			if err := r.end(ctx, n); err != nil {
				failed = append(failed, fmt.Errorf("node %s: take the taint %s off: %w", n.Name, plan.TaintStartup, err))
			}
		}
	}
	return errors.Join(failed...)
}

// offered is what kubelets offer, by node: with one question for all, as nodes that never get the driver must not keep failovers waiting.
func (r *startupReconciler) offered(ctx context.Context) (map[string]*storagev1.CSINode, error) {
	there, err := r.Kube.StorageV1().CSINodes().List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("list what kubelets offer: %w", err)
	}
	all := make(map[string]*storagev1.CSINode, len(there.Items))
	for i := range there.Items {
		all[there.Items[i].Name] = &there.Items[i]
	}
	return all, nil
}

// end takes the taint off a node that may have been read a moment ago: where it changed since, that is refused and done the next time.
func (r *startupReconciler) end(ctx context.Context, n *corev1.Node) error {
	err := patchNode(ctx, r.Kube, n, nil, plan.AfterStartup(n))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	r.Metrics.step("startup", "untaint", err)
	if err == nil {
		r.Logger.Info("a node that joined has the driver, and its startup taint is taken off", "node", n.Name)
	}
	return err
}
