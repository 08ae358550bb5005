package admin

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newSitesEnv has node n1 at site A and node n2 at site B, with a controller for each.
func newSitesEnv(t *testing.T) *env {
	w := newEnv(t)
	for i, site := range []string{"A", "B"} {
		r := w.registration(fmt.Sprint("n", i+1))
		r.Site = site
		w.mustApply(&fsmpb.Command{Actor: "node/" + r.GetNodeId(), Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
		w.mustApply(&fsmpb.Command{Actor: "controller/c" + site, Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{
			Name: "c" + site, MemberId: "member of " + site, Site: site}}})
	}
	return w
}

// plainAt creates a Ready volume without DRBD at site A.
func (w *env) plainAt(n int) fsm.VolumeID {
	w.t.Helper()
	id := w.createAtA(n, &fsmpb.CreateVolume{})
	w.reportReplica("n1", id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	return id
}

func (w *env) createAtA(n int, c *fsmpb.CreateVolume) fsm.VolumeID {
	w.t.Helper()
	c.VolumeId, c.Name = fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n), fmt.Sprintf("pvc-%d", n)
	c.Fingerprint, c.RequiredBytes, c.Capabilities = []byte("f"), 1<<30, []*fsmpb.Capability{capability()}
	w.mustApply(&fsmpb.Command{Actor: "controller/cA", Site: "A", Body: &fsmpb.Command_CreateVolume{CreateVolume: c}})
	return fsm.VolumeID(c.GetVolumeId())
}

// acrossSites creates a Ready volume with a replica at each site, both of which are up to date and connected.
func (w *env) acrossSites(n int) fsm.VolumeID {
	w.t.Helper()
	id := w.createAtA(n, &fsmpb.CreateVolume{Replicas: 2, Sites: []string{"A", "B"}})
	for _, node := range []string{"n1", "n2"} {
		w.attach(node, id)
	}
	w.connectReplicas(id, "n1", "n2")
	require.IsType(w.t, fsm.Ready{}, w.volume(id).Phase)
	return id
}

// replicated is acrossSites with its replication enabled, site A being primary.
func (w *env) replicated(n int) fsm.VolumeID {
	w.t.Helper()
	id := w.acrossSites(n)
	w.carryOut(&adminpb.PlanRequest{Verb: enableReplication, Volume: string(id), Site: "A", PeerSite: "B"})
	return id
}

func (w *env) publishAtA(id fsm.VolumeID) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "controller/cA", Site: "A", Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
		VolumeId: string(id), NodeId: "n1", Capability: capability()}}})
}

// lag publishes a volume to n1, which goes on alone: the replica on n2 is outdated.
func (w *env) lag(id fsm.VolumeID) {
	w.t.Helper()
	w.publishAtA(id)
	seen := w.seen(id, connected)
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1", BootId: "boot", Epoch: w.volume(id).Publications()[0].Epoch.Proto(), Seen: seen.Proto()}}})
	seen = w.seen(id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
	seen.Primary = true
	out := w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_Outdate{Outdate: &fsmpb.Outdate{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1", BootId: "boot", Generation: w.volume(id).Replication.Generation, Seen: seen.Proto()}}})
	require.Equal(w.t, fsmpb.Verdict_VERDICT_PEER_OUTDATED, out.GetVerdict())
	w.observeReplica("n2", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
}

// seen is an observation of a replica that is up to date, in the current generation.
func (w *env) seen(id fsm.VolumeID, connection fsmpb.ConnectionState) fsm.ReplicaObservation {
	seen := fsm.ReplicaObservation{Boot: "boot", Attachment: 1, Connection: connection, Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, UUID: 0x10,
		Generation: w.volume(id).Replication.Generation}
	if seen.Connected() {
		seen.PeerDisk = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	return seen
}

// relationOf is how the lists show a volume's relation.
func (w *env) relationOf(id fsm.VolumeID) *adminpb.Relation {
	w.t.Helper()
	resp, err := w.server.Volumes(w.t.Context(), &adminpb.VolumesRequest{Volume: string(id)})
	require.NoError(w.t, err)
	return resp.GetVolumes()[0].GetRelation()
}
