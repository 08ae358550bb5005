package controller

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// gatherGauges returns the values of a collector's series, by name and labels.
func gatherGauges(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			all[name] = m.GetGauge().GetValue()
		}
	}
	return all
}

// TestMetricsOfCSIAddons follows volumes of two sites through a group, encryption, a key rotation, a reclaim and a
// fence that waits for a host that cannot be asked.
func TestMetricsOfCSIAddons(t *testing.T) {
	s := newFakeState(t)
	c := newAddonsCollector(s)
	want := map[string]float64{
		`holdfast_cluster_volumes{site="default"}`: 0, "holdfast_cluster_volume_groups": 0,
		`holdfast_cluster_fences{state="holds"}`: 0, `holdfast_cluster_fences{state="unfinished"}`: 0,
		"holdfast_cluster_encrypted_volumes": 0, "holdfast_cluster_key_rotations": 0, "holdfast_cluster_reclaims": 0,
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
	s.apply(t, "node/n2", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n2", HostId: "h2", BootId: "b", Site: "B", FeatureLevel: fsm.MaxFeatureLevel, Addresses: []string{"192.0.2.2"},
		Pools: []*fsmpb.Pool{{PoolId: "p2", Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}}}}})
	requireMetrics(map[string]float64{`holdfast_cluster_volumes{site="B"}`: 0})

	s.apply(t, "controller/cB", &fsmpb.Command{Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{Name: "cB", MemberId: "cB", Site: "B"}}})
	controllers := map[string]string{"default": "controller/c1", "B": "controller/cB"}
	capability := &fsmpb.Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}
	create := func(n int, site string, encrypted bool) string {
		id := fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n)
		s.apply(t, controllers[site], &fsmpb.Command{Site: site, Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
			VolumeId: id, Name: fmt.Sprint("v", n), RequiredBytes: 1 << 30, Encrypted: encrypted, Capabilities: []*fsmpb.Capability{capability}}}})
		return id
	}
	secret, atB, plain := create(1, "default", true), create(2, "B", false), create(3, "default", false)
	report := func(id string, o *fsmpb.Observation) { s.report(t, fsm.VolumeID(id), o) }
	s.apply(t, "node/n2", &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n2", HostId: "h2", BootId: "b", Observations: []*fsmpb.Observation{
		{VolumeId: atB, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}}}}}})
	for _, id := range []string{secret, plain} {
		report(id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	}
	requireMetrics(map[string]float64{`holdfast_cluster_volumes{site="default"}`: 2, `holdfast_cluster_volumes{site="B"}`: 1, "holdfast_cluster_encrypted_volumes": 1})

	stage := func(id string) *fsmpb.Epoch {
		s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{VolumeId: id, NodeId: "n1", Capability: capability}}})
		v, _ := s.st.Volume(fsm.VolumeID(id))
		epoch := v.Publications()[0].Epoch.Proto()
		s.apply(t, "node/n1", &fsmpb.Command{Body: &fsmpb.Command_StageVolume{StageVolume: &fsmpb.StageVolume{
			VolumeId: id, NodeId: "n1", HostId: "h", BootId: "b", Epoch: epoch, StagingPath: "/s" + id, Capability: capability,
			FsUuid: "6f1ed002-ab5c-4e29-b3b7-6a3b3d4e0001", LuksUuid: "luks", Sequence: 1}}})
		report(id, &fsmpb.Observation{Epoch: epoch, Sequence: 2, Fact: &fsmpb.Observation_HeaderMade{HeaderMade: &fsmpb.HeaderMade{LuksUuid: "luks"}}})
		report(id, &fsmpb.Observation{Epoch: epoch, Sequence: 3, Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{
			FsType: "ext4", FsUuid: "6f1ed002-ab5c-4e29-b3b7-6a3b3d4e0001"}}})
		report(id, &fsmpb.Observation{Epoch: epoch, Sequence: 4, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/s" + id}}})
		return epoch
	}
	epoch := stage(secret)
	s.apply(t, "node/n1", &fsmpb.Command{Body: &fsmpb.Command_BeginKeyRotation{BeginKeyRotation: &fsmpb.BeginKeyRotation{
		VolumeId: secret, NodeId: "n1", HostId: "h", BootId: "b", Epoch: epoch, Sequence: 5, Slots: []uint32{0}}}})
	requireMetrics(map[string]float64{"holdfast_cluster_key_rotations": 1})
	report(secret, &fsmpb.Observation{Epoch: epoch, Sequence: 6, Fact: &fsmpb.Observation_KeyAdded{KeyAdded: &fsmpb.KeyAdded{Slot: 1}}})
	report(secret, &fsmpb.Observation{Epoch: epoch, Sequence: 7, Fact: &fsmpb.Observation_KeyDropped{KeyDropped: &fsmpb.KeyDropped{Slot: 1}}})
	requireMetrics(map[string]float64{"holdfast_cluster_key_rotations": 0})

	epoch = stage(plain)
	report(plain, &fsmpb.Observation{Epoch: epoch, Sequence: 5, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: plain, NodeId: "n1"}}})
	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_BeginReclaim{BeginReclaim: &fsmpb.BeginReclaim{VolumeId: plain}}})
	requireMetrics(map[string]float64{"holdfast_cluster_reclaims": 1})

	s.apply(t, "controller/cB", &fsmpb.Command{Site: "B", Body: &fsmpb.Command_CreateVolumeGroup{CreateVolumeGroup: &fsmpb.CreateVolumeGroup{
		VolumeGroupId: "hg-00000000-0000-4000-8000-000000000001", Name: "g", VolumeIds: []string{atB}, MaxVolumes: 10}}})
	requireMetrics(map[string]float64{"holdfast_cluster_volume_groups": 1})

	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_FenceNetwork{FenceNetwork: &fsmpb.FenceNetwork{Cidrs: []string{"198.51.100.0/24"}}}})
	requireMetrics(map[string]float64{`holdfast_cluster_fences{state="holds"}`: 1})
}

