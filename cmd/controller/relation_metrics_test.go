package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// twoSites is a state with node n2 at site A and n3 at site B.
type twoSites struct {
	*fakeState
	t *testing.T
}

func newTwoSites(t *testing.T) *twoSites {
	s := &twoSites{newFakeState(t), t}
	for i, n := range []string{"n2", "n3"} {
		s.apply(t, "node/"+n, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: n, HostId: "h" + n, BootId: "b", Site: []string{"A", "B"}[i], FeatureLevel: fsm.MaxFeatureLevel,
			Pools:       []*fsmpb.Pool{{PoolId: "p" + n, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}},
			Replication: &fsmpb.Replication{Address: fmt.Sprint("192.0.2.", i+2), PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}}}})
	}
	s.apply(t, "controller/cA", &fsmpb.Command{Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{Name: "cA", MemberId: "cA", Site: "A"}}})
	return s
}

func (s *twoSites) volume(id string) *fsm.Volume {
	v, ok := s.st.Volume(fsm.VolumeID(id))
	require.True(s.t, ok)
	return v
}

func (s *twoSites) createAtA(n int, c *fsmpb.CreateVolume) string {
	c.VolumeId, c.Name, c.RequiredBytes = fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n), fmt.Sprint("v", n), 1<<30
	c.Capabilities = []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}}
	s.apply(s.t, "controller/cA", &fsmpb.Command{Site: "A", Body: &fsmpb.Command_CreateVolume{CreateVolume: c}})
	return c.GetVolumeId()
}

func (s *twoSites) reportOf(node, id string, o *fsmpb.Observation) {
	o.VolumeId = id
	s.apply(s.t, "node/"+node, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: node, HostId: "h" + node, BootId: "b", Observations: []*fsmpb.Observation{o}}}})
}

func (s *twoSites) made(node, id string) {
	s.reportOf(node, id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
}

// replicated makes a volume with a replica at each site, and enables its replication at site A.
func (s *twoSites) replicated(n int) string {
	id := s.createAtA(n, &fsmpb.CreateVolume{Replicas: 2, Sites: []string{"A", "B"}})
	for _, node := range []string{"n2", "n3"} {
		s.apply(s.t, "node/"+node, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{VolumeId: id, NodeId: node, HostId: "h" + node, BootId: "b", Attach: 1}}})
		s.made(node, id)
	}
	for range 2 {
		s.see("n2", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)
		s.see("n3", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)
	}
	s.enable(id)
	return id
}

func (s *twoSites) seen(id string, connection fsmpb.ConnectionState) fsm.ReplicaObservation {
	seen := fsm.ReplicaObservation{Boot: "b", Attachment: 1, Connection: connection, UUID: 0x10, Generation: s.volume(id).Replication.Generation, Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE}
	if seen.Connected() {
		seen.PeerDisk = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	return seen
}

func (s *twoSites) see(node, id string, connection fsmpb.ConnectionState) {
	seen := s.seen(id, connection)
	s.reportOf(node, id, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}})
}

func source(id string) *fsmpb.ReplicationSource { return &fsmpb.ReplicationSource{VolumeId: id} }

func (s *twoSites) enable(id string) {
	s.apply(s.t, "admin/a", &fsmpb.Command{Site: "A", Body: &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{Source: source(id), PeerSite: "B"}}})
}

func (s *twoSites) promoteB(id string, force bool) {
	s.apply(s.t, "admin/a", &fsmpb.Command{Site: "B", Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: source(id), Force: force}}})
}

// goOnAlone publishes the volume at site A, whose host goes on without the other.
func (s *twoSites) goOnAlone(id string) {
	s.publish(id)
	seen := s.seen(id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)
	s.apply(s.t, "node/n2", &fsmpb.Command{Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{
		VolumeId: id, NodeId: "n2", HostId: "hn2", BootId: "b", Epoch: s.volume(id).Publications()[0].Epoch.Proto(), Seen: seen.Proto()}}})
	seen = s.seen(id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
	seen.Primary = true
	s.apply(s.t, "node/n2", &fsmpb.Command{Body: &fsmpb.Command_Outdate{Outdate: &fsmpb.Outdate{
		VolumeId: id, NodeId: "n2", HostId: "hn2", BootId: "b", Generation: s.volume(id).Replication.Generation, Seen: seen.Proto()}}})
	s.see("n3", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
}

func (s *twoSites) publish(id string) {
	s.apply(s.t, "controller/cA", &fsmpb.Command{Site: "A", Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
		VolumeId: id, NodeId: "n2", Capability: &fsmpb.Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}}}})
}

