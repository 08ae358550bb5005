package admin

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const connected = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED

// newReplicatedEnv is a cluster whose hosts can have replicas of replicated volumes.
func newReplicatedEnv(t *testing.T, nodes ...string) *env {
	w := newEnv(t)
	for _, n := range nodes {
		w.register(n)
	}
	return w
}

func (w *env) register(n string) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "node/" + n, Body: &fsmpb.Command_RegisterNode{RegisterNode: w.registration(n)}})
}

// registration is the registration of a host that can have replicas.
func (w *env) registration(n string) *fsmpb.RegisterNode {
	return &fsmpb.RegisterNode{
		NodeId: n, HostId: "host-" + n, BootId: "boot", FeatureLevel: fsm.MaxFeatureLevel,
		Pools:       []*fsmpb.Pool{{PoolId: "pool-" + n, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}},
		Replication: &fsmpb.Replication{Address: "192.0.2.1", PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}}
}

// reportReplica applies a host's report with one observation of a replica.
func (w *env) reportReplica(node string, id fsm.VolumeID, o *fsmpb.Observation) {
	w.t.Helper()
	o.VolumeId = string(id)
	w.mustApply(&fsmpb.Command{Actor: "node/" + node, Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
		NodeId: node, HostId: "host-" + node, BootId: "boot", Observations: []*fsmpb.Observation{o}}}})
}

func (w *env) volume(id fsm.VolumeID) *fsm.Volume {
	w.t.Helper()
	v, ok := w.state.Volume(id)
	require.True(w.t, ok)
	return v
}

func (w *env) observeReplica(node string, id fsm.VolumeID, connection fsmpb.ConnectionState) {
	w.t.Helper()
	seen := fsm.ReplicaObservation{Boot: "boot", Attachment: 1, Connection: connection, Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, UUID: 0x10,
		Generation: w.volume(id).Replication.Generation}
	if seen.Connected() {
		seen.PeerDisk = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	w.reportReplica(node, id, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}})
}

func (w *env) connectReplicas(id fsm.VolumeID, a, b string) {
	w.t.Helper()
	for range 2 {
		w.observeReplica(a, id, connected)
		w.observeReplica(b, id, connected)
	}
}

func (w *env) attach(node string, id fsm.VolumeID) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "node/" + node, Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: string(id), NodeId: node, HostId: "host-" + node, BootId: "boot", Attach: 1}}})
	w.reportReplica(node, id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
}

// replicate creates a Ready volume with replicas on the first two nodes.
func (w *env) replicate(n int) fsm.VolumeID {
	w.t.Helper()
	id := fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n)
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: fmt.Sprintf("pvc-%d", n), Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Replicas: 2,
		Requisite:    []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: "n1"}}}, {Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: "n2"}}}},
		Capabilities: []*fsmpb.Capability{capability()}}}})
	for _, node := range []string{"n1", "n2"} {
		w.attach(node, fsm.VolumeID(id))
	}
	w.connectReplicas(fsm.VolumeID(id), "n1", "n2")
	require.IsType(w.t, fsm.Ready{}, w.volume(fsm.VolumeID(id)).Phase)
	return fsm.VolumeID(id)
}

func (w *env) setUnreachable(node string) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_SetNodeReachable{
		SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: node, HostId: "host-" + node}}})
}
