package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// withoutPeersDisk is what a host observes of a peer whose kernel detached its disk.
func withoutPeersDisk(uuid uint64, primary bool) ReplicaObservation {
	return ReplicaObservation{Primary: primary, Disk: upToDate, PeerDisk: diskless, Connection: connected, UUID: uuid}
}

// S67: a failed disk is recorded by the peer's report too, until both hosts observed both
// disks UpToDate; at level 1 nothing records it.
func TestS67_AFailedDiskIsRecordedByThePeersObservation(t *testing.T) {
	for level, attach := range map[uint32]uint64{Level1: 0, Level2: 1} {
		w := newPairAt(t, level)
		w.readyReplicated(1, createReplicated(1, protocolC))
		w.primary(1, "n1", 7)
		w.reportCurrent(1, "n1", withoutPeersDisk(9, true))
		require.Equal(t, attach, w.replicaSync(1, "n2").DiskFailed, "level %d", level)
		require.Zero(t, w.replicaSync(1, "n1").DiskFailed)
		desired, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
		require.Equal(t, attach, desired.Replication.DiskFailed)
		w.reboot("n2")
		w.attach(1, "n2", 2)
		require.Equal(t, 2*attach, w.replicaSync(1, "n2").DiskFailed, "a boot mends nothing")
		blank := attachBlank("n2", w.bootOf("n2"), 3)
		blank.Blank = level == Level2 // the field is not known before
		w.ok("node/n2", blank)
		attach *= 2
		require.Equal(t, attach, w.replicaSync(1, "n2").DiskFailed, "a blank disk is to be copied")
		whole := inSyncObservation(9)
		whole.Primary = true
		w.reportCurrent(1, "n1", whole)
		require.Equal(t, attach, w.replicaSync(1, "n2").DiskFailed, "one host's word is not enough")
		w.reportCurrent(1, "n2", inSyncObservation(9))
		require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
		require.NoError(t, w.s.Check())
	}
}

// S67: the same under the primary; its own last report, from before, does not clear the
// failure.
func TestS67_APrimarysFailedDiskIsRecorded(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n2", withoutPeersDisk(9, false))
	require.EqualValues(t, 1, w.replicaSync(1, "n1").DiskFailed)
	observed := inSyncObservation(7)
	observed.Primary = true
	w.reportCurrent(1, "n1", observed)
	require.EqualValues(t, 1, w.replicaSync(1, "n1").DiskFailed)
}

// S67: a primary's disk that was copied again is whole by its own host's observation. The disk of the other host, which fails before
// that one observed anything, can be copied then.
func TestS67_TheDisksOfBothFailOneAfterTheOther(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n1", ReplicaObservation{Primary: true, Disk: diskless, PeerDisk: upToDate, Connection: connected, UUID: 7})
	w.reportCurrent(1, "n2", withoutPeersDisk(7, false))
	require.EqualValues(t, 1, w.replicaSync(1, "n1").DiskFailed)
	w.ok("node/n1", attachBlank("n1", w.bootOf("n1"), 2))
	whole := inSyncObservation(7)
	whole.Primary = true
	w.reportCurrent(1, "n1", whole)
	require.True(t, w.replicaSync(1, "n1").UpToDate)
	require.Zero(t, w.replicaSync(1, "n1").DiskFailed)
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: diskless, PeerDisk: upToDate, Connection: connected, UUID: 7})
	require.EqualValues(t, 1, w.replicaSync(1, "n2").DiskFailed)
	desired, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
	require.False(t, desired.Replication.Peer.Incomplete)
	require.True(t, desired.Replication.Peer.UpToDate)
}

// S67, S5 (a): InSyncUUID counts for nothing on a disk that failed since; a forced
// promotion uses the disk as it is.
func TestS67_AFailedDiskIsPromotedByADecisionOnly(t *testing.T) {
	w := newReplicated(t, protocolC)
	require.NotZero(t, w.replicaSync(1, "n2").InSyncUUID)
	w.reportCurrent(1, "n1", withoutPeersDisk(7, false))
	w.setUnreachable("n1", true)
	w.reboot("n2")
	w.attach(1, "n2", 2)
	w.ok(controller, publish(1, "n2"))
	solo := ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7}
	w.rejected(Precondition, "node/n2", w.setPrimary(1, "n2", solo))
	w.ok("admin/a", &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burned", PeerDead: true})
	w.ok("node/n2", w.setPrimary(1, "n2", solo))
	require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
	desired, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
	require.True(t, desired.Replication.Peer.Incomplete)
}