// TestMetricsTellAnUnfinishedFence checks a fence of a host whose peer is still connected to it.
func TestMetricsTellAnUnfinishedFence(t *testing.T) {
	s := newFakeState(t)
	c := newAddonsCollector(s)
	const id, holds, unfinished = "hf-00000000-0000-4000-8000-000000000001", `holdfast_cluster_fences{state="holds"}`, `holdfast_cluster_fences{state="unfinished"}`
	nodes := []string{"n2", "n3"}
	both := func(fact func() *fsmpb.Observation) {
		for _, n := range nodes {
			o := fact()
			o.VolumeId = id
			s.apply(t, "node/"+n, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: n, HostId: "h" + n, BootId: "b", Observations: []*fsmpb.Observation{o}}}})
		}
	}
	capability := &fsmpb.Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}
	var at []*fsmpb.Topology
	for i, n := range nodes {
		s.apply(t, "node/"+n, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: n, HostId: "h" + n, BootId: "b", FeatureLevel: fsm.MaxFeatureLevel, Addresses: []string{fmt.Sprint("192.0.2.", i+2)},
			Pools:       []*fsmpb.Pool{{PoolId: "p" + n, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}},
			Replication: &fsmpb.Replication{Address: fmt.Sprint("192.0.2.", i+2), PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}}}})
		at = append(at, &fsmpb.Topology{Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: n}}})
	}
	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: "v", RequiredBytes: 1 << 30, Replicas: 2, Requisite: at, Capabilities: []*fsmpb.Capability{capability}}}})
	for _, n := range nodes {
		s.apply(t, "node/"+n, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{VolumeId: id, NodeId: n, HostId: "h" + n, BootId: "b", Attach: 1}}})
	}
	both(func() *fsmpb.Observation {
		return &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}}
	})
	for range 2 {
		both(func() *fsmpb.Observation {
			v, _ := s.st.Volume(id)
			seen := fsm.ReplicaObservation{Boot: "b", Attachment: 1, Connection: fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, UUID: 0x10, Generation: v.Replication.Generation,
				Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, PeerDisk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE}
			return &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}}
		})
	}
	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{VolumeId: id, NodeId: "n2", Capability: capability}}})
	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_FenceNetwork{FenceNetwork: &fsmpb.FenceNetwork{Cidrs: []string{"192.0.2.2/32"}}}})
	for range 2 {
		got := gatherGauges(t, c)
		require.Equal(t, []float64{0, 1}, []float64{got[holds], got[unfinished]})
	}
}
