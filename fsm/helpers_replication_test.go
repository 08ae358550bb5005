package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicating registers a node that holds replicas of replicated volumes.
func replicating(node string) *fsmpb.RegisterNode {
	r := register(node)
	r.Replication = &fsmpb.Replication{Address: "10.0.0." + node[1:], PublicKey: bytesOf("key of "+node, 32), Version: "8.4.11", MaxReplicas: 2}
	return r
}

// createReplicated asks for volume n with two replicas.
func createReplicated(n int, protocol fsmpb.Protocol) *fsmpb.CreateVolume {
	c := create(n)
	c.Replicas, c.Protocol = 2, protocol
	return c
}

// pairOf is a world of the nodes n1 and n2, both of which hold replicas.
func pairOf(t testing.TB) *world { return pairAt(t, MaxFeatureLevel) }

// pairAt is pairOf at a feature level.
func pairAt(t testing.TB, level uint32) *world {
	w := &world{t: t, s: New()}
	first := bootstrap()
	first.FeatureLevel = level
	w.ok("controller/c1", first)
	w.ok("node/n1", replicating("n1"))
	w.ok("node/n2", replicating("n2"))
	return w
}

// newReplicated is such a world with volume 1, born: both replicas have the content 7.
func newReplicated(t testing.TB, protocol fsmpb.Protocol) *world {
	return newReplicatedAt(t, MaxFeatureLevel, protocol)
}

// newReplicatedAt is newReplicated at a feature level.
func newReplicatedAt(t testing.TB, level uint32, protocol fsmpb.Protocol) *world {
	w := pairAt(t, level)
	w.bornVolume(1, createReplicated(1, protocol))
	return w
}

// bornVolume makes volume n and reports its birth.
func (w *world) bornVolume(n int, c *fsmpb.CreateVolume) *Volume {
	w.t.Helper()
	w.ok("controller/c1", c)
	for _, node := range []string{"n1", "n2"} {
		w.attach(n, node, 1)
		w.report(node, observed(n, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(n).Size}}))
	}
	for _, node := range []string{"n1", "n2"} {
		w.sees(n, node, together(7))
	}
	require.Equal(w.t, Ready{}, w.volume(n).Phase)
	for _, node := range []string{"n1", "n2"} {
		w.sees(n, node, together(7)) // again, of the generation that began with the birth
	}
	return w.volume(n)
}

// observed is a fact about volume n.
func observed(n int, fact any) *fsmpb.Observation {
	o := &fsmpb.Observation{VolumeId: volumeID(n)}
	switch f := fact.(type) {
	case *fsmpb.Observation_DeviceCreated:
		o.Fact = f
	case *fsmpb.Observation_DeviceGone:
		o.Fact = f
	case *fsmpb.Observation_ReplicaSeen:
		o.Fact = f
	case *fsmpb.Observation_DeviceGrown:
		o.Fact = f
	case *fsmpb.Observation_StepFailed:
		o.Fact = f
	}
	return o
}

// together, secondary, is what a host sees of two whole replicas.
func together(uuid uint64) ReplicaSeen {
	return ReplicaSeen{Disk: upToDate, PeerDisk: upToDate, Connection: connected, UUID: uuid}
}

// apart is what a host sees of a whole replica without its peer.
func apart(uuid uint64, connection fsmpb.ConnectionState) ReplicaSeen {
	return ReplicaSeen{Disk: upToDate, Connection: connection, UUID: uuid}
}

// bootOf is the node's current boot.
func (w *world) bootOf(node string) string {
	n, ok := w.s.Node(NodeID(node))
	require.True(w.t, ok)
	return n.Boot
}

// leg is the node's side of volume n.
func (w *world) leg(n int, node string) *Leg {
	w.t.Helper()
	l := w.volume(n).Leg(HostID("host-" + node))
	require.NotNil(w.t, l)
	return l
}

// now is the observation in the attachment and the generation that are current.
func (w *world) now(n int, node string, seen ReplicaSeen) ReplicaSeen {
	w.t.Helper()
	seen.Boot, seen.Attach, seen.Generation = w.bootOf(node), w.leg(n, node).Attach, w.volume(n).Replication.Generation
	return seen
}

// says reports an observation as it is, twice.
func (w *world) says(n int, node string, seen ReplicaSeen) {
	w.t.Helper()
	r := &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Observations: []*fsmpb.Observation{
		observed(n, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}),
	}}
	w.twice("node/"+node, r)
}

// sees reports an observation of now, twice.
func (w *world) sees(n int, node string, seen ReplicaSeen) {
	w.t.Helper()
	w.says(n, node, w.now(n, node, seen))
}

func (w *world) attach(n int, node string, attach uint64) {
	w.t.Helper()
	w.twice("node/"+node, &fsmpb.AttachReplica{VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Attach: attach})
}

// setPrimary asks for volume n on the node, with what it sees now.
func (w *world) setPrimary(n int, node string, seen ReplicaSeen) *fsmpb.SetPrimary {
	w.t.Helper()
	c := &fsmpb.SetPrimary{
		VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Seen: w.now(n, node, seen).Proto(),
	}
	if p := w.volume(n).Publication(NodeID(node)); p != nil {
		c.Epoch = p.Epoch.proto()
	}
	return c
}

// outdate is the node's question of now.
func (w *world) outdate(n int, node string, seen ReplicaSeen) *fsmpb.Outdate {
	w.t.Helper()
	return &fsmpb.Outdate{
		VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node),
		Generation: w.volume(n).Replication.Generation, Seen: w.now(n, node, seen).Proto(),
	}
}

// primary publishes volume n to the node, and has it primary and connected.
func (w *world) primary(n int, node string, uuid uint64) {
	w.t.Helper()
	w.ok("controller/c1", publish(n, node))
	w.ok("node/"+node, w.setPrimary(n, node, together(uuid)))
	seen := together(uuid)
	seen.Primary = true
	w.sees(n, node, seen)
	for _, r := range w.volume(n).Replicas {
		if string(r.Node) != node {
			w.sees(n, string(r.Node), together(uuid))
		}
	}
	require.True(w.t, w.s.PrimaryDone(w.volume(n), NodeID(node)))
}

// reboot registers the node's next boot.
func (w *world) reboot(node string) {
	w.t.Helper()
	r := replicating(node)
	r.BootId = w.bootOf(node) + "+"
	w.ok("node/"+node, r)
}

// away says that the node cannot be reached.
func (w *world) away(node string, away bool) {
	w.t.Helper()
	w.twice("controller/c1", &fsmpb.SetNodeReachable{NodeId: node, HostId: "host-" + node, Reachable: !away})
}

// unstaged is the node's word that nothing of volume n is open, under the epoch.
func (w *world) unstaged(n int, node string, epoch Epoch) {
	w.t.Helper()
	sequence := w.volume(n).Replica(HostID("host-"+node)).Sequence + 1
	w.ok("node/"+node, &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Observations: []*fsmpb.Observation{
		{VolumeId: volumeID(n), Epoch: epoch.proto(), Sequence: sequence, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}},
	}})
}
