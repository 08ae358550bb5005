package fsm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
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

// S67, S71: two replicas of which neither can be copied from the other stay disconnected while nobody uses the volume, so
// that a decision for one of them can be carried out; the one that was chosen is copied then.
func TestS67_TwoReplicasThatLackWritesDoNotConnect(t *testing.T) {
	for name, lack := range map[string]func(own, peer *Replica){
		"both disks failed":                  func(own, peer *Replica) { own.DiskFailed, peer.DiskFailed = 1, 1 },
		"one is outdated, the other failed":  func(own, peer *Replica) { own.DiskFailed = 1; peer.markOutdated(nil) },
		"both are outdated":                  func(own, peer *Replica) { own.markOutdated(nil); peer.markOutdated(nil) },
		"one failed, the other one is whole": func(own, _ *Replica) { own.DiskFailed = 1 },
		"one was copied since":               func(own, peer *Replica) { own.DiskFailed, own.UpToDate = 1, true; peer.markOutdated(nil) },
		"one was made anew, and not copied": func(own, peer *Replica) {
			own.DiskFailed, own.Observed, peer.DiskFailed = 1, ReplicaObservation{Disk: inconsistent}, 1
		},
		"one was made anew, and its kernel copied it since": func(own, peer *Replica) {
			own.DiskFailed, own.Observed, peer.DiskFailed = 1, ReplicaObservation{Disk: upToDate}, 1
		},
	} {
		connects := strings.Contains(name, "whole") || strings.Contains(name, "since")
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.changeVolume(func(v *Volume) {
				*v = v.withReplication()
				for _, l := range v.ActiveReplicas() {
					l.UpToDate, l.Observed = false, ReplicaObservation{}
				}
				lack(v.ActiveReplica("host-n1"), v.ActiveReplica("host-n2"))
			})
			for _, node := range []NodeID{"n1", "n2"} {
				desired, _ := w.s.DesiredVolume(node, VolumeID(volumeID(1)))
				require.Equal(t, connects, desired.Replication.Connect, node)
			}
		})
	}
}

// S67, S8: a decision for a replica that its kernel does not call up to date is carried out without a peer whose disk failed, and
// which could not make it so.
func TestS67_AReplicaThatIsForcedLeavesAFailedPeer(t *testing.T) {
	for disk, connects := range map[fsmpb.DiskState]bool{consistent: false, upToDate: true} {
		w := newReplicated(t, protocolC)
		w.changeVolume(func(v *Volume) {
			*v = v.withReplication()
			own, failed := v.ActiveReplica("host-n1"), v.ActiveReplica("host-n2")
			own.UpToDate, own.Observed.Disk, own.Observed.PeerDisk = false, disk, diskless
			failed.DiskFailed, failed.UpToDate, failed.Observed.Disk = failed.Attachment, false, diskless
		})
		requireConnects := func(want bool) {
			for _, node := range []NodeID{"n1", "n2"} {
				desired, _ := w.s.DesiredVolume(node, VolumeID(volumeID(1)))
				require.Equal(t, want, desired.Replication.Connect, node)
			}
		}
		requireConnects(true)
		w.ok(admin, forcePrimary("n1", false))
		requireConnects(connects)
	}
}

// S67: whoever uses the volume keeps the connection: the other disk may have been copied, and that not be known yet.
func TestS67_AUserOfTwoFailedDisksKeepsItsConnection(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.changeVolume(func(v *Volume) {
		*v = v.withReplication()
		for _, l := range v.ActiveReplicas() {
			l.DiskFailed, l.UpToDate = 1, false
		}
	})
	desired, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
	require.True(t, desired.Replication.Connect)
}

// S67: a primary's report that its disk was copied again may be late, as that disk failed once more since. Its peer, which last observed
// that the primary has no disk, reports again in a new generation.
func TestS67_ALateWordOfAPrimaryDoesNotHideThatItsDiskFailedAgain(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n1", ReplicaObservation{Primary: true, Disk: diskless, PeerDisk: upToDate, Connection: connected, UUID: 7})
	w.reportCurrent(1, "n2", withoutPeersDisk(9, true))
	w.ok("node/n1", attachBlank("n1", w.bootOf("n1"), 2))
	before := w.volume(1).Replication.Generation
	late := inSyncObservation(7)
	late.Primary = true
	w.reportCurrent(1, "n1", late)
	require.True(t, w.replicaSync(1, "n1").UpToDate)
	require.Greater(t, w.volume(1).Replication.Generation, before)
	w.reportCurrent(1, "n2", withoutPeersDisk(9, true))
	require.EqualValues(t, 2, w.replicaSync(1, "n1").DiskFailed)
}
