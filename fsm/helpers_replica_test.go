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

// newPair is a world of the nodes n1 and n2, both of which hold replicas.
func newPair(t testing.TB) *world { return newPairAt(t, MaxFeatureLevel) }

// newPairAt is newPair at a feature level.
func newPairAt(t testing.TB, level uint32) *world {
	w := &world{t: t, s: New()}
	first := bootstrap()
	first.FeatureLevel = level
	w.ok("controller/c1", first)
	w.ok("node/n1", replicating("n1"))
	w.ok("node/n2", replicating("n2"))
	return w
}

// newReplicated is such a world with volume 1, whose initial sync is done: both replicas
// have the content 7.
func newReplicated(t testing.TB, protocol fsmpb.Protocol) *world {
	return newReplicatedAt(t, MaxFeatureLevel, protocol)
}

// newReplicatedAt is newReplicated at a feature level.
func newReplicatedAt(t testing.TB, level uint32, protocol fsmpb.Protocol) *world {
	w := newPairAt(t, level)
	w.readyReplicated(1, createReplicated(1, protocol))
	return w
}

// readyReplicated creates volume n and reports its initial sync.
func (w *world) readyReplicated(n int, c *fsmpb.CreateVolume) *Volume {
	return w.readyReplicatedBy("controller/c1", n, c)
}

// readyReplicatedBy is readyReplicated with the volume created by that controller.
func (w *world) readyReplicatedBy(actor string, n int, c *fsmpb.CreateVolume) *Volume {
	w.t.Helper()
	w.ok(actor, c)
	var nodes []string
	for _, r := range w.volume(n).Replicas {
		nodes = append(nodes, string(r.Node))
	}
	for _, node := range nodes {
		w.attach(n, node, 1)
		w.report(node, volumeObservation(n, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(n).Size}}))
	}
	for _, node := range nodes {
		w.reportCurrent(n, node, inSyncObservation(7))
	}
	require.Equal(w.t, Ready{}, w.volume(n).Phase)
	for _, node := range nodes {
		w.reportCurrent(n, node, inSyncObservation(7)) // again, of the generation that began with the initial sync
	}
	return w.volume(n)
}

// volumeObservation is a fact about volume n.
func volumeObservation(n int, fact any) *fsmpb.Observation {
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

// inSyncObservation is what a secondary observes of two connected replicas that are up to date.
func inSyncObservation(uuid uint64) ReplicaObservation {
	return ReplicaObservation{Disk: upToDate, PeerDisk: upToDate, Connection: connected, UUID: uuid}
}

// disconnectedObservation is what a host observes of an UpToDate replica without its peer.
func disconnectedObservation(uuid uint64, connection fsmpb.ConnectionState) ReplicaObservation {
	return ReplicaObservation{Disk: upToDate, Connection: connection, UUID: uuid}
}

// bootOf is the node's current boot.
func (w *world) bootOf(node string) string {
	n, ok := w.s.Node(NodeID(node))
	require.True(w.t, ok)
	return n.Boot
}

// replicaSync is the node's replica of volume n.
func (w *world) replicaSync(n int, node string) *Replica {
	w.t.Helper()
	l := w.volume(n).ActiveReplica(HostID("host-" + node))
	require.NotNil(w.t, l)
	return l
}

// currentObservation is the observation in the current boot, attachment and generation.
func (w *world) currentObservation(n int, node string, observed ReplicaObservation) ReplicaObservation {
	w.t.Helper()
	observed.Boot, observed.Attachment, observed.Generation = w.bootOf(node), w.replicaSync(n, node).Attachment, w.volume(n).Replication.Generation
	return observed
}

// reportObservation reports an observation as it is, twice.
func (w *world) reportObservation(n int, node string, observed ReplicaObservation) {
	w.t.Helper()
	r := &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Observations: []*fsmpb.Observation{
		volumeObservation(n, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: observed.Proto()}),
	}}
	w.twice("node/"+node, r)
}

// reportCurrent reports the observation as a current one, twice.
func (w *world) reportCurrent(n int, node string, observed ReplicaObservation) {
	w.t.Helper()
	w.reportObservation(n, node, w.currentObservation(n, node, observed))
}

func (w *world) attach(n int, node string, attach uint64) {
	w.t.Helper()
	w.twice("node/"+node, &fsmpb.AttachReplica{VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Attach: attach})
}

// setPrimary requests a grant for volume n on the node, with the observation as a current one.
func (w *world) setPrimary(n int, node string, observed ReplicaObservation) *fsmpb.SetPrimary {
	w.t.Helper()
	c := &fsmpb.SetPrimary{
		VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Seen: w.currentObservation(n, node, observed).Proto(),
	}
	if p := w.volume(n).Publication(NodeID(node)); p != nil {
		c.Epoch = p.Epoch.Proto()
	}
	return c
}

// outdate is the node's request to outdate its peer, under the current generation.
func (w *world) outdate(n int, node string, observed ReplicaObservation) *fsmpb.Outdate {
	w.t.Helper()
	return &fsmpb.Outdate{
		VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node),
		Generation: w.volume(n).Replication.Generation, Seen: w.currentObservation(n, node, observed).Proto(),
	}
}

// primary publishes volume n to the node, and has it primary and connected.
func (w *world) primary(n int, node string, uuid uint64) {
	w.t.Helper()
	w.ok("controller/c1", publish(n, node))
	w.ok("node/"+node, w.setPrimary(n, node, inSyncObservation(uuid)))
	observed := inSyncObservation(uuid)
	observed.Primary = true
	w.reportCurrent(n, node, observed)
	for _, r := range w.volume(n).Replicas {
		if string(r.Node) != node {
			w.reportCurrent(n, string(r.Node), inSyncObservation(uuid))
		}
	}
	require.True(w.t, w.s.PromotionDone(w.volume(n), NodeID(node)))
}

// reboot registers the node's next boot.
func (w *world) reboot(node string) {
	w.t.Helper()
	r := replicating(node)
	r.BootId = w.bootOf(node) + "+"
	w.ok("node/"+node, r)
}

// setUnreachable records whether the node is unreachable.
func (w *world) setUnreachable(node string, unreachable bool) {
	w.t.Helper()
	w.twice("controller/c1", &fsmpb.SetNodeReachable{NodeId: node, HostId: "host-" + node, Reachable: !unreachable})
}

// unstaged reports from the node that nothing of volume n is open, under the epoch.
func (w *world) unstaged(n int, node string, epoch Epoch) {
	w.t.Helper()
	sequence := w.volume(n).Replica(HostID("host-"+node)).Sequence + 1
	w.ok("node/"+node, &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Observations: []*fsmpb.Observation{
		{VolumeId: volumeID(n), Epoch: epoch.Proto(), Sequence: sequence, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}},
	}})
}

// syncsOf are the ReplicaSyncs of the active replicas, which are on the hosts, in this order.
func syncsOf(v *Volume, hosts ...HostID) (syncs []ReplicaSync) {
	for i, r := range v.ActiveReplicas() {
		if i >= len(hosts) || r.Host != hosts[i] {
			return nil
		}
		syncs = append(syncs, *r.ReplicaSync)
	}
	return syncs
}
