package scenarios

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failover is how long the parts of a failover took.
type failover struct{ total, fromPublish time.Duration }

// TestPowerLossLosesNoAcknowledgedWrite: the primary loses its power. Every acknowledged write is on the other
// host, mounted soon, and the host that comes back is only a synchronisation target.
func TestPowerLossLosesNoAcknowledgedWrite(t *testing.T) {
	w := newScenario(t)
	v := w.replicated(t, "power", false)
	var took []failover
	from := uint64(1)
	nodes := []string{"n1", "n2"}
	w.publishAndStage(t, v, nodes[0])
	for range rounds() {
		var f failover
		f, from = w.failOver(t, v, nodes[0], nodes[1], from)
		took = append(took, f)
		slices.Reverse(nodes)
	}
	w.unstageAndUnpublish(t, v, nodes[0])
	w.noSplitBrain(t)
	total, fromPublish := medians(took)
	t.Logf("from the crash until mounted elsewhere: median %s; from the publish call: median %s; %d times", total, fromPublish, len(took))
}

func medians(all []failover) (total, fromPublish time.Duration) {
	middle := func(of func(failover) time.Duration) time.Duration {
		var values []time.Duration
		for _, f := range all {
			values = append(values, of(f))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return middle(func(f failover) time.Duration { return f.total }), middle(func(f failover) time.Duration { return f.fromPublish })
}

// failOver kills the primary's host under a writer and brings the volume up on the other.
func (w *env) failOver(t *testing.T, v *volume, from, to string, number uint64) (failover, uint64) {
	t.Helper()
	w.awaitInSync(t, v)
	x := w.writeEagerly(t, v, from, number, math.MaxUint64) // the loss of power is to find a write in flight
	x.awaitBlocks(t, 50)
	require.True(t, w.isUpToDateOn(t, v, to), "the other replica was outdated before the loss of power")
	require.NoError(t, w.guest(from).Crash())
	crashed, acked := time.Now(), x.readAcks().Number
	w.unpublishUnreachable(t, v, from)
	published := time.Now()
	w.publishAndStage(t, v, to)
	f := failover{total: time.Since(crashed), fromPublish: time.Since(published)}
	w.requireAcknowledged(t, v, to, acked)
	y := w.write(t, v, to, acked+1)
	y.awaitBlocks(t, 20)
	require.NoError(t, w.bootGuest(t.Context(), w.guest(from)))
	w.awaitSynchronised(t, v, to, "the host that came back is synchronised")
	w.awaitState(t, from, "reachable")
	last := y.stop(t)
	w.requireAcknowledged(t, v, to, last.Number)
	return f, last.Number + 1
}

// unpublishUnreachable ends the publication on a host as soon as the host is recorded as unreachable: until then
// the answer is that the host has the volume staged (S31).
func (w *env) unpublishUnreachable(t *testing.T, v *volume, node string) {
	t.Helper()
	eventually(t, timeout, "the volume is taken from "+node, func(ctx context.Context) error {
		return w.co.unpublish(ctx, v, node)
	})
}
