package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// lostAfterConversion is restored from a backup that has volume 1 plain at site A; the lost log replicated it to site B.
func lostAfterConversion(t *testing.T, rest func(*related)) (lost *related, w *world) {
	lost = newTwoSites(t, 0)
	lost.readyAt("A", 1, create(1))
	w = lost.lostAfter(func() {
		lost.okAt("A", enable(sourceOf(1), "B"))
		lost.secondMade()
		rest(lost)
	})
	return lost, w
}

// S1, S5, S8: the backup has a volume plain, and its host burnt: it goes on with the replica that the lost log gave it. That host is
// recorded as lost by its own verb first; then the replica is adopted as that of a volume that this log does not know,
// and nobody uses it before an operator decides so.
func TestS1_S5_S8_AConvertedVolumeOutlivesItsFirstHost(t *testing.T) {
	for name, tc := range map[string]struct {
		synced bool
	}{
		"both were up to date":               {synced: true},
		"the second one was being copied to": {},
	} {
		t.Run(name, func(t *testing.T) {
			lost, w := lostAfterConversion(t, func(lost *related) {
				lost.copied()
				for range map[bool]int{true: 2}[tc.synced] {
					lost.reportCurrent(1, lost.node(1, "A"), inSyncObservation(7))
					lost.reportCurrent(1, lost.node(1, "B"), inSyncObservation(7))
				}
			})
			burnt, second := lost.node(1, "A"), lost.heldAt(1, "B")
			out := w.rejected(Precondition, admin, adopt(1, second))
			require.Contains(t, out.GetRejection().GetMessage(), "holdfast nodes lost "+burnt)
			require.Nil(t, w.volume(1).Replication, "nothing is given up silently")

			w.loseNode(burnt)
			require.True(t, w.volume(1).isFailed())
			w.twice(admin, adopt(1, second))
			v, was := w.volume(1), lost.volume(1)
			require.Len(t, v.Replicas, 1)
			require.Equal(t, NodeID(second.GetNodeId()), v.Replicas[0].Node)
			require.Equal(t, was.Replication.Minor, v.Replication.Minor)
			require.Equal(t, was.Replication.Port, v.Replication.Port)
			require.Equal(t, []string{was.Name, string(was.Home)}, []string{v.Name, string(v.Home)})
			require.Equal(t, unpublished, v.Phase)
			require.False(t, v.Replicas[0].UpToDate)
			require.Equal(t, !tc.synced, v.Replicas[0].Outdated, "as the lost log said last")
			require.NoError(t, w.s.Check())

			w.ok(admin, &fsmpb.AdoptNode{NodeId: second.GetNodeId(), HostId: second.GetHostId(), Incarnation: 2})
			w.reportCurrent(1, second.GetNodeId(), disconnectedObservation(7, connecting))
			require.False(t, w.volume(1).Replicas[0].UpToDate, "no peer says that it has every write")
			if tc.synced {
				w.ok("operator/ann", publish(1, second.GetNodeId()))
				w.rejected(Precondition, "node/"+second.GetNodeId(), w.setPrimary(1, second.GetNodeId(), disconnectedObservation(7, connecting)))
			} else {
				require.Error(t, Err(w.apply("operator/ann", publish(1, second.GetNodeId()))))
			}
			w.twice(admin, forcePrimary(second.GetNodeId(), false))
			w.ok("operator/ann", publish(1, second.GetNodeId()))
			w.ok("node/"+second.GetNodeId(), w.setPrimary(1, second.GetNodeId(), disconnectedObservation(7, connecting)))
		})
	}
}

