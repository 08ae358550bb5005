package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestDegradedVolumesAreThoseMissingAReplica(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange   func(l *testState)
		want      []degradedVolume
		resyncing int
	}{
		"none, with both hosts there": {arrange: func(*testState) {}},
		"its host is unreachable, and the other one is not connected to it": {
			arrange: func(l *testState) {
				l.setReachable("n2", false)
				l.reportReplica("n1", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
			},
			want: []degradedVolume{{volume: volumeID, node: "n2", host: "host-n2"}}},
		"S8: the other is still connected to it": {
			arrange: func(l *testState) { l.setReachable("n2", false) },
			want:    []degradedVolume{{volume: volumeID, node: "n2", host: "host-n2", writeRisk: "the replica on host-n1 is connected to it"}}},
		"both hosts are unreachable: only an operator helps": {arrange: func(l *testState) {
			l.setReachable("n1", false)
			l.setReachable("n2", false)
		}},
		"its host is lost": {
			arrange: func(l *testState) {
				l.mustApply("admin/a", &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2"}}})
			},
			want: []degradedVolume{{volume: volumeID}}},
		"another replica is resynchronising": {
			arrange: func(l *testState) {
				l.mustApply("admin/a", &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2"}}})
				l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: volumeID}}})
			}, resyncing: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestState(t)
			l.registerReplicating("n1")
			l.registerReplicating("n2")
			l.createReplicated()
			l.registerReplicating("n3")
			tc.arrange(l)
			for range 2 {
				got, resyncing := degradedVolumes(l.state)
				require.Equal(t, tc.want, got)
				require.Equal(t, tc.resyncing, resyncing)
			}
		})
	}
}

// TestTheReplicaOfAnAbsentHostIsReplacedThroughTheLog goes through the log: the replica of the
// unreachable host is removed, another is added, and the old host comes back
// and deletes its own.
func TestTheReplicaOfAnAbsentHostIsReplacedThroughTheLog(t *testing.T) {
	l := newTestState(t)
	l.registerReplicating("n1")
	l.registerReplicating("n2")
	l.createReplicated()
	m := l.newMonitor(&testPoller{}, MonitorConfig{Interval: time.Second, ReplaceAfter: time.Minute})
	second := 0
	passSeconds := func(seconds int) {
		for range seconds {
			x := pollAt(second)
			second++
			m.replaceReplicas(t.Context(), x)
		}
	}
	l.setReachable("n2", false)
	l.reportReplica("n1", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
	passSeconds(200)
	require.Len(t, l.volume().ActiveReplicas(), 2, "there is no room elsewhere, so nothing is removed")

	l.registerReplicating("n3")
	passSeconds(71)
	require.Equal(t, fsm.ReplicaLeaving, l.volume().Replica("host-n2").State)
	passSeconds(10)
	require.Equal(t, fsm.ReplicaPlanned, l.volume().Replica("host-n3").State, "it does not wait for the unreachable host")
	l.attachReplica("n3")
	l.reportConnected("n1", "n3")
	require.Nil(t, l.volume().Operation, "no replica is missing")
	passSeconds(100)

	l.setReachable("n2", true)
	d, ok := l.state.DesiredVolume("n2", volumeID)
	require.True(t, ok)
	require.Equal(t, fsm.GoalRemove, d.Goal)
	l.reportFacts("n2", &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
	require.Nil(t, l.volume().Replica("host-n2"))
	require.Len(t, l.volume().ActiveReplicas(), 2)
	require.NoError(t, l.state.Check())
}
