package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// recordedFailure is what a host reports after a loss of power, whose record says that the disk failed before.
func recordedFailure(attachment uint64) ReplicaObservation {
	return ReplicaObservation{Unconfigured: true, FailedAttachment: attachment}
}

// S67, S71: what the host recorded before it lost its power is as good as what it reports at once: until all of
// the disk was copied again it is no copy for which another replica may go.
func TestS67_ARecordedFailureIsReportedLater(t *testing.T) {
	for level, failed := range map[uint32]uint64{Level1: 0, Level2: 1} {
		w := newPairAt(t, level)
		w.readyReplicated(1, createReplicated(1, protocolC))
		w.primary(1, "n1", 7)
		w.reboot("n2")
		seen := recordedFailure(1)
		if level < Level2 {
			seen.FailedAttachment = 0 // the field is not known before
		}
		for range 2 {
			w.reportCurrent(1, "n2", seen)
			require.Equal(t, failed, w.replicaSync(1, "n2").DiskFailed, "level %d", level)
		}
		require.NoError(t, w.s.Check())
	}
}

func TestS71_AReplicaIsNotRemovedForOneWhoseHostRecordedAFailure(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.reboot("n2")
	w.reportCurrent(1, "n2", recordedFailure(1))
	w.rejected(Precondition, controller, removeReplica("n1"))
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.True(t, desired.Replication.Peer.Incomplete)
}

// S67: a report that is late says nothing of a disk that was copied and attached again since.
func TestS67_ALateReportOfARecordedFailureDoesNotCount(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.reboot("n2")
	w.reportCurrent(1, "n2", recordedFailure(1))
	w.ok("node/n2", attachBlank("n2", w.bootOf("n2"), 2))
	w.reportCurrent(1, "n1", inSyncObservation(9))
	w.reportCurrent(1, "n2", inSyncObservation(9))
	require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
	w.reportCurrent(1, "n2", recordedFailure(1))
	require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
}

// S67: while the volume is being created no disk has content that could be lacking.
func TestS67_NoFailureIsRecordedBeforeTheInitialSync(t *testing.T) {
	w := newPairAt(t, Level2)
	w.ok(controller, createReplicated(1, protocolC))
	w.attach(1, "n2", 1)
	w.reportCurrent(1, "n2", recordedFailure(1))
	require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
}

// S5, S7: the grant says that the replica is up to date. What its host saw before, and reports late, is not of the
// replica that it has now.
func TestS5_AnObservationOfBeforeTheGrantDoesNotCount(t *testing.T) {
	for level, counts := range map[uint32]bool{Level1: true, Level2: false} {
		w := newPairAt(t, level)
		w.readyReplicated(1, createReplicated(1, protocolC))
		before := w.volume(1).Replication.Generation
		w.primary(1, "n1", 7)
		w.changeVolume(func(v *Volume) {
			*v = v.withReplication()
			v.ActiveReplica("host-n1").Observed = ReplicaObservation{} // nothing was reported since the grant
		})
		late := ReplicaObservation{Boot: w.bootOf("n1"), Unconfigured: true, Generation: before}
		w.reportObservation(1, "n1", late)
		require.Equal(t, !counts, w.replicaSync(1, "n1").UpToDate, "level %d", level)
	}
}
