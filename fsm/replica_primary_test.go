package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S5: which host may be primary without its peer, by its kernel's state and what is
// recorded.
func TestS5_OnlyAReplicaWithEveryWriteIsPromotedWithoutItsPeer(t *testing.T) {
	stale := func(w *world) { w.primary(1, "n2", 7); w.release(1, "n2", 9); w.reboot("n1"); w.attach(1, "n1", 2) }
	rebooted := func(w *world) { w.reboot("n1"); w.attach(1, "n1", 2) }
	for name, tc := range map[string]struct {
		before   func(*world)
		observed ReplicaObservation
		want     Reason
	}{
		"(i) it never left":     {observed: disconnectedObservation(7, connecting)},
		"(i) its disk failed":   {observed: ReplicaObservation{Disk: diskless, Connection: connecting}, want: Precondition},
		"(i) half synchronised": {observed: ReplicaObservation{Disk: inconsistent, UUID: 7, Connection: connecting}, want: Precondition},
		"(i) its kernel says up to date, the log does not know": {before: rebooted, observed: disconnectedObservation(8, connecting), want: Precondition},
		"(iii) rebooted with the content that both had":         {before: rebooted, observed: ReplicaObservation{Disk: consistent, UUID: 7, Connection: connecting}},
		"(iii) rebooted with another":                           {before: rebooted, observed: ReplicaObservation{Disk: consistent, UUID: 8, Connection: connecting}, want: Precondition},
		"(iii) rebooted with none":                              {before: rebooted, observed: ReplicaObservation{Disk: consistent, Connection: connecting}, want: Precondition},
		"(iii) a grant was made since, to the other":            {before: stale, observed: ReplicaObservation{Disk: consistent, UUID: 7, Connection: connecting}, want: Precondition},
		"connected, up to date":                                 {observed: inSyncObservation(7)},
		"connected to a peer whose disk failed":                 {observed: ReplicaObservation{Disk: upToDate, PeerDisk: diskless, UUID: 7, Connection: connected}},
		"connected, its own disk failed":                        {observed: ReplicaObservation{Disk: diskless, PeerDisk: upToDate, Connection: connected}, want: Busy},
		"connected, rebooted, and it synchronises its peer":     {before: rebooted, observed: ReplicaObservation{Disk: upToDate, PeerDisk: inconsistent, UUID: 8, Connection: syncSource}},
		"connected, rebooted, and its peer did not see that":    {before: rebooted, observed: inSyncObservation(8), want: Busy},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			if tc.before != nil {
				tc.before(w)
			}
			w.ok(controller, publish(1, "n1"))
			c := w.setPrimary(1, "n1", tc.observed)
			if tc.want != 0 {
				w.rejected(tc.want, "node/n1", c)
				require.Empty(t, w.s.PrimaryHost(w.volume(1)))
				return
			}
			out := w.ok("node/n1", c)
			require.Equal(t, HostID("host-n1"), w.s.PrimaryHost(w.volume(1)))
			require.Equal(t, out.GetIndex(), out.GetGeneration())
			require.Equal(t, !tc.observed.Connected(), w.replicaSync(1, "n2").Outdated, "without its peer, in the same entry")
			require.True(t, w.replicaSync(1, "n1").UpToDate)
			require.Equal(t, tc.observed.Connected(), w.replicaSync(1, "n2").UpToDate)
			require.Zero(t, w.replicaSync(1, "n1").InSyncUUID, "a grant ends what was settled")
			c.Seen.Generation = out.GetGeneration()
			c.Seen.Generation = w.ok("node/n1", c).GetGeneration()
			require.NotEqual(t, out.GetGeneration(), c.Seen.Generation, "not yet primary, it gets a new grant")
			if c.Seen.Disk == upToDate {
				c.Seen.Primary = true
				again := w.ok("node/n1", c).GetGeneration()
				require.Equal(t, again, w.ok("node/n1", c).GetGeneration(), "as primary it has what it has")
			}
		})
	}
}

