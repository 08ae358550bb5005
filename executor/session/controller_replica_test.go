package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyReport has a host report a fact of the volume.
func (l *testCluster) applyReport(node string, fact *fsmpb.Observation) {
	l.t.Helper()
	fact.VolumeId = volumeID
	l.mustApply("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
		NodeId: node, HostId: "host-" + node, BootId: "boot-1", Observations: []*fsmpb.Observation{fact}}}})
}

// createReplicated registers hosts that hold replicas, and creates a volume on them that is ready.
func (l *testCluster) createReplicated(nodes ...string) {
	l.t.Helper()
	for _, node := range nodes {
		r := register(node)
		r.Replication = &fsmpb.Replication{Address: "192.0.2.1", PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}
		l.mustApply("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
	}
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: volumeID, Name: "v1", RequiredBytes: 1 << 30, Replicas: 2,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
	}}})
	for _, node := range nodes {
		l.mustApply("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
			VolumeId: volumeID, NodeId: node, HostId: "host-" + node, BootId: "boot-1", Attach: 1}}})
		l.applyReport(node, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	}
	for range 2 { // the first reports may begin a generation, under which both must report again
		for _, node := range nodes {
			l.reportConnected(node)
		}
	}
}

// reportConnected has a host report its replica as connected, and both as up to date.
func (l *testCluster) reportConnected(node string) {
	l.t.Helper()
	v, ok := l.reference.Volume(volumeID)
	require.True(l.t, ok)
	observed := fsm.ReplicaObservation{
		Boot: "boot-1", Attachment: 1, UUID: 0x10, Generation: v.Replication.Generation, Connection: fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED,
		Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, PeerDisk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE,
	}
	l.applyReport(node, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: observed.Proto()}})
}

func TestS20_ANodeProposesWhatItsOwnReplicaDoes(t *testing.T) {
	l := newTestCluster(t, 3)
	l.createReplicated("n1", "n2")
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
			for _, d := range u.Volumes {
				if d.Replication != nil && d.Replication.Attachment == 2 {
					return d.Replication.Peer.Node == "n2"
				}
			}
		}
		return false
	})
}