// S67: an observation of an earlier generation does not mark a disk as failed that was
// copied since.
func TestS67_ALateObservationOfAFailedDiskDoesNotCount(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	late := w.currentObservation(1, "n1", withoutPeersDisk(9, true))
	epoch := w.volume(1).Publication("n1").Epoch
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.unstaged(1, "n1", epoch) // a new generation begins
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.reportCurrent(1, "n2", inSyncObservation(7))
	w.reportObservation(1, "n1", late)
	require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
}

// Two hosts that connect before their disks were attached did not lose them: else both
// would wait for an operator.
func TestS67_ADiskThatWasNotAttachedYetDidNotFail(t *testing.T) {
	w := newReplicated(t, protocolC)
	for _, node := range []string{"n1", "n2"} {
		w.reboot(node)
		w.attach(1, node, 2)
	}
	for _, node := range []string{"n1", "n2"} {
		w.reportCurrent(1, node, ReplicaObservation{Disk: diskless, PeerDisk: diskless, Connection: connected})
	}
	for _, node := range []string{"n1", "n2"} {
		require.Zero(t, w.replicaSync(1, node).DiskFailed)
	}
}

// S67, S71: a failed disk stays recorded while its replica is leaving: the writes that no
// bitmap names are still missing when it takes part again.
func TestS67_ARestoredLeavingReplicaKeepsItsDiskFailure(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n1", withoutPeersDisk(9, true))
	require.EqualValues(t, 1, w.replicaSync(1, "n2").DiskFailed)
	w.ok(controller, removeReplica("n2"))
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
	require.EqualValues(t, 1, w.replicaSync(1, "n2").DiskFailed)
}

// S67: a new replica, copied from a failed disk, would make that disk count again,
// without a decision.
func TestS67_NoReplicaIsAddedToAFailedDisk(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n1", withoutPeersDisk(9, true))
	w.loseNode("n1")
	w.rejected(Precondition, controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
}

// S6, S67: a primary's request from before its disk failed does not outdate the only good
// copy.
func TestS67_APrimaryWhoseDiskFailedDoesNotOutdateItsPeer(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	question := w.outdate(1, "n1", disconnectedPrimary(7))
	w.reportCurrent(1, "n2", withoutPeersDisk(7, false))
	require.EqualValues(t, 1, w.replicaSync(1, "n1").DiskFailed)
	require.Equal(t, refused, w.ok("node/n1", question).GetVerdict())
}

// S67: a host that has all of its failed disk copied again discards what it has. It is
// not told to when the peer's device is missing, or the peer's own host has no UpToDate
// disk: both copies would be gone.
func TestS67_NoDiskIsDiscardedForAPeerWithoutOne(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"its device is missing": func(w *world) {
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
		},
		"its kernel gave the disk up": func(w *world) { w.reportCurrent(1, "n1", ReplicaObservation{Disk: diskless, Connection: connecting}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.reportCurrent(1, "n1", withoutPeersDisk(7, false))
			desired, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
			require.True(t, desired.Replication.Peer.UpToDate && !desired.Replication.Peer.Incomplete)
			lose(w)
			desired, _ = w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
			require.True(t, !desired.Replication.Peer.UpToDate && desired.Replication.Peer.Incomplete)
		})
	}
}

// S67: which of the two hosts reports it first makes no difference.
func TestS67_AFailedDiskIsRecordedByItsOwnHostsObservation(t *testing.T) {
	for level, attach := range map[uint32]uint64{Level1: 0, Level2: 1} {
		w := newPairAt(t, level)
		w.readyReplicated(1, createReplicated(1, protocolC))
		w.primary(1, "n1", 7)
		own := ReplicaObservation{Primary: true, Disk: diskless, PeerDisk: upToDate, Connection: connected, UUID: 7}
		for range 2 {
			w.reportCurrent(1, "n1", own)
			require.Equal(t, attach, w.replicaSync(1, "n1").DiskFailed, "level %d", level)
		}
		w.reportCurrent(1, "n2", withoutPeersDisk(9, false))
		require.Equal(t, attach, w.replicaSync(1, "n1").DiskFailed)
		require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
		require.NoError(t, w.s.Check())
	}
}

