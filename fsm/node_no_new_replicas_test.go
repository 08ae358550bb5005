package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// withoutReplication registers the node again, without replication.
func (w *world) withoutReplication(node string) {
	w.t.Helper()
	r := register(node)
	r.BootId = w.bootOf(node)
	w.ok("node/"+node, r)
}

// A host that comes without replication does not disable the replicas of its peers.
func TestAHostWithoutReplicationDoesNotDisableItsPeers(t *testing.T) {
	w := newReplicated(t, protocolC)
	before, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	for range 2 { // also at its next registration
		w.withoutReplication("n2")
		n, _ := w.s.Node("n2")
		require.True(t, n.NoNewReplicas)
		after, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
		require.Equal(t, before.Replication.Peer, after.Replication.Peer, "its address and key stay")
		own, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
		require.Equal(t, "10.0.0.2", own.Replication.Address)
	}
	w.rejected(NoCapacity, controller, createReplicated(2, protocolC))
	w.ok("node/n3", replicating("n3"))
	w.ok(controller, createReplicated(2, protocolC))
	for _, r := range w.volume(2).Replicas {
		require.NotEqual(t, NodeID("n2"), r.Node)
	}
	w.primary(1, "n1", 7)
	require.Equal(t, w.contents(), (&world{s: restored(t, w.s)}).contents())

	moved := replicating("n2")
	moved.Replication.Address = "10.9.9.9"
	w.ok("node/n2", moved)
	n, _ := w.s.Node("n2")
	require.False(t, n.NoNewReplicas)
	require.Equal(t, "10.9.9.9", n.Replication.Address)
}

// What is kept is an address with its key: one without the other reaches nobody.
func TestHalfOfAReplicationIsNotKept(t *testing.T) {
	for name, change := range map[string]func(*fsmpb.Replication){
		"an address": func(r *fsmpb.Replication) { r.PublicKey = nil },
		"a key":      func(r *fsmpb.Replication) { r.Address = "" },
	} {
		old, n := Node{Replication: NodeReplication{Address: "10.0.0.1", PublicKey: "key"}}, Node{}
		n.keepKnownReplication(&old)
		require.True(t, n.NoNewReplicas)
		half := replicating("n1").Replication
		change(half)
		old, n = Node{Replication: NodeReplication{Address: half.Address, PublicKey: string(half.PublicKey)}}, Node{}
		n.keepKnownReplication(&old)
		require.Equal(t, Node{}, n, name)
	}
}

// Another host under the name has nothing of what its predecessor said.
func TestAnotherHostUnderTheNameKeepsNoReplication(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.loseNode("n2")
	w.ok("node/n2", &fsmpb.RegisterNode{NodeId: "n2", HostId: "host-new", BootId: "boot-1", FeatureLevel: MaxFeatureLevel})
	n, _ := w.s.Node("n2")
	require.Equal(t, NodeReplication{}, n.Replication)
	require.False(t, n.NoNewReplicas)
}

// At feature level 1 nothing is otherwise than it was.
func TestAtLevel1AHostWithoutReplicationHasNone(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.withoutReplication("n2")
	n, _ := w.s.Node("n2")
	require.Equal(t, NodeReplication{}, n.Replication)
}