// S5: that a host was granted by its content does not make it primary with a disk that was seen worse since.
func TestS5_AGrantIsNotRepeatedForAWorseDisk(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.reboot("n1")
	w.attach(1, "n1", 2)
	w.ok(controller, publish(1, "n1"))
	c := w.setPrimary(1, "n1", ReplicaObservation{Disk: consistent, UUID: 7, Connection: connecting})
	c.Seen.Generation = w.ok("node/n1", c).GetGeneration()
	require.Equal(t, HostID("host-n1"), w.s.PrimaryHost(w.volume(1)))
	for _, disk := range []fsmpb.DiskState{inconsistent, fsmpb.DiskState_DISK_STATE_OUTDATED} {
		fork := *w
		fork.s = w.s.Fork()
		c.Seen.Disk = disk
		fork.rejected(Precondition, "node/n1", c)
	}
}

// release ends the use of volume n on the node, which then has another content.
func (w *world) release(n int, node string, uuid uint64) {
	w.t.Helper()
	epoch := w.volume(n).Publication(NodeID(node)).Epoch
	w.reportCurrent(n, node, ReplicaObservation{Disk: upToDate, PeerDisk: diskless, Connection: connected, UUID: uuid})
	w.unstaged(n, node, epoch)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(n)})
	require.Empty(w.t, w.volume(n).Teardowns)
}

// S5, (ii): the survivor of a loss, rebooted alone, has every write.
func TestS5_ASoloPrimaryIsPromotedSoloAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		between  func(*world)
		observed ReplicaObservation
		want     Reason
	}{
		"its kernel knows that the peer is out": {observed: disconnectedObservation(8, connecting)},
		"its kernel does not, as the peer came back and its own disk may have failed since": {
			observed: ReplicaObservation{Disk: consistent, UUID: 8, Connection: connecting}, want: Precondition},
		"another content": {observed: disconnectedObservation(9, connecting), want: Precondition},
		"the peer came back, as both hosts said": {between: func(w *world) {
			observed := inSyncObservation(8)
			observed.Primary = true
			w.reportCurrent(1, "n1", observed)
			w.reportCurrent(1, "n2", inSyncObservation(8))
			require.True(w.t, w.replicaSync(1, "n2").UpToDate)
		}, observed: disconnectedObservation(8, connecting), want: Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			lonely := disconnectedObservation(7, connecting)
			lonely.Primary, lonely.Suspended = true, true
			require.Equal(t, fsmpb.Verdict_VERDICT_PEER_OUTDATED, w.ok("node/n1", w.outdate(1, "n1", lonely)).GetVerdict())
			lonely.UUID, lonely.Suspended = 8, false
			w.reportCurrent(1, "n1", lonely)
			require.EqualValues(t, 8, w.replicaSync(1, "n1").SoloPrimaryUUID.Value)
			if tc.between != nil {
				tc.between(w)
			}
			w.reboot("n1")
			w.attach(1, "n1", 2)
			c := w.setPrimary(1, "n1", tc.observed)
			if tc.want != 0 {
				w.rejected(tc.want, "node/n1", c)
				return
			}
			w.ok("node/n1", c)
			require.EqualValues(t, 8, w.replicaSync(1, "n1").SoloPrimaryUUID.Value, "its own grant does not end it")
		})
	}
}

// Scenario 2c: EIO under the secondary, unreported; the primary continues and loses
// power.
func TestS5_AStaleSecondaryIsNotPromoted(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	// The disk under n2 fails and its process is stopped: nothing of it is reported. n1
	// loses power. The process of n2 starts again and attaches alone.
	w.setUnreachable("n1", true)
	w.attach(1, "n2", 2)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: consistent, UUID: 7, Connection: standAlone})
	require.False(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))), "so the unpublish is not answered OK")
	w.ok(controller, publish(1, "n2"))
	out := w.rejected(Precondition, "node/n2", w.setPrimary(1, "n2", ReplicaObservation{Disk: consistent, UUID: 7, Connection: standAlone}))
	require.Contains(t, out.GetRejection().GetMessage(), "waits for its peer")
}

// Scenario 2c: EIO under the primary, power loss of both, then the primary alone boots.
func TestS5_APrimaryWhoseDiskFailedWaitsForItsPeer(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.reboot("n1")
	w.attach(1, "n1", 2)
	behind := ReplicaObservation{Disk: consistent, UUID: 7, Connection: connecting}
	w.rejected(Precondition, "node/n1", w.setPrimary(1, "n1", behind))
	// Both are back: they connect, n1 is synchronised, and continues by itself.
	w.reboot("n2")
	w.attach(1, "n2", 2)
	w.reportCurrent(1, "n1", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 7})
	w.rejected(Busy, "node/n1", w.setPrimary(1, "n1", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 7}))
	w.reportCurrent(1, "n2", inSyncObservation(8))
	w.reportCurrent(1, "n1", inSyncObservation(8))
	w.ok("node/n1", w.setPrimary(1, "n1", inSyncObservation(8)))
	require.Equal(t, HostID("host-n1"), w.s.PrimaryHost(w.volume(1)))
}