// S67, S71: the peer of a failed disk may have the only good copy, whatever the failed
// disk's own host reported last.
func TestS71_AReplicaIsNotRemovedForOneWhoseDiskFailed(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.reportCurrent(1, "n1", withoutPeersDisk(7, false))
	require.NotZero(t, w.replicaSync(1, "n2").DiskFailed)
	w.rejected(Precondition, controller, removeReplica("n1"))
}

// S67, S71: a failed disk is no copy that would allow to remove another replica.
func TestS71_ALeavingReplicaStaysWhileTheOtherDiskFailed(t *testing.T) {
	w := replaced(t)
	w.attach(1, "n3", 1)
	w.report("n3", volumeObservation(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(1).Size}}))
	require.Equal(t, GoalRemove, w.volumeGoal(1, "n2"))
	w.reportCurrent(1, "n3", ReplicaObservation{Disk: inconsistent, PeerDisk: diskless, Connection: connected})
	require.NotZero(t, w.replicaSync(1, "n1").DiskFailed)
	require.Equal(t, GoalKeep, w.volumeGoal(1, "n2"))
	require.NoError(t, w.s.Check())
}

// leftPeerBehind is what a host observes of a disk that went on in a generation of its own.
func leftPeerBehind(uuid uint64) ReplicaObservation {
	return ReplicaObservation{Disk: consistent, Connection: connecting, UUID: uuid, PeerBehind: true}
}

// S67: a disk went on without its peer although the log outdated neither: the peer's disk failed
// while they were connected, and is copied again from this one.
func TestS67_AFailureIsRecordedByWhatTheOtherDiskWentOnWith(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	for _, node := range []string{"n1", "n2"} {
		w.reboot(node)
		w.attach(1, node, 2)
	}
	for range 2 {
		w.reportCurrent(1, "n1", leftPeerBehind(9))
		require.EqualValues(t, 2, w.replicaSync(1, "n2").DiskFailed)
		require.True(t, w.replicaSync(1, "n1").UpToDate)
	}
	require.Zero(t, w.replicaSync(1, "n1").DiskFailed)
	w.reportCurrent(1, "n1", inSyncObservation(9))
	w.reportCurrent(1, "n2", inSyncObservation(9))
	require.EqualValues(t, 2, w.replicaSync(1, "n2").DiskFailed, "it was copied by a bitmap, in the attachment that failed")
	require.False(t, w.replicaSync(1, "n2").UpToDate)
	w.attach(1, "n2", 3)
	w.reportCurrent(1, "n1", inSyncObservation(9))
	w.reportCurrent(1, "n2", inSyncObservation(9))
	require.EqualValues(t, 3, w.replicaSync(1, "n2").DiskFailed, "and in a later one as well")
	require.False(t, w.replicaSync(1, "n2").UpToDate)
	w.ok("node/n2", attachBlank("n2", w.bootOf("n2"), 4))
	w.reportCurrent(1, "n1", inSyncObservation(9))
	w.reportCurrent(1, "n2", inSyncObservation(9))
	require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
	require.True(t, w.replicaSync(1, "n2").UpToDate)
}

// S67: a failed disk that was attached as it is is no primary beside its peer, whatever the kernels
// make of their bitmaps.
func TestS67_AFailedDiskIsNoPrimaryBesideItsPeer(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.reportCurrent(1, "n1", withoutPeersDisk(7, false))
	w.reboot("n2")
	w.attach(1, "n2", 2)
	w.ok(controller, publish(1, "n2"))
	w.rejected(Busy, "node/n2", w.setPrimary(1, "n2", ReplicaObservation{Disk: upToDate, PeerDisk: inconsistent, Connection: fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE, UUID: 9}))
	w.rejected(Busy, "node/n2", w.setPrimary(1, "n2", inSyncObservation(9)))
}

func attachBlank(node, boot string, number uint64) *fsmpb.AttachReplica {
	return &fsmpb.AttachReplica{VolumeId: volumeID(1), NodeId: node, HostId: "host-" + node, BootId: boot, Attach: number, Blank: true}
}

