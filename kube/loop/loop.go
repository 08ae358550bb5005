package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

// Config is what a Loop works with.
type Config struct {
	Kube     kubernetes.Interface
	Log      Log
	Notifier *Notifier
	Metrics  *Metrics
	Logger   *slog.Logger
	// Guard is what the guards of nodes are made with. Without an image there are none.
	Guard plan.Guard
	// Namespace is the controllers'; ControllerSelector selects their pods.
	Namespace, ControllerSelector string
	// Often is how often nodes are looked at, Seldom everything.
	Often, Seldom time.Duration
}

// Loop looks at both sides and does what kube/plan says, while it leads.
type Loop struct {
	Config
	seen      seen
	immutable bool // the API server does not let a volume's node affinity be changed
}

// seen is what was read of both sides last, for what does not decide on a change.
type seen struct {
	nodes map[string]*adminpb.Node
	// unanswered: nobody answered the last time either. An election, or a start of all controllers, is no news.
	unanswered bool
}

// New makes a loop.
func New(c Config) *Loop { return &Loop{Config: c} }

// Run looks again and again until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	var last time.Time
	for ctx.Err() == nil {
		if time.Since(last) >= l.Seldom {
			l.done("all", l.Sync(ctx))
			last = time.Now()
		}
		l.done("nodes", l.SyncNodes(ctx))
		select {
		case <-ctx.Done():
		case <-time.After(l.Often):
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

// Sync looks at everything but failovers once. What of it fails does not keep the rest from being done.
func (l *Loop) Sync(ctx context.Context) error {
	nodes, err := l.Log.Nodes(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("ask the controllers for their nodes: %w", err), l.noticeNoQuorum(ctx, err))
	}
	volumes, err := l.Log.Volumes(ctx)
	if err != nil {
		return fmt.Errorf("ask the controllers for their volumes: %w", err)
	}
	l.seen = seen{nodes: byID(nodes)}
	cluster, err := l.readCluster(ctx)
	if err != nil {
		return err
	}
	return errors.Join(l.syncGuards(ctx, nodes, cluster), l.syncAffinity(ctx, volumes, cluster), l.syncNotices(ctx, nodes, volumes, cluster))
}

func byID(nodes []*adminpb.Node) map[string]*adminpb.Node {
	all := make(map[string]*adminpb.Node, len(nodes))
	for _, n := range nodes {
		all[n.GetId()] = n
	}
	return all
}

// cluster is what the API server has, perhaps a moment ago: what a step depends on is read again before it.
type cluster struct {
	nodes  []corev1.Node
	pvs    []corev1.PersistentVolume
	claims map[string]*corev1.PersistentVolumeClaim // by namespace/name
}

// cached lets the API server answer from its own memory.
var cached = metav1.ListOptions{ResourceVersion: "0"}

func (l *Loop) readCluster(ctx context.Context) (*cluster, error) {
	nodes, err := l.Kube.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pvs, err := l.Kube.CoreV1().PersistentVolumes().List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("list persistent volumes: %w", err)
	}
	claims, err := l.Kube.CoreV1().PersistentVolumeClaims("").List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	c := &cluster{nodes: nodes.Items, claims: map[string]*corev1.PersistentVolumeClaim{}}
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