func TestS5_AttachingIsRecordedFirstAndEndsBeingUpToDate(t *testing.T) {
	w := newReplicated(t, protocolC)
	old := w.currentObservation(1, "n1", inSyncObservation(7))
	w.attach(1, "n1", 2)
	require.Equal(t, ReplicaSync{Boot: "boot-1", Attachment: 2, InSyncUUID: w.replicaSync(1, "n1").InSyncUUID}, *w.replicaSync(1, "n1").ReplicaSync)
	w.reportObservation(1, "n1", old)
	require.False(t, w.replicaSync(1, "n1").UpToDate, "what was seen in the former attachment does not count")
	again := &fsmpb.AttachReplica{VolumeId: volumeID(1), NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Attach: 1}
	w.rejected(StaleEpoch, "node/n1", again)
	again.Attach = 0
	w.rejected(StaleEpoch, "node/n1", again)
	again.Attach, again.BootId = 3, "boot-0"
	w.rejected(StaleEpoch, "node/n1", again)
	again.BootId = "boot-1"
	w.rejected(Forbidden, "node/n2", again)
	again.VolumeId = volumeID(9)
	w.rejected(NotFound, "node/n1", again)
	w.reboot("n2")
	require.False(t, w.replicaSync(1, "n2").UpToDate, "the attachment ended with the boot")
	require.Zero(t, w.replicaSync(1, "n2").Observed)
}

// S2: a grant is for one publication, one boot, one host and the attachment that it
// names.
func TestS2_AGrantIsForOnePublicationBootAndAttachment(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world, *fsmpb.SetPrimary)
		want   Reason
	}{
		"an earlier boot":       {func(_ *world, c *fsmpb.SetPrimary) { c.BootId = "boot-0" }, StaleEpoch},
		"another epoch":         {func(_ *world, c *fsmpb.SetPrimary) { c.Epoch.Index-- }, StaleEpoch},
		"another attachment":    {func(_ *world, c *fsmpb.SetPrimary) { c.Seen.Attach++ }, StaleEpoch},
		"seen in another boot":  {func(_ *world, c *fsmpb.SetPrimary) { c.Seen.BootId = "boot-0" }, StaleEpoch},
		"an earlier generation": {func(_ *world, c *fsmpb.SetPrimary) { c.Seen.Generation-- }, Busy},
		"it is not attached":    {func(_ *world, c *fsmpb.SetPrimary) { c.Seen.Down = true }, StaleEpoch},
		"not published":         {func(w *world, _ *fsmpb.SetPrimary) { w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)}) }, StaleEpoch},
		"its device is missing": {func(w *world, _ *fsmpb.SetPrimary) {
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
		}, Precondition},
		"S1: in adoption mode": {func(w *world, _ *fsmpb.SetPrimary) {
			w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
		}, Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.ok(controller, publish(1, "n1"))
			c := w.setPrimary(1, "n1", inSyncObservation(7))
			tc.change(w, c)
			w.rejected(tc.want, "node/n1", c)
		})
	}
	w := newReplicated(t, protocolC)
	w.ok(controller, publish(1, "n1"))
	w.rejected(StaleEpoch, "node/n2", w.setPrimary(1, "n2", inSyncObservation(7)))
}

// S2: the grant ends with the boot; its promotion must be requested again.
func TestS2_ANewBootHasNoGrant(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.reboot("n1")
	require.Empty(t, w.s.PrimaryHost(w.volume(1)))
	require.NotNil(t, w.volume(1).Replication.Primary)
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.True(t, desired.Replication.Primary)
	require.True(t, desired.Replication.PromotionDone, "only a staging asks again")
	w.attach(1, "n1", 2)
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.reportCurrent(1, "n2", inSyncObservation(7))
	w.ok("node/n1", w.setPrimary(1, "n1", inSyncObservation(7)))
	require.Equal(t, HostID("host-n1"), w.s.PrimaryHost(w.volume(1)))
}

