package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// Config is what a Loop works with.
type Config struct {
	Kube     kubernetes.Interface
	Log      Log
	Notifier *Notifier
	Metrics  *Metrics
	Logger   *slog.Logger
	// Kubelets is watched by every loop, so that one that is elected when another's node died knows what happened before.
	Kubelets *Kubelets
	// Guard is what the guards of nodes are made with. Without an image there are none.
	Guard plan.Guard
	// Namespace is the controllers'; ControllerSelector selects their pods.
	Namespace, ControllerSelector string
	// SnapshotMetadata is where changed blocks of snapshots are served, of which Dynamic has the object; without an address there is none.
	SnapshotMetadata plan.SnapshotMetadata
	Dynamic          dynamic.Interface
	// Often is how often nodes are looked at, Seldom everything.
	Often, Seldom time.Duration
}

// Loop looks at both sides and does what kube/plan says, while it leads.
type Loop struct {
	Config
	nodes    *nodeReader
	failover *failoverReconciler
	startup  *startupReconciler
	guards   *guardReconciler
	affinity *affinityReconciler
	notices  *noticeReporter
}

// New makes a loop.
func New(c Config) *Loop {
	return &Loop{
		Config: c,
		nodes:  &nodeReader{Kube: c.Kube, Log: c.Log},
		failover: &failoverReconciler{
			Kube: c.Kube, Log: c.Log, Notifier: c.Notifier, Metrics: c.Metrics, Logger: c.Logger, Kubelets: c.Kubelets,
			pods: podReader{c.Kube},
		},
		startup: &startupReconciler{Kube: c.Kube, Metrics: c.Metrics, Logger: c.Logger},
		guards: &guardReconciler{
			Kube: c.Kube, Log: c.Log, Notifier: c.Notifier, Metrics: c.Metrics, Guard: c.Guard, Namespace: c.Namespace, ControllerSelector: c.ControllerSelector,
		},
		affinity: &affinityReconciler{Kube: c.Kube, Notifier: c.Notifier, Metrics: c.Metrics, Logger: c.Logger, Namespace: c.Namespace},
		notices:  &noticeReporter{Kube: c.Kube, Notifier: c.Notifier, Namespace: c.Namespace, ControllerSelector: c.ControllerSelector},
	}
}

// Run looks again and again until ctx ends. No duty waits for another one, of which one may have much to do.
func (l *Loop) Run(ctx context.Context) {
	var duties sync.WaitGroup
	seldom := func() time.Duration { return l.Seldom }
	duties.Go(func() {
		l.every(ctx, func() time.Duration { return l.failover.hurry.pause(l.Often) }, l.Kubelets.wakes(), "nodes", l.SyncNodes)
	})
	duties.Go(func() { l.every(ctx, seldom, nil, "guards", l.SyncGuards) })
	duties.Go(func() { l.every(ctx, seldom, nil, "volumes", l.SyncVolumes) })
	if l.SnapshotMetadata.Address != "" {
		duties.Go(func() { l.every(ctx, seldom, nil, "snapshot-metadata", l.SyncSnapshotMetadata) })
	}
	duties.Wait()
}

func (l *Loop) every(ctx context.Context, interval func() time.Duration, wakes <-chan struct{}, part string, look func(context.Context) error) {
	for ctx.Err() == nil {
		l.done(part, look(ctx))
		select {
		case <-ctx.Done():
		case <-wakes:
		case <-time.After(interval()):
		}
	}
}

func (l *Loop) done(part string, err error) {
	if err == nil {
		l.Metrics.synced(part)
		return
	}
	l.Logger.Warn("what the log says could not be brought into Kubernetes; it is tried again", "part", part, "error", err)
}

// SyncNodes looks at the nodes that are silent or out of service, and then at those that join.
func (l *Loop) SyncNodes(ctx context.Context) error {
	there, err := l.nodes.there(ctx)
	if err != nil {
		return err
	}
	return errors.Join(l.failover.sync(ctx, there, l.nodes.known()), l.startup.sync(ctx, there))
}

// SyncGuards looks at who must not be drained.
func (l *Loop) SyncGuards(ctx context.Context) error {
	nodes, there, err := l.nodes.read(ctx)
	if err != nil {
		return err
	}
	return l.guards.sync(ctx, nodes, there)
}

// SyncVolumes looks at volumes, and says what is wrong with them and with nodes. What of it fails does not keep the rest from being done.
func (l *Loop) SyncVolumes(ctx context.Context) error {
	nodes, there, err := l.nodes.read(ctx)
	if err != nil {
		return errors.Join(err, l.notices.noticeNoQuorum(ctx, err))
	}
	l.notices.answered()
	volumes, err := l.Log.Volumes(ctx)
	if err != nil {
		return fmt.Errorf("ask the controllers for their volumes: %w", err)
	}
	cluster, err := l.readCluster(ctx, there)
	if err != nil {
		return err
	}
	return errors.Join(l.affinity.sync(ctx, volumes, byID(nodes), cluster), l.notices.report(ctx, nodes, volumes, cluster))
}

// SyncSnapshotMetadata has clients find where changed blocks of snapshots are served.
func (l *Loop) SyncSnapshotMetadata(ctx context.Context) error {
	r := snapshotMetadataReconciler{Kube: l.Kube, Dynamic: l.Dynamic, Wanted: l.SnapshotMetadata, Metrics: l.Metrics, Logger: l.Logger}
	return r.sync(ctx)
}

// cluster is what the API server has, perhaps a moment ago: what a step depends on is read again before it.
type cluster struct {
	nodes  []corev1.Node
	pvs    []corev1.PersistentVolume
	claims map[string]*corev1.PersistentVolumeClaim // by namespace/name
}

func (l *Loop) readCluster(ctx context.Context, nodes []corev1.Node) (*cluster, error) {
	pvs, err := l.Kube.CoreV1().PersistentVolumes().List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("list persistent volumes: %w", err)
	}
	claims, err := l.Kube.CoreV1().PersistentVolumeClaims("").List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	c := &cluster{nodes: nodes, claims: map[string]*corev1.PersistentVolumeClaim{}}
	for i := range pvs.Items {
		if isOurs(&pvs.Items[i]) {
			c.pvs = append(c.pvs, pvs.Items[i])
		}
	}
	for i := range claims.Items {
		c.claims[claims.Items[i].Namespace+"/"+claims.Items[i].Name] = &claims.Items[i]
	}
	return c, nil
}

func isOurs(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == plan.Driver
}
