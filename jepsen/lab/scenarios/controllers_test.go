package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestALostPeerFreezesIOWithoutAQuorum: without controllers a healthy volume works. When its peer is lost
// its I/O is suspended, and continues when two controllers are back.
func TestALostPeerFreezesIOWithoutAQuorum(t *testing.T) {
	w := newScenario(t)
	v := w.replicated(t, "orphan", false)
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	x := w.write(t, v, "n1", 1)
	for i := 1; i <= 3; i++ {
		require.NoError(t, w.cluster.KillController(t.Context(), i))
	}
	x.awaitBlocks(t, 100)
	require.NoError(t, w.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
	x.awaitFrozen(t)
	began := time.Now()
	require.NoError(t, w.cluster.StartController(t.Context(), 2))
	require.NoError(t, w.cluster.StartController(t.Context(), 3))
	x.awaitBlocks(t, 50)
	t.Logf("two controllers were back for %s when the writes went on", time.Since(began).Round(time.Millisecond))
	require.NoError(t, w.cluster.StartController(t.Context(), 1))
	require.NoError(t, w.lab.ReconnectAll(t.Context()))
	w.awaitSynchronised(t, v, "n1", "both are synchronised")
	last := x.stop(t)
	w.requireAcknowledged(t, v, "n1", last.Number)
	w.unstageAndUnpublish(t, v, "n1")
	w.noSplitBrain(t)
}

// handlerRuns waits until the kernel has noticed the loss and runs its fence-peer handler.
const handlerRuns = `until pgrep -f '[f]ence-peer' >/dev/null; do sleep .1; done`

// isolateFromPeer isolates the primary from its peer.
func (w *env) isolateFromPeer(t *testing.T) {
	t.Helper()
	require.NoError(t, w.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
}

// TestARequestToOutdateThePeerSurvivesDeaths: the request of a primary that lost its peer survives the death of any
// process between it and the verdict.
func TestARequestToOutdateThePeerSurvivesDeaths(t *testing.T) {
	for name, fault := range map[string]func(*testing.T, *env){
		"the death of the leader": func(t *testing.T, w *env) {
			leader, err := w.cluster.Leader(t.Context())
			require.NoError(t, err)
			w.isolateFromPeer(t)
			require.NoError(t, w.cluster.KillController(t.Context(), leader))
		},
		"the death of the node process": func(t *testing.T, w *env) {
			require.NoError(t, w.cluster.KillNode(t.Context(), 1))
			w.isolateFromPeer(t)
			w.mustExec(t, "n1", handlerRuns)
			require.NoError(t, w.cluster.StartNode(t.Context(), 1))
		},
		"the death of the handler": func(t *testing.T, w *env) {
			require.NoError(t, w.cluster.KillNode(t.Context(), 1))
			w.isolateFromPeer(t)
			w.mustExec(t, "n1", handlerRuns+`; pkill -9 -f '[f]ence-peer'; while pgrep -f '[f]ence-peer' >/dev/null; do sleep .1; done`)
			require.NoError(t, w.cluster.StartNode(t.Context(), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScenario(t)
			v := w.replicated(t, "ask", false)
			w.publishAndStage(t, v, "n1")
			w.awaitInSync(t, v)
			x := w.write(t, v, "n1", 1)
			fault(t, w)
			w.awaitKernel(t, v, "n1", timeout, "it goes on alone", func(d drbdState) bool {
				return d.connection != "Connected" && !d.suspended
			})
			x.awaitBlocks(t, 50)
			if name == "the death of the leader" { // and repeated, for a request that is answered
				for range 2 {
					w.mustExec(t, "n1", fmt.Sprintf(`DRBD_RESOURCE=%s timeout 120 holdfast fence-peer; code=$?; echo it ended with $code; [ $code = 4 ] || [ $code = 1 ]`, v.id))
				}
			}
			require.NoError(t, w.restore(t.Context()))
			w.awaitSynchronised(t, v, "n1", "both are synchronised")
			last := x.stop(t)
			require.Empty(t, last.Error)
			w.requireAcknowledged(t, v, "n1", last.Number)
			w.unstageAndUnpublish(t, v, "n1")
			w.noSplitBrain(t)
		})
	}
}