// A host that relinquishes the grant while its publication stays requests another when it
// stages.
func TestUnstagingRelinquishesThePrimary(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	w.unstaged(1, "n1", epoch)
	require.Equal(t, HostID("host-n1"), w.s.PrimaryHost(w.volume(1)), "it said that it is primary, and not yet that it is no more")
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.unstaged(1, "n1", epoch)
	require.Empty(t, w.s.PrimaryHost(w.volume(1)))
	require.True(t, w.s.PromotionDone(w.volume(1), "n1"))
	require.Zero(t, w.replicaSync(1, "n2").InSyncUUID)
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.reportCurrent(1, "n2", inSyncObservation(7))
	require.EqualValues(t, 7, w.replicaSync(1, "n2").InSyncUUID.Value, "a clean demotion, seen by both since")
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	require.Empty(t, w.volume(1).Teardowns)
	require.Nil(t, w.volume(1).Replication.Primary)
}

// What a host observed before it wrote is not taken for a clean demotion when it is
// reported late.
func TestS5_ALateObservationRecordsNoInSyncUUID(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(controller, publish(1, "n1"))
	w.ok("node/n1", w.setPrimary(1, "n1", inSyncObservation(7)))
	early := w.currentObservation(1, "n1", inSyncObservation(7)) // granted, not yet primary
	w.reportCurrent(1, "n2", inSyncObservation(7))
	observed := inSyncObservation(7)
	observed.Primary = true
	w.reportCurrent(1, "n1", observed)
	// The disk of n2 fails; n1 writes, is demoted and unpublished.
	w.release(1, "n1", 8)
	w.reportObservation(1, "n1", early)
	require.Zero(t, w.replicaSync(1, "n2").InSyncUUID)
}

func TestOlderObservationsDoNotCount(t *testing.T) {
	w := newReplicated(t, protocolC)
	early := w.currentObservation(1, "n1", disconnectedObservation(7, connecting))
	w.primary(1, "n1", 7)
	last := w.replicaSync(1, "n1").Observed
	w.reportObservation(1, "n1", early)
	require.Equal(t, last, w.replicaSync(1, "n1").Observed, "of an earlier generation than what is recorded")
	w.rejected(Busy, "node/n1", w.setPrimary(1, "n1", inSyncObservation(7))) // it reported that it is primary, and not yet that it is no more
	future := w.currentObservation(1, "n1", inSyncObservation(7))
	future.Generation += 1000
	w.reportObservation(1, "n1", future)
	require.Equal(t, last, w.replicaSync(1, "n1").Observed)
}

// S5, (ii): a peer that is just being added has no content yet.
func TestS5_AReplicaIsPromotedSoloWhileItsPeerIsBeingMade(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.primary(1, "n1", 7)
	ask1(w)
	lonely := disconnectedObservation(8, connecting)
	lonely.Primary = true
	w.reportCurrent(1, "n1", lonely)
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2", Reason: "burnt"})
	w.ok(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	require.EqualValues(t, 8, w.replicaSync(1, "n1").SoloPrimaryUUID.Value)
	w.reboot("n1")
	w.attach(1, "n1", 2)
	w.ok("node/n1", w.setPrimary(1, "n1", disconnectedObservation(8, connecting)))
	w.rejected(InUse, controller, removeReplica("n1"))
}

// A report of an earlier unstage that was under way when the host requested again
// relinquishes nothing.
func TestS16_ALateUnstageRelinquishesNoLaterGrant(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	w.reportCurrent(1, "n1", inSyncObservation(7)) // secondary; its Unstaged is on its way
	w.ok("node/n1", w.setPrimary(1, "n1", inSyncObservation(7)))
	w.unstaged(1, "n1", epoch)
	require.Equal(t, HostID("host-n1"), w.s.PrimaryHost(w.volume(1)))
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	require.NotEmpty(t, w.volume(1).Teardowns)
	w.unstaged(1, "n1", epoch)
	require.NotEmpty(t, w.volume(1).Teardowns, "nor does it end what a revocation left")
}

// S8: what was observed before the revocation does not count after it, granted or not.
func TestS8_ARevocationBeginsAGeneration(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(controller, publish(1, "n1"))
	w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
	publicationRevoked1(w)
	require.False(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))))
	w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
	require.True(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))))
}
