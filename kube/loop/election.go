package loop

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaseName is the Lease that elects one loop.
const LeaseName = "holdfast-kube"

// Election says who elects, and how fast.
type Election struct {
	Kube      kubernetes.Interface
	Namespace string
	Identity  string // of this loop: its pod's name
	Logger    *slog.Logger
	Metrics   *Metrics
	// Duration is how long a leader that is not heard of leads; it gives up after Deadline, and renews each Retry.
	Duration, Deadline, Retry time.Duration
}

// Lead calls run each time that this loop is elected, with a context that ends with its leadership, until ctx ends. The Lease is
// released then, so that the next one leads at once. Nothing depends on there being one leader only: each step is refused where the
// other one was there before.
func (e Election) Lead(ctx context.Context, run func(context.Context)) error {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: LeaseName, Namespace: e.Namespace},
		Client:     e.Kube.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: LeaseName, ReleaseOnCancel: true, LeaseDuration: e.Duration, RenewDeadline: e.Deadline, RetryPeriod: e.Retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				e.Logger.Info("this loop leads", "identity", e.Identity)
				e.Metrics.Leads(true)
				run(ctx)
			},
			OnStoppedLeading: func() { e.Metrics.Leads(false) },
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	for ctx.Err() == nil {
		elector.Run(ctx)
	}
	return nil
}