// S1: it is in use on the host that is left: it stays so, under the epoch that it was staged under.
func TestS1_ASurvivorThatIsInUseStaysPublished(t *testing.T) {
	lost, w := lostAfterConversion(t, func(lost *related) {
		lost.copied()
		for range 2 {
			lost.reportCurrent(1, lost.node(1, "A"), inSyncObservation(7))
			lost.reportCurrent(1, lost.node(1, "B"), inSyncObservation(7))
		}
	})
	second := lost.heldAt(1, "B")
	second.Held.Manifest.Publication = &fsmpb.PublicationManifest{
		Epoch: &fsmpb.Epoch{Incarnation: 1, Index: second.GetHeld().GetAt().GetIndex()}, Capability: lost.volume(1).Capabilities[0].TextProto()}
	w.loseNode(lost.node(1, "A"))
	w.twice(admin, adopt(1, second))
	require.Equal(t, EpochFrom(second.Held.Manifest.Publication.Epoch), w.volume(1).Publication(NodeID(second.GetNodeId())).Epoch)
}

// S1, S55: what is not known to be whole, or is another's by now, is not taken: the refusal says what can be done.
func TestS1_S55_ASurvivorThatIsNotTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		rest, since func(*related)
		want        Reason
		says        string
	}{
		"the conversion was under way": {rest: func(*related) {}, want: Precondition, says: "copy what its device has to a new volume"},
		"a new volume has its name": {rest: (*related).copied, want: Incompatible, says: "has its name",
			since: func(w *related) {
				for n := range w.s.Nodes() {
					if n.State != NodeLost {
						w.ok(admin, &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: 2})
					}
				}
				again := create(7)
				again.Name = "pvc-1"
				w.readyAt("A", 7, again)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			lost, w := lostAfterConversion(t, tc.rest)
			w.loseNode(lost.node(1, "A"))
			if tc.since != nil {
				tc.since(&related{&sites{world: w}})
			}
			out := w.rejected(tc.want, admin, adopt(1, lost.heldAt(1, "B")))
			require.Contains(t, out.GetRejection().GetMessage(), tc.says)
		})
	}
}

// S5, S8: a survivor alone may have been left behind, and only the lost log knew. It is not the source of a new replica, with
// which it would be granted as one that was compared with another, before an operator decided that what it has is good enough.
func TestS5_S8_ASurvivorIsNotCopiedBeforeItIsForced(t *testing.T) {
	lost, w := lostAfterConversion(t, func(lost *related) {
		lost.copied()
		for range 2 {
			lost.reportCurrent(1, lost.node(1, "A"), inSyncObservation(7))
			lost.reportCurrent(1, lost.node(1, "B"), inSyncObservation(7))
		}
	})
	second := lost.heldAt(1, "B")
	w.loseNode(lost.node(1, "A"))
	w.twice(admin, adopt(1, second))
	for n := range w.s.Nodes() {
		if n.State != NodeLost {
			w.ok(admin, &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: 2})
		}
	}
	w.reportCurrent(1, second.GetNodeId(), disconnectedObservation(7, connecting))
	add := &fsmpb.AddReplica{VolumeId: string(w.volume(1).ID)}
	for range 2 {
		out := w.rejected(Precondition, admin, proto.CloneOf(add))
		require.Contains(t, out.GetRejection().GetMessage(), "force it to go on first")
	}
	w.twice(admin, forcePrimary(second.GetNodeId(), false))
	out := w.apply(admin, proto.CloneOf(add))
	require.NotContains(t, out.GetRejection().GetMessage(), "force it to go on first")
}

// S1: what was used since the restore is newer than what a host has that did not hear of it.
func TestS1_ASurvivorOfAVolumeThatWasUsedSinceIsNotTaken(t *testing.T) {
	lost, w := lostAfterConversion(t, (*related).copied)
	burnt, second := lost.node(1, "A"), lost.heldAt(1, "B")
	n, ok := w.s.Node(NodeID(burnt))
	require.True(t, ok)
	w.ok(admin, &fsmpb.AdoptNode{NodeId: burnt, HostId: string(n.Host), Incarnation: 2})
	w.loseNode(burnt)
	for range 2 {
		require.Contains(t, w.rejected(Precondition, admin, adopt(1, second)).GetRejection().GetMessage(), "acted for it since the restore")
	}
}