// TestMetricsOfReplication follows replications between two sites through a planned move, a takeover, a forced
// promotion and a conversion.
func TestMetricsOfReplication(t *testing.T) {
	s := newTwoSites(t)
	c := newRelationCollector(s)
	c.now = func() time.Time { return time.Unix(1030, 0) } // each entry is of 1000 s
	want := map[string]float64{
		`holdfast_cluster_replications{status="healthy"}`: 0, `holdfast_cluster_replications{status="degraded"}`: 0,
		`holdfast_cluster_replications{status="error"}`: 0, `holdfast_cluster_replications{status="unknown"}`: 0,
		`holdfast_cluster_replication_roles{role="primary"}`: 0, `holdfast_cluster_replication_roles{role="demoted"}`: 0, `holdfast_cluster_replication_roles{role="moving"}`: 0,
		`holdfast_cluster_conversions{state="converting"}`: 0, `holdfast_cluster_conversions{state="undoing"}`: 0,
		"holdfast_cluster_replications_ousted": 0, "holdfast_cluster_volumes_apart": 0, "holdfast_cluster_replication_unequal_seconds": 0,
	}
	requireMetrics := func(changes map[string]float64) {
		t.Helper()
		for name, value := range changes {
			want[name] = value
		}
		for range 2 {
			require.Equal(t, want, gatherGauges(t, c))
		}
	}
	requireMetrics(nil)
	moved, forced := s.replicated(1), s.replicated(2)
	requireMetrics(map[string]float64{`holdfast_cluster_replications{status="healthy"}`: 2, `holdfast_cluster_replication_roles{role="primary"}`: 2})

	s.apply(t, "admin/a", &fsmpb.Command{Site: "A", Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: source(moved)}}})
	requireMetrics(map[string]float64{`holdfast_cluster_replication_roles{role="primary"}`: 1, `holdfast_cluster_replication_roles{role="demoted"}`: 1})
	s.apply(t, "admin/a", &fsmpb.Command{Site: "A", Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: source(moved)}}})
	s.publish(moved)
	s.see("n2", moved, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)
	s.see("n3", moved, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)
	s.goOnAlone(forced)
	requireMetrics(map[string]float64{`holdfast_cluster_replications{status="healthy"}`: 1, `holdfast_cluster_replications{status="degraded"}`: 1,
		`holdfast_cluster_replication_roles{role="primary"}`: 2, `holdfast_cluster_replication_roles{role="demoted"}`: 0, "holdfast_cluster_replication_unequal_seconds": 30})

	converted := s.createAtA(3, &fsmpb.CreateVolume{})
	s.made("n2", converted)
	s.enable(converted)
	requireMetrics(map[string]float64{`holdfast_cluster_conversions{state="converting"}`: 1, `holdfast_cluster_replications{status="degraded"}`: 2, `holdfast_cluster_replication_roles{role="primary"}`: 3})

	s.apply(t, "controller/cA", &fsmpb.Command{Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: "n2", HostId: "hn2"}}})
	requireMetrics(map[string]float64{`holdfast_cluster_replications{status="healthy"}`: 0, `holdfast_cluster_replications{status="degraded"}`: 0, `holdfast_cluster_replications{status="unknown"}`: 3})
	s.promoteB(moved, false)
	requireMetrics(map[string]float64{`holdfast_cluster_replication_roles{role="primary"}`: 2, `holdfast_cluster_replication_roles{role="moving"}`: 1,
		`holdfast_cluster_replications{status="degraded"}`: 1, `holdfast_cluster_replications{status="unknown"}`: 2})
	s.see("n3", moved, fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE)
	s.promoteB(forced, true)
	requireMetrics(map[string]float64{`holdfast_cluster_replication_roles{role="primary"}`: 3, `holdfast_cluster_replication_roles{role="moving"}`: 0, "holdfast_cluster_replications_ousted": 2,
		"holdfast_cluster_volumes_apart": 1, `holdfast_cluster_replications{status="degraded"}`: 0, `holdfast_cluster_replications{status="unknown"}`: 1, `holdfast_cluster_replications{status="error"}`: 2})
}
