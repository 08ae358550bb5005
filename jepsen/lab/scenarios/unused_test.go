package scenarios

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Both hosts of an unused volume lose their power, and one of them returns alone: it serves the volume without
// an operator's decision, because the end of the last use is recorded (S5, S10). The other one is synchronised
// when it is back.
func TestS5_S10_AnUnusedVolumeIsServedByTheHostThatReturnsAlone(t *testing.T) {
	w := newScenario(t)
	v := w.replicated(t, "unused", false)
	returns := []string{"n2"}
	if *long {
		returns = append(returns, "n1", "n1", "n2")
	}
	used, last := "n1", uint64(0)
	w.publishAndStage(t, v, used)
	for _, back := range returns {
		last = w.writeAndUnstage(t, v, used, last+1)
		w.awaitUnused(t, v)
		require.NoError(t, w.guest("n1").Crash())
		require.NoError(t, w.guest("n2").Crash())
		require.NoError(t, w.bootGuest(t.Context(), w.guest(back)))
		w.publishAndStage(t, v, back)
		w.requireAcknowledged(t, v, back, last)
		require.NoError(t, w.bootGuest(t.Context(), w.guest(map[string]string{"n1": "n2", "n2": "n1"}[back])))
		w.awaitSynchronised(t, v, back, "both are synchronised")
		used = back
	}
	w.unstageAndUnpublish(t, v, used)
	w.noSplitBrain(t)
}

// writeAndUnstage writes from a number on, then unstages and unpublishes the volume.
func (w *env) writeAndUnstage(t *testing.T, v *volume, node string, from uint64) (acked uint64) {
	t.Helper()
	x := w.write(t, v, node, from)
	x.awaitBlocks(t, 50)
	acked = x.stop(t).Number
	w.unstageAndUnpublish(t, v, node)
	return acked
}

// awaitUnused waits until the log records that the volume is unused, and that both replicas have had the same
// content since: observations of an older generation do not count.
func (w *env) awaitUnused(t *testing.T, v *volume) {
	t.Helper()
	w.awaitOnBoth(t, v, resyncTimeout, "is unused, by both hosts", func(s volumeState, r replicaState) bool {
		return len(s.Publications)+len(s.Teardowns) == 0 && isInSync(s, r) && r.Role == "secondary" && r.UUID == s.Replicas[0].UUID
	})
}
