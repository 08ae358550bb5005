package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyFromNode has a node's own command applied.
func (l *testCluster) applyFromNode(node string, cmd *fsmpb.Command) {
	l.t.Helper()
	l.mustApply("node/"+node, cmd)
}

// registerReplicating registers a host that holds replicas of replicated volumes.
func (l *testCluster) registerReplicating(node string) {
	l.t.Helper()
	r := register(node)
	r.Replication = &fsmpb.Replication{Address: "192.0.2.1", PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}
	l.applyFromNode(node, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
}

// reportFacts has a host report facts of the volume.
func (l *testCluster) reportFacts(node string, facts ...*fsmpb.Observation) {
	l.t.Helper()
	for _, o := range facts {
		o.VolumeId = volumeID
		l.applyFromNode(node, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
			NodeId: node, HostId: "host-" + node, BootId: "boot-1", Observations: []*fsmpb.Observation{o}}}})
	}
}

// reportReplica has a host report its replica; both are up to date when it is connected.
func (l *testCluster) reportReplica(node string, connection fsmpb.ConnectionState) {
	l.t.Helper()
	observed := fsm.ReplicaObservation{
		Boot: "boot-1", Attachment: 1, Connection: connection, Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, UUID: 0x10,
		Generation: l.volume().Replication.Generation,
	}
	if observed.Connected() {
		observed.PeerDisk = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	l.reportFacts(node, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: observed.Proto()}})
}

func (l *testCluster) volume() *fsm.Volume {
	l.t.Helper()
	v, ok := l.reference.Volume(volumeID)
	require.True(l.t, ok)
	return v
}

// attachReplica attaches a replica that its host created.
func (l *testCluster) attachReplica(node string) {
	l.t.Helper()
	l.applyFromNode(node, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: volumeID, NodeId: node, HostId: "host-" + node, BootId: "boot-1", Attach: 1}}})
	l.reportFacts(node, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
}

const stateConnected = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED

// createReplicated creates a replicated volume on n1 and n2, and makes it ready.
func (l *testCluster) createReplicated() {
	l.t.Helper()
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: volumeID, Name: "v1", RequiredBytes: 1 << 30, Replicas: 2,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
	}}})
	for _, node := range []string{"n1", "n2"} {
		l.attachReplica(node)
	}
	l.reportConnected("n1", "n2")
	require.IsType(l.t, fsm.Ready{}, l.volume().Phase)
}

// reportConnected reports twice: the first report may begin a generation, under which both must report again.
func (l *testCluster) reportConnected(a, b string) {
	l.t.Helper()
	for range 2 {
		l.reportReplica(a, stateConnected)
		l.reportReplica(b, stateConnected)
	}
}

func TestS20_ANodeProposesWhatItsOwnReplicaDoes(t *testing.T) {
	l := newTestCluster(t, 3)
	l.registerReplicating("n1")
	l.registerReplicating("n2")
	l.createReplicated()
	n := l.startHost("n1", l.members[2]) // any member takes proposals
	eventually(t, "the session is up", n.client.Connected)
	attach := &fsmpb.AttachReplica{VolumeId: volumeID, NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Attach: 2}
	for range 2 {
		_, err := n.client.Propose(t.Context(), &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: attach}})
		require.NoError(t, err)
		require.Equal(t, "node/n1", l.log[len(l.log)-1].GetActor())
	}
	outdate := &fsmpb.Outdate{VolumeId: volumeID, NodeId: "n1", HostId: "host-n1", BootId: "boot-1"}
	outcome, err := n.client.Propose(t.Context(), &fsmpb.Command{Body: &fsmpb.Command_Outdate{Outdate: outdate}})
	require.NoError(t, err)
	require.Equal(t, fsmpb.Verdict_VERDICT_REFUSED, outcome.GetVerdict(), "S8: no grant, no Outdate")
	eventually(t, "the desired replica shows the attachment", func() bool {
		for _, u := range n.received() {
			for _, w := range u.Volumes {
				if w.Replication != nil && w.Replication.Attachment == 2 {
					return w.Replication.Peer.Node == "n2"
				}
			}
		}
		return false
	})
}
