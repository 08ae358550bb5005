package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// converting is a cluster with a plain volume at site A, on n1, that is being converted: n2 is at site B.
func converting(t *testing.T) *testState {
	t.Helper()
	l := newTestState(t)
	for node, site := range map[string]string{"n1": "A", "n2": "B"} {
		r := register(node)
		r.Site = site
		r.Replication = &fsmpb.Replication{Address: "192.0.2.1", PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}
		l.applyFromNode(node, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
	}
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{Name: "a", MemberId: "id-a", Site: "A"}}})
	l.mustApply("controller/a", &fsmpb.Command{Site: "A", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: volumeID, Name: "v1", RequiredBytes: 1 << 30,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
	}}})
	l.deviceCreated("n1")
	l.mustApply("controller/a", &fsmpb.Command{Site: "A", Body: &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{
		Source: &fsmpb.ReplicationSource{VolumeId: volumeID}, PeerSite: "B",
	}}})
	require.NotNil(t, l.volume().Replication.Conversion)
	return l
}

func (l *testState) deviceCreated(node string) {
	l.t.Helper()
	l.reportFacts(node, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
}

// S55: the leader undoes a conversion that takes too long, or that cannot go on, once; and no other.
func TestS55_AConversionThatIsNotDoneIsUndone(t *testing.T) {
	const timeout = time.Minute
	for name, tc := range map[string]struct {
		happens func(*testState)
		after   time.Duration
		want    bool
	}{
		"in time":                      {func(*testState) {}, timeout - 1, false},
		"too late":                     {func(*testState) {}, timeout, true},
		"too late at the content, too": {func(l *testState) { l.deviceCreated("n2") }, timeout, true},
		"its host has no room": {func(l *testState) {
			l.deviceCreated("n2")
			l.reportFacts("n1", &fsmpb.Observation{Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{
				Step: "change", Error: "no space left on device", Final: true, OperationId: uint64(l.volume().Operation.ID),
			}}})
		}, 0, true},
		"there is no second replica": {func(l *testState) {
			l.reportFacts("n2", &fsmpb.Observation{Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{
				Step: "create", Error: "no space left on device", Final: true, NoSpace: true, OperationId: uint64(l.volume().Operation.ID),
			}}})
		}, 0, true},
		"its host is away": {func(l *testState) { l.setReachable("n2", false) }, 0, false},
		"it is being undone": {func(l *testState) {
			l.deviceCreated("n2")
			l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_CancelConversion{CancelConversion: &fsmpb.CancelConversion{
				VolumeId: volumeID, Began: l.volume().Replication.Conversion.Began}}})
		}, 2 * timeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := converting(t)
			started := l.volume().OperationOf(fsm.OpReplicaChange).Started
			tc.happens(l)
			m := l.newMonitor(&testPoller{}, MonitorConfig{Interval: 30 * time.Second, ConvertTimeout: timeout})
			m.now = func() time.Time { return started.Add(tc.after) }
			require.Equal(t, tc.want, len(overdueConversions(l.state, m.now(), timeout)) > 0)
			for range 2 {
				m.cancelConversions(t.Context())
				require.Empty(t, overdueConversions(l.state, m.now(), timeout))
			}
			if r := l.volume().Replication; tc.want && r != nil {
				require.True(t, r.Conversion.Undoing)
			}
		})
	}
}
