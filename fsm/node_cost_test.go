package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// What a node's reachability changes is bounded, however much the node holds: the entry
// writes the node, and the volumes of which a teardown is pending on it.
func TestANodesReachabilityCostsTheSameWhateverItHolds(t *testing.T) {
	w := largeState(t, 300)
	n, _ := w.s.Node("node-1")
	for _, reachable := range []bool{false, true} {
		before := w.s.writes
		w.index++
		r := w.s.Apply(w.index, envelope("controller/c1", fmt.Sprint("edge ", reachable), w.index,
			&fsmpb.SetNodeReachable{NodeId: string(n.ID), HostId: string(n.Host), Reachable: reachable}))
		require.NoError(t, Err(r.Outcome))
		require.Equal(t, before+1, w.s.writes)
		require.Equal(t, []Change{{Node: n.ID}, {Node: n.ID, WakeWaiters: true}}, r.Changes)
	}
}

// The lowest free minor is found without a look at all of them, and the same as by one.
func TestTheLowestFreeMinorIsGivenAgain(t *testing.T) {
	x := newIndex()
	for _, taken := range []uint32{firstMinor + 3, firstMinor, firstMinor + 1} {
		x.takeMinor(taken)
	}
	require.EqualValues(t, firstMinor+2, x.lowestMinor())
	x.takeMinor(firstMinor + 2)
	require.EqualValues(t, firstMinor+4, x.lowestMinor())
	x.freeMinors.Insert(firstMinor + 1)
	fork := x.copy()
	x.takeMinor(firstMinor + 1)
	require.EqualValues(t, firstMinor+4, x.lowestMinor())
	require.EqualValues(t, firstMinor+1, fork.lowestMinor())
}

// BenchmarkNodeReachable: what Apply takes for a node that goes and comes back, and
// what its lock is held for to read all that is wanted of the node's host.
func BenchmarkNodeReachable(b *testing.B) {
	for _, volumes := range []int{200_000, 1_000_000} {
		b.Run(fmt.Sprint(volumes), func(b *testing.B) {
			w := largeState(b, volumes)
			n, _ := w.s.Node("node-1")
			var longest, fork time.Duration
			for i := range b.N {
				cmd := envelope("controller/c1", fmt.Sprint("edge ", i), w.index,
					&fsmpb.SetNodeReachable{NodeId: string(n.ID), HostId: string(n.Host), Reachable: i%2 == 1})
				begin := time.Now()
				w.s.Apply(w.next(), cmd)
				longest = max(longest, time.Since(begin))
				begin = time.Now()
				w.s.Fork()
				fork = max(fork, time.Since(begin))
			}
			b.ReportMetric(float64(longest.Nanoseconds()), "longest-apply-ns")
			b.ReportMetric(float64(fork.Nanoseconds()), "longest-fork-ns")
		})
	}
}
