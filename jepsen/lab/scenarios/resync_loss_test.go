package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// The source of a resynchronisation dies in the middle of it: what its target has then is of two times. It is promoted by
// force only, after it went back to what was kept of it, and the returning source is copied wholly (S43, S50).
func TestS38_S43_S50_TheSourceOfAResynchronisationDies(t *testing.T) {
	w, a, b := newSites(t)
	r := newRelation(t, a, b, "source", true)
	va, vb := r.volumes[a][0], r.volumes[b][0]
	na, nb := a.host(t, va), b.host(t, vb)
	r.use(t, a)
	a.cutOff(t, lab.Replication)
	w.awaitKernel(t, va, na, timeout, "it goes on alone", goesOnAlone)
	r.writer.awaitBlocks(t, 100)
	before := w.sumOf(t, nb, vb, "/dev/mapper/"+vb.device())
	w.mustExec(t, na, fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M seek=8 count=20 oflag=direct 2>/dev/null", va.target()))
	for _, node := range []string{na, nb} {
		w.limitResyncRate(t, va, node, "256K")
	}
	w.reconnect(t)
	w.awaitKernel(t, va, nb, timeout, "it is being synchronised", func(d drbdState) bool { return d.connection == "SyncTarget" })
	time.Sleep(time.Second) // what was copied by then is on stable storage, or not
	a.losePower(t)
	r.gone()
	r.awaitNeedsForce(t, b)
	r.promoteByForce(t, b)
	require.Equal(t, before, w.sumOf(t, nb, vb, vb.path()), "the content is that of the moment in which it was kept")
	r.beginForcedTurn(t, b)
	w.endRateLimit(t, va, nb)
	a.boot(t)
	require.NoError(t, r.demote(t.Context(), a))
	w.mustExec(t, na, "dmesg -C")
	r.awaitReady(t, a, true)
	w.requireFullSync(t, va, na)
	r.failBack(t, b, a)
	r.end(t, a)
	r.judge(t)
	r.remove(t, a)
}

// endRateLimit ends the limit of a synchronisation on a host.
func (w *env) endRateLimit(t *testing.T, v *volume, node string) {
	t.Helper()
	w.limitResyncRate(t, v, node, "100M")
}

// A source dies in the first synchronisation: its target was never whole and is never promoted, by no force (S43).
func TestS38_S43_TheSourceOfTheFirstSynchronisationDies(t *testing.T) {
	w, a, b := newSites(t)
	r := newPlain(t, a, b, "first", 128*mi)
	va := r.volumes[a][0]
	before := r.fillPlain(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	enabled := make(chan error, 1)
	go func() { enabled <- r.enable(ctx, a) }()
	r.learnCopy(t, a, b)
	nb := b.host(t, r.volumes[b][0])
	w.awaitKernel(t, va, nb, timeout, "it is being synchronised", func(d drbdState) bool { return d.connection == "SyncTarget" })
	a.cutOff(t, lab.Replication)
	d, err := w.kernel(t.Context(), va, nb)
	require.NoError(t, err)
	require.Equal(t, "Inconsistent", d.disk, "it was never whole")
	a.losePower(t)
	cancel()
	t.Logf("enable was answered: %v", <-enabled)
	w.reconnect(t)
	a.awaitNodes(t, "unreachable")
	for range 3 {
		r.requireRefused(t, b, true, codes.Aborted)
	}
	a.boot(t)
	require.NoError(t, r.enable(t.Context(), a))
	r.claim(t)
	r.use(t, a)
	r.end(t, a)
	require.Equal(t, before, w.fileSum(t, a.host(t, va), "/dev/mapper/"+va.device(), 8*mi, va.size-8*mi))
	r.judge(t)
	r.remove(t, a)
}
