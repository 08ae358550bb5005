package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S49: the leader deletes a kept copy its retention after it was superseded, and
// not while another replica is behind.
func TestS49_AKeptCopyEndsAfterItsRetention(t *testing.T) {
	const id = fsm.SnapshotID("hs-00000000-0000-4000-8000-0000000000aa")
	l := newTestState(t)
	l.registerReplicating("n1")
	l.registerReplicating("n2")
	l.createReplicated()
	l.reportFacts("n1", &fsmpb.Observation{SnapshotId: string(id), Fact: &fsmpb.Observation_SnapshotKept{
		SnapshotKept: &fsmpb.SnapshotKept{Attach: 1, PoolId: "pool-n1", CutUnixNano: 1},
	}})
	keptSnapshot := func() (n *fsm.Snapshot) {
		n, _ = l.state.Snapshot(id)
		return n
	}
	since := keptSnapshot().KeptCopy.Superseded
	require.False(t, since.IsZero())
	m := l.newMonitor(&testPoller{}, MonitorConfig{Interval: 30 * time.Second, KeptRetention: time.Hour})
	phaseAt := func(now time.Time) fsm.SnapshotPhase {
		m.now = func() time.Time { return now }
		m.expireKeptCopies(t.Context())
		return keptSnapshot().Phase
	}
	require.Equal(t, fsm.SnapshotReady, phaseAt(since.Add(time.Hour-1)))
	l.applyFromNode("n2", &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: volumeID, NodeId: "n2", HostId: "host-n2", BootId: "boot-1", Attach: 2}}})
	require.Equal(t, fsm.SnapshotReady, phaseAt(since.Add(time.Hour)), "the other replica is behind")
	require.Empty(t, expiredKeptCopies(l.state, since.Add(time.Hour), time.Hour))

	observed := bothUpToDate(l)
	observed.Attachment = 2
	l.reportFacts("n2", &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: observed.Proto()}})
	l.reportReplica("n1", stateConnected)
	require.Equal(t, fsm.SnapshotDeleting, phaseAt(since.Add(time.Hour)))

	m.KeptRetention = 0
	require.Equal(t, fsm.SnapshotDeleting, phaseAt(since.Add(time.Hour)))
}

// bothUpToDate is what a host observes of two replicas that are up to date.
func bothUpToDate(l *testState) fsm.ReplicaObservation {
	return fsm.ReplicaObservation{Boot: "boot-1", Attachment: 1, Connection: stateConnected, Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE,
		PeerDisk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, UUID: 0x10, Generation: l.volume().Replication.Generation}
}
