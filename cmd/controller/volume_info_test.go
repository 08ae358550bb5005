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

// stateSource is a state that nobody replicates.
type stateSource struct {
	st    *fsm.State
	index uint64
}

func (s *stateSource) View(fn func(*fsm.State) error) error    { return fn(s.st) }
func (s *stateSource) Fork() *fsm.State                        { return s.st.Fork() }
func (s *stateSource) Watch(raftnode.Interest) *raftnode.Watch { return nil }

func (s *stateSource) do(t *testing.T, actor string, cmd *fsmpb.Command) {
	t.Helper()
	s.index++
	cmd.Actor, cmd.RequestId, cmd.ProposedIndex = actor, fmt.Appendf(nil, "%016d", s.index), s.index-1
	cmd.ProposedAt, cmd.SchemaVersion = time.Unix(1000, 0).UnixNano(), fsm.LeastLevel(cmd)
	require.NoError(t, fsm.Err(s.st.Apply(s.index, cmd).Outcome))
}

func (s *stateSource) create(t *testing.T, n int, claim *fsmpb.Claim) fsm.VolumeID {
	id := fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n)
	s.do(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: fmt.Sprint("v", n), Claim: claim, RequiredBytes: 1 << 20, Capabilities: []*fsmpb.Capability{{Mode: 1, FsType: "ext4"}}}}})
	return fsm.VolumeID(id)
}

func (s *stateSource) says(t *testing.T, id fsm.VolumeID, o *fsmpb.Observation) {
	t.Helper()
	o.VolumeId = string(id)
	s.do(t, "node/n1", &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "h", BootId: "b", Observations: []*fsmpb.Observation{o}}}})
}

func newStateSource(t *testing.T) *stateSource {
	s := &stateSource{st: fsm.New()}
	s.do(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{ClusterId: "c", IncarnationId: make([]byte, 16), FeatureLevel: fsm.MaxFeatureLevel}}})
	s.do(t, "node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "h", BootId: "b", FeatureLevel: fsm.MaxFeatureLevel, Pools: []*fsmpb.Pool{{PoolId: "p", Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}}}}})
	return s
}

// series are what is told of volumes, by volume id, and how many are left out.
func series(t *testing.T, i *volumeInfo) (all map[string]map[string]string, more float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(i))
	families, err := registry.Gather()
	require.NoError(t, err)
	all = map[string]map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "holdfast_volume_info" {
				more = m.GetGauge().GetValue()
				continue
			}
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			all[labels["volume_id"]] = labels
		}
	}
	return all, more
}

// The claim is told for volumes that somebody should look at and for no others.
func TestVolumeInfoNamesTheClaimOfWhatIsInTrouble(t *testing.T) {
	s := newStateSource(t)
	i := newVolumeInfo(s)
	now := time.Unix(1000, 0)
	i.now = func() time.Time { return now }
	id := s.create(t, 1, &fsmpb.Claim{Name: "data", Namespace: "shop", Volume: "pv-1"})
	told := func(why string) {
		t.Helper()
		for _, look := range []func(){func() { i.look(s.st, id) }, func() { i.all(s.st) }} {
			look()
			all, more := series(t, i)
			require.Zero(t, more)
			if why == "" {
				require.Empty(t, all)
				continue
			}
			require.Equal(t, map[string]map[string]string{string(id): {"volume_id": string(id), "namespace": "shop", "pvc": "data", "pv": "pv-1", "why": why}}, all)
		}
	}
	told("") // it was just begun
	now = now.Add(2 * runningLong)
	told("create running")
	s.says(t, id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 20}}})
	told("")
	s.says(t, id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{Detail: "no file"}}})
	told("condition")
	s.do(t, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(id)}}})
	s.says(t, id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
	told("")
}

func TestVolumeInfoIsBounded(t *testing.T) {
	s := newStateSource(t)
	i := newVolumeInfo(s)
	for n := range maxVolumeInfo + 7 {
		s.create(t, n+1, nil)
	}
	i.all(s.st)
	all, more := series(t, i) // they began in the past
	require.Len(t, all, maxVolumeInfo)
	require.EqualValues(t, 7, more)
}
