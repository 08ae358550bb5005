package loop

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// leases are kubelets that renew, and the clock of who looks at them. Kubelets have clocks of their own.
type leases struct {
	*Kubelets
	t    *testing.T
	kube *fake.Clientset
	now  time.Time
}

func newLeases(t *testing.T, nodes ...string) *leases {
	kube := fake.NewClientset()
	l := &leases{t: t, kube: kube, now: time.Now(), Kubelets: &Kubelets{Kube: kube, Logger: slog.New(slog.DiscardHandler), Silence: 15 * time.Second}}
	for _, n := range nodes {
		l.renew(n, 40)
	}
	return l
}

// renew has a kubelet renew its Lease, which lasts so many seconds, and makes it if there is none.
func (l *leases) renew(node string, seconds int32) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &seconds, &metav1.MicroTime{Time: l.now.Add(-24 * time.Hour)}
	api := l.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if _, err := api.Update(l.t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		_, err = api.Create(l.t.Context(), lease, metav1.CreateOptions{})
		require.NoError(l.t, err)
	}
}

// pass lets seconds pass, with a look in each, in which these nodes renew every ten.
func (l *leases) pass(seconds int, nodes ...string) {
	for i := range seconds {
		l.now = l.now.Add(time.Second)
		for _, n := range nodes {
			if i%10 == 9 {
				l.renew(n, 40)
			}
		}
		l.lookAt()
	}
}

func (l *leases) lookAt() {
	require.NoError(l.t, l.look(l.t.Context(), func() time.Time { return l.now }))
}

func (l *leases) silentOnes() (all []string) {
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		l.mu.Lock()
		r, known := l.renewals[n]
		l.mu.Unlock()
		if known && l.isSilent(r) {
			all = append(all, n)
		}
	}
	return all
}

// S170: a kubelet that does not renew its Lease is silent, whatever its clock says, and is not once it renews.
func TestS170_AKubeletThatDoesNotRenewIsSilent(t *testing.T) {
	l := newLeases(t, "n1", "n2", "n3")
	l.pass(20, "n1", "n2", "n3")
	require.Empty(t, l.silentOnes())
	woken := l.wakes()
	l.pass(14, "n2", "n3")
	require.False(t, l.silent("n1"))
	require.Empty(t, woken)
	l.pass(2, "n2", "n3")
	require.True(t, l.silent("n1"))
	require.Len(t, woken, 1, "who waits for it is woken")
	require.False(t, l.silent("n2") || l.silent("n3") || l.silent("n9"))
	l.renew("n1", 40)
	l.pass(1)
	require.False(t, l.silent("n1"))
	l.pass(20, "n2", "n3")
	require.NoError(t, l.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(t.Context(), "n1", metav1.DeleteOptions{}))
	l.pass(1)
	require.False(t, l.silent("n1"), "its node is gone")
}

// S170: where most kubelets do not renew, it is the API server that they do not reach.
func TestS170_MostKubeletsAreNotSilent(t *testing.T) {
	l := newLeases(t, "n1", "n2", "n3", "n4")
	l.pass(20, "n2")
	require.Equal(t, []string{"n1", "n3", "n4"}, l.silentOnes())
	require.False(t, l.silent("n1"))
	l.renew("n3", 40)
	l.pass(1)
	require.True(t, l.silent("n1"), "half of them are heard of")
}

// S170: of a time in which the Leases were not read nothing is known, and of one in which they are not read now.
func TestS170_AnAPIServerThatWasAwayMakesNoKubeletSilent(t *testing.T) {
	l := newLeases(t, "n1", "n2", "n3")
	l.pass(10, "n1", "n2", "n3")
	l.now = l.now.Add(time.Minute)
	l.renew("n2", 40)
	l.renew("n3", 40)
	l.pass(14, "n2", "n3")
	require.False(t, l.silent("n1"))
	l.pass(6, "n2", "n3")
	require.True(t, l.silent("n1"))
	l.looked = time.Now().Add(-time.Minute)
	require.False(t, l.silent("n1"))
}

// S170: what a slow API server answers is as old as the question, and no kubelet is silent for that.
func TestS170_ASlowAnswerMakesNoKubeletSilent(t *testing.T) {
	l := newLeases(t, "n1", "n2", "n3")
	l.pass(10, "n2", "n3") // n1 renewed before these seconds
	l.renew("n2", 40)
	slow := func() time.Time { l.now = l.now.Add(4 * time.Second); return l.now }
	require.NoError(t, l.look(t.Context(), slow))
	require.False(t, l.silent("n1"), "13 s are known")
	l.pass(1, "n2", "n3")
	require.True(t, l.silent("n1"))
}

// S170: a kubelet whose Lease lasts longer renews it less often.
func TestS170_ALeaseThatLastsLongerIsGivenLonger(t *testing.T) {
	l := newLeases(t, "n1", "n2", "n3")
	l.renew("n1", 120)
	l.pass(44, "n2", "n3")
	require.False(t, l.silent("n1"))
	l.pass(3, "n2", "n3")
	require.True(t, l.silent("n1"))
}

func TestS170_LeasesAreNotWatchedWithoutASilence(t *testing.T) {
	l := newLeases(t, "n1")
	l.Silence = 0
	l.Watch(t.Context())
	require.Empty(t, l.renewals)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Silence = time.Hour
	l.Watch(ctx)
	require.Empty(t, l.renewals)
}
