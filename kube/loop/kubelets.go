package loop

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	leaseLookInterval = time.Second
	// maxLeaseLookGap is how long the Leases may not have been read: kubelets may not have reached the API server either.
	maxLeaseLookGap = 5 * time.Second
	// usualLease is how long kubelet's Lease lasts unless it was configured otherwise; it renews four times as often.
	usualLease = 40 * time.Second
)

// Kubelets tells which kubelets do not renew their Leases, sooner than the API server has their nodes as unknown, which by default takes
// it 50 s. It is no proof of anything: a failover begins then, and the log decides (S170). Times are those of this process alone, from
// one look at the Leases to another, so that no clocks are compared.
type Kubelets struct {
	Kube   kubernetes.Interface
	Logger *slog.Logger
	// Silence is how long a kubelet has not renewed its Lease when it is silent, where Leases last as usual, and longer in proportion where
	// they last longer. 0: none ever is.
	Silence time.Duration

	mu       sync.Mutex
	renewals map[string]renewal // by node
	looked   time.Time          // when the last look began
	count    int                // of those that were silent then
	woken    chan struct{}
}

// renewal is what was seen of a Lease.
type renewal struct {
	renewed time.Time     // by the kubelet's clock
	seen    time.Time     // when that was seen first
	silence time.Duration // after which it is silent
}

// Watch looks at the Leases again and again until ctx ends.
func (k *Kubelets) Watch(ctx context.Context) {
	said := ""
	for k.Silence > 0 && ctx.Err() == nil {
		err := k.look(ctx, time.Now)
		switch {
		case err == nil:
			said = ""
		case err.Error() != said && ctx.Err() == nil:
			said = err.Error()
			k.Logger.Warn("which kubelets are silent is known only when the API server has their nodes as unknown", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(leaseLookInterval):
		}
	}
}

// look reads the Leases, from no cache: an API server that is behind would make all of them seem old.
func (k *Kubelets) look(ctx context.Context, now func() time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, maxLeaseLookGap)
	defer cancel()
	began := now()
	leases, err := k.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Leases of kubelets: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.count
	k.note(leases.Items, began, now())
	if k.count > before {
		k.wake()
	}
	return nil
}

// note takes over what the Leases say. After a gap every kubelet begins anew. A look that takes long makes no Lease older: what it sees is
// as new as its beginning at least, and was there at its end at the latest.
func (k *Kubelets) note(leases []coordinationv1.Lease, began, ended time.Time) {
	before := k.renewals
	if began.Sub(k.looked) > maxLeaseLookGap {
		before = nil
	}
	k.renewals, k.looked, k.count = make(map[string]renewal, len(leases)), began, 0
	for i := range leases {
		spec := &leases[i].Spec
		if spec.RenewTime == nil {
			continue
		}
		r := renewal{renewed: spec.RenewTime.Time, seen: ended, silence: k.silenceOf(spec)}
		if last, known := before[leases[i].Name]; known && last.renewed.Equal(r.renewed) {
			r.seen = last.seen
		}
		if k.renewals[leases[i].Name] = r; k.isSilent(r) {
			k.count++
		}
	}
}

// silenceOf is longer where the Lease lasts longer, as it is renewed less often then.
func (k *Kubelets) silenceOf(spec *coordinationv1.LeaseSpec) time.Duration {
	if spec.LeaseDurationSeconds == nil {
		return k.Silence
	}
	lasts := time.Duration(*spec.LeaseDurationSeconds) * time.Second
	return max(k.Silence, time.Duration(float64(k.Silence)*float64(lasts)/float64(usualLease)))
}

func (k *Kubelets) isSilent(r renewal) bool { return k.looked.Sub(r.seen) >= r.silence }

// silent tells whether a node's kubelet is silent while others are heard of. Where most are not, it is the API server that they do not reach.
func (k *Kubelets) silent(node string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, known := k.renewals[node]
	return known && time.Since(k.looked) <= maxLeaseLookGap && k.isSilent(r) && 2*k.count <= len(k.renewals)
}

// wakes is told when one more kubelet is silent.
func (k *Kubelets) wakes() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.woken == nil {
		k.woken = make(chan struct{}, 1)
	}
	return k.woken
}

func (k *Kubelets) wake() {
	select {
	case k.woken <- struct{}{}:
	default: // it is told already, or nobody listens
	}
}
