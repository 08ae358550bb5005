package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// fakeState is a state without a Raft member.
type fakeState struct {
	st    *fsm.State
	index uint64
}

func (s *fakeState) View(fn func(*fsm.State) error) error    { return fn(s.st) }
func (s *fakeState) Fork() *fsm.State                        { return s.st.Fork() }
func (s *fakeState) Watch(raftnode.Interest) *raftnode.Watch { return nil }

func (s *fakeState) apply(t *testing.T, actor string, cmd *fsmpb.Command) {
	t.Helper()
	s.index++
	cmd.Actor, cmd.RequestId, cmd.ProposedIndex = actor, fmt.Appendf(nil, "%016d", s.index), s.index-1
	cmd.ProposedAt, cmd.SchemaVersion = time.Unix(1000, 0).UnixNano(), fsm.LeastLevel(cmd)
	require.NoError(t, fsm.Err(s.st.Apply(s.index, cmd).Outcome))
}

func (s *fakeState) create(t *testing.T, n int, claim *fsmpb.Claim) fsm.VolumeID {
	id := fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n)
	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: fmt.Sprint("v", n), Claim: claim, RequiredBytes: 1 << 20, Capabilities: []*fsmpb.Capability{{Mode: 1, FsType: "ext4"}}}}})
	return fsm.VolumeID(id)
}

func (s *fakeState) report(t *testing.T, id fsm.VolumeID, o *fsmpb.Observation) {
	t.Helper()
	o.VolumeId = string(id)
	s.apply(t, "node/n1", &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "h", BootId: "b", Observations: []*fsmpb.Observation{o}}}})
}

func newFakeState(t *testing.T) *fakeState {
	s := &fakeState{st: fsm.New()}
	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{ClusterId: "c", IncarnationId: make([]byte, 16), FeatureLevel: fsm.MaxFeatureLevel}}})
	s.apply(t, "node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "h", BootId: "b", FeatureLevel: fsm.MaxFeatureLevel, Pools: []*fsmpb.Pool{{PoolId: "p", Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}}}}})
	return s
}

// gatherVolumeInfo returns the series of volumes, by volume id, and how many are left out.
func gatherVolumeInfo(t *testing.T, i *volumeInfo) (all map[string]map[string]string, unlisted float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(i))
	families, err := registry.Gather()
	require.NoError(t, err)
	all = map[string]map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "holdfast_volume_info" {
				unlisted = m.GetGauge().GetValue()
				continue
			}
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			all[labels["volume_id"]] = labels
		}
	}
	return all, unlisted
}

// TestVolumeInfoNamesTheClaimOfTroubledVolumes: volumes that need attention have a series with their claim, others have none.
func TestVolumeInfoNamesTheClaimOfTroubledVolumes(t *testing.T) {
	s := newFakeState(t)
	i := newVolumeInfo(s)
	now := time.Unix(1000, 0)
	i.now = func() time.Time { return now }
	id := s.create(t, 1, &fsmpb.Claim{Name: "data", Namespace: "shop", Volume: "pv-1"})
	requireReason := func(why string) {
		t.Helper()
		for _, update := range []func(){func() { i.update(s.st, id) }, func() { i.rebuild(s.st) }} {
			update()
			all, unlisted := gatherVolumeInfo(t, i)
			require.Zero(t, unlisted)
			if why == "" {
				require.Empty(t, all)
				continue
			}
			require.Equal(t, map[string]map[string]string{string(id): {"volume_id": string(id), "namespace": "shop", "pvc": "data", "pv": "pv-1", "why": why}}, all)
		}
	}
	requireReason("") // it was just begun
	now = now.Add(2 * longRunning)
	requireReason("create running")
	s.report(t, id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 20}}})
	requireReason("")
	s.report(t, id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{Detail: "no file"}}})
	requireReason("condition")
	s.apply(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(id)}}})
	s.report(t, id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
	requireReason("")
}

func TestVolumeInfoIsBounded(t *testing.T) {
	s := newFakeState(t)
	i := newVolumeInfo(s)
	for n := range maxVolumeInfoSeries + 7 {
		s.create(t, n+1, nil)
	}
	i.rebuild(s.st)
	all, unlisted := gatherVolumeInfo(t, i) // they began in the past
	require.Len(t, all, maxVolumeInfoSeries)
	require.EqualValues(t, 7, unlisted)
}
