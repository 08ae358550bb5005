package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// elsewhere is the other node of a site.
var elsewhere = map[string]string{"n1": "n2", "n2": "n1", "n3": "n4", "n4": "n3"}

// S54: a replica that is replaced, or whose host was lost, is made anew at its site, and the role stays.
func TestS54_AReplicaIsMadeAnewAtItsSite(t *testing.T) {
	for name, leave := range map[string]func(*related, string){
		"replaced": func(w *related, node string) { w.ok(controller, removeReplica(node)) },
		"lost":     func(w *related, node string) { w.setUnreachable(node, true); w.lose(1, "B") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRelated(t)
			before := w.node(1, "B")
			leave(w, before)
			role := w.relation(1).Role
			w.rejected(Precondition, controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: elsewhere[w.node(1, "A")]})
			w.ok(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
			require.Equal(t, elsewhere[before], w.node(1, "B"))
			w.isPrimary(1, "A")
			require.Equal(t, role, w.relation(1).Role)
			w.okAt("A", demote(sourceOf(1)))
			w.rejectedAt("B", Busy, promoteByForce(sourceOf(1))) // S43: it was never whole
		})
	}
}

// S54: without another host at its site no replica is made at all.
func TestS54_NoReplicaIsMadeAtAnotherSite(t *testing.T) {
	w := newRelated(t)
	before := w.node(1, "B")
	w.ok(admin, scheduleNode(elsewhere[before], true))
	w.ok(admin, scheduleNode(before, true))
	w.ok(controller, removeReplica(before))
	w.rejected(NoCapacity, controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	require.Nil(t, w.s.replicaAt(w.volume(1), "B"))
}

// S38, S54: a replicated volume is expanded and cut through the site where it is primary, and both replicas grow.
func TestS38_AReplicatedVolumeIsChangedWhereItIsPrimary(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	twice := &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * w.volume(1).Size}
	w.rejectedAt("B", Precondition, twice)
	w.rejectedAt("B", Precondition, createSnapshot(1, 1))
	w.okAt("A", twice)
	for _, site := range []Site{"A", "B"} {
		d, _ := w.s.DesiredVolume(NodeID(w.node(1, site)), VolumeID(volumeID(1)))
		require.Equal(t, twice.GetRequiredBytes(), d.Size, "site %s", site)
	}
	w.isPrimary(1, "A")
	other := newRelated(t)
	other.used(1, "A")
	other.okAt("A", createSnapshot(1, 1))
	cut, _ := other.s.Snapshot(SnapshotID(snapshotID(1)))
	require.Equal(t, NodeID(other.node(1, "A")), cut.Node)
	require.Equal(t, Site("A"), cut.Origin)
}