// S67: what the log permitted proves no failure, nor does a disk that lost, or what a primary of
// protocol A does without asking.
func TestS67_APermittedGenerationProvesNoFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		protocol fsmpb.Protocol
		before   func(*world)
		observed ReplicaObservation
	}{
		"the peer was outdated":     {protocolC, func(w *world) { w.primary(1, "n1", 7); w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7))) }, leftPeerBehind(9)},
		"protocol A":                {fsmpb.Protocol_PROTOCOL_A, func(w *world) { w.primary(1, "n1", 7) }, leftPeerBehind(9)},
		"this one was outdated":     {protocolC, func(w *world) { w.primary(1, "n2", 7); w.ok("node/n2", w.outdate(1, "n2", disconnectedPrimary(7))) }, leftPeerBehind(9)},
		"it has no consistent disk": {protocolC, func(w *world) { w.primary(1, "n1", 7) }, ReplicaObservation{Disk: inconsistent, Connection: connecting, UUID: 9, PeerBehind: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, tc.protocol)
			tc.before(w)
			w.reportCurrent(1, "n1", tc.observed)
			require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
			require.Zero(t, w.replicaSync(1, "n1").DiskFailed)
		})
	}
}

// S1, S67: a log that was lost may have outdated the disk that went on, when its peer was forced: which of them has every
// write is not known after a restore, and an operator decides, or both are seen together.
func TestS67_AGenerationOfBeforeARestoreProvesNoFailure(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
	for _, node := range []string{"n1", "n2"} {
		w.reboot(node)
		w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
		w.attach(1, node, 2)
	}
	stale := leftPeerBehind(9)
	stale.Disk = upToDate // its kernel knows that it went on alone
	w.reportCurrent(1, "n1", stale)
	require.False(t, w.replicaSync(1, "n1").UpToDate)
	require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
	w.unstaged(1, "n1", w.volume(1).Publication("n1").Epoch)
	w.rejected(Precondition, "node/n1", w.setPrimary(1, "n1", stale))
	w.reportCurrent(1, "n1", inSyncObservation(11))
	w.reportCurrent(1, "n2", inSyncObservation(11))
	w.ok("node/n1", w.setPrimary(1, "n1", inSyncObservation(11)))
	w.reportCurrent(1, "n1", leftPeerBehind(13))
	require.EqualValues(t, 2, w.replicaSync(1, "n2").DiskFailed, "from here on the log knows what it permitted")
	require.NoError(t, w.s.Check())
}

// S67: an old observation of a disk that failed is none of the attachment in which it is copied
// again.
func TestS67_ABlankDiskDoesNotFailAgainByAnOldObservation(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ok("node/n2", attachBlank("n2", w.bootOf("n2"), 2))
	require.EqualValues(t, 1, w.replicaSync(1, "n2").DiskFailed, "as its own host knew")
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: upToDate, PeerDisk: upToDate, Connection: connected, UUID: 9})
	w.reportCurrent(1, "n1", withoutPeersDisk(9, true))
	require.EqualValues(t, 1, w.replicaSync(1, "n2").DiskFailed)
}

// S67: a disk that failed lacks blocks that no bitmap names. Once it is used as it is by a decision its
// peer, which has them, is copied completely, however often the grant is asked for.
func TestS67_ThePeerOfAForcedFailedDiskIsToBeCopiedInFull(t *testing.T) {
	for name, tc := range map[string]struct {
		level  uint32
		failed bool
		want   uint64
	}{"a failed disk": {Level2, true, 1}, "a disk that did not fail": {Level2, false, 0}, "at level 1": {Level1, true, 0}} {
		t.Run(name, func(t *testing.T) {
			w := newPairAt(t, tc.level)
			w.readyReplicated(1, createReplicated(1, protocolC))
			if tc.failed {
				w.reportCurrent(1, "n1", withoutPeersDisk(7, false))
			}
			w.setUnreachable("n1", true)
			w.reboot("n2")
			w.attach(1, "n2", 2)
			w.ok(controller, publish(1, "n2"))
			w.ok("admin/a", &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burned", PeerDead: true})
			solo := ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 8}
			for range 2 {
				require.True(t, w.ok("node/n2", w.setPrimary(1, "n2", solo)).GetForce())
				require.Equal(t, tc.want, w.replicaSync(1, "n1").DiskFailed)
				require.True(t, w.replicaSync(1, "n1").Outdated)
				require.Zero(t, w.replicaSync(1, "n2").DiskFailed)
			}
			desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
			require.Equal(t, tc.want, desired.Replication.DiskFailed)
			require.NoError(t, w.s.Check())
		})
	}
}
