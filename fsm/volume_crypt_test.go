package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func encryptedVolume(c *fsmpb.CreateVolume) *fsmpb.CreateVolume {
	c.Encrypted = true
	return c
}

// stageEncrypted is a stage that brings a UUID for the header.
func (w *world) stageEncrypted(n int, luks string, sequence uint64) *fsmpb.StageVolume {
	c := w.stage(n, "n1", sequence)
	c.LuksUuid = luks
	return c
}

func (w *world) headerMade(n int, luks string) {
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(n), Epoch: w.volume(n).Publication("n1").Epoch.Proto(),
		Fact: &fsmpb.Observation_HeaderMade{HeaderMade: &fsmpb.HeaderMade{LuksUuid: luks}}})
}

// encryptedWorld has volume 1, encrypted and published.
func encryptedWorld(t *testing.T) *world {
	w := newWorld(t)
	w.ready(1, encryptedVolume(create(1)))
	w.ok(controller, publish(1, "n1"))
	return w
}

func TestS62_AHeaderIsMadeOnce(t *testing.T) {
	w := encryptedWorld(t)
	w.rejected(Invalid, "node/n1", w.stage(1, "n1", 1))
	for sequence, luks := range []string{"luks-1", "luks-2"} {
		c := w.ok("node/n1", w.stageEncrypted(1, luks, uint64(sequence)+1)).GetGrant().GetCrypt()
		require.Equal(t, "luks-1", c.GetLuksUuid(), "the first UUID stays")
		require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, c.GetPhase())
	}
	w.headerMade(1, "luks-2")
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, w.volume(1).Crypt.Phase, "not the one that was chosen")
	staged := &fsmpb.Observation{VolumeId: volumeID(1), Epoch: w.volume(1).Publication("n1").Epoch.Proto()}
	formatted := *w.volume(1)
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: staged.GetEpoch(), Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: formatted.Format.FSUUID}}})
	staged.Fact = &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}
	w.report("n1", staged)
	require.False(t, w.volume(1).Publication("n1").Staging.Done, "not before the header is recorded")
	w.headerMade(1, "luks-1")
	w.report("n1", staged)
	require.True(t, w.volume(1).Publication("n1").Staging.Done)
	c := w.ok("node/n1", w.stageEncrypted(1, "luks-3", 9)).GetGrant().GetCrypt()
	require.Equal(t, "luks-1", c.GetLuksUuid())
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, c.GetPhase(), "S62: nobody makes another header")
	w.headerMade(1, "luks-1")
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, w.volume(1).Crypt.Phase)
}

func TestAVolumeIsEncryptedAsItWasCreated(t *testing.T) {
	w := newWorld(t)
	w.ready(1, encryptedVolume(create(1)))
	w.twice(controller, encryptedVolume(create(1)))
	w.rejected(Incompatible, controller, create(1))
	w.ready(2, create(2))
	w.rejected(Incompatible, controller, encryptedVolume(create(2)))
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.True(t, desired.Encrypted)
	desired, _ = w.s.DesiredVolume("n1", VolumeID(volumeID(2)))
	require.False(t, desired.Encrypted)
}

func TestACopyIsEncryptedAsItsSource(t *testing.T) {
	w := encryptedWorld(t)
	w.ready(2, create(2))
	w.rejected(Invalid, controller, createFrom(3, fromVolume(1)))
	w.rejected(Invalid, controller, encryptedVolume(createFrom(3, fromVolume(2))))
	w.ok("node/n1", w.stageEncrypted(1, "luks-1", 1))
	w.rejected(Busy, controller, encryptedVolume(createFrom(3, fromVolume(1)))) // its header is being made
	w.headerMade(1, "luks-1")
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: w.volume(1).Publication("n1").Epoch.Proto(),
		Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: "uuid-1"}}})
	w.ready(3, encryptedVolume(createFrom(3, fromVolume(1))))
	require.Equal(t, &Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, UUID: "luks-1", Cloned: true}, w.volume(3).Crypt)
	w.ok(controller, publish(3, "n1"))
	c := w.ok("node/n1", w.stageEncrypted(3, "luks-3", 1)).GetGrant().GetCrypt()
	require.True(t, c.GetCloned())
	require.Equal(t, "luks-3", c.GetLuksUuid())
	w.headerMade(3, "luks-3")
	require.Equal(t, &Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, UUID: "luks-3"}, w.volume(3).Crypt)
	w.ok(controller, createSnapshot(1, 1))
	n, _ := w.s.Snapshot(SnapshotID(snapshotID(1)))
	require.Equal(t, "luks-1", n.Crypt.UUID)
	d, _ := w.s.DesiredSnapshot("n1", n.ID)
	require.True(t, d.Encrypted)
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), SnapshotId: snapshotID(1), Fact: &fsmpb.Observation_SnapshotCut{SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: gib, CutUnixNano: 1}}})
	_, rej := w.s.SnapshotForMap("", n.ID)
	require.Equal(t, Precondition, rej.Reason, "its blocks are the ciphertext's")
}

func TestS72_EncryptionNeedsLevel2(t *testing.T) {
	require.Equal(t, Level2, LeastLevel(envelope(controller, "1", 1, encryptedVolume(create(1)))))
	require.Equal(t, Level1, LeastLevel(envelope(controller, "1", 1, create(1))))
	require.Equal(t, Level2, LeastLevel(envelope("node/n1", "1", 1, &fsmpb.Report{Observations: []*fsmpb.Observation{{Fact: &fsmpb.Observation_HeaderMade{HeaderMade: &fsmpb.HeaderMade{}}}}})))
}

func withDiscards(c *fsmpb.CreateVolume) *fsmpb.CreateVolume {
	c.EncryptionDiscards = true
	return c
}

// S61: whether discards pass is each volume's own, stays as it was created, and is for encrypted ones only.
func TestS61_DiscardsPassAnEncryptionWhereItWasCreatedSo(t *testing.T) {
	w := newWorld(t)
	w.rejected(Invalid, controller, withDiscards(create(1)))
	w.ready(1, withDiscards(encryptedVolume(create(1))))
	w.twice(controller, withDiscards(encryptedVolume(create(1))))
	w.rejected(Incompatible, controller, encryptedVolume(create(1)))
	w.ready(2, encryptedVolume(create(2)))
	w.rejected(Incompatible, controller, withDiscards(encryptedVolume(create(2))))
	for n, pass := range map[int]bool{1: true, 2: false} {
		desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(n)))
		require.Equal(t, pass, desired.EncryptionDiscards)
		w.ok(controller, publish(n, "n1"))
		require.Equal(t, pass, w.ok("node/n1", w.stageEncrypted(n, "luks", 1)).GetGrant().GetCrypt().GetDiscards())
		w.headerMade(n, "luks")
		require.Equal(t, pass, w.volume(n).Crypt.Discards, "also when its header is made")
		w.report("n1", &fsmpb.Observation{VolumeId: volumeID(n), Epoch: w.volume(n).Publication("n1").Epoch.Proto(),
			Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: w.volume(n).Format.FSUUID}}})
		w.ready(n+2, encryptedVolume(createFrom(n+2, fromVolume(n))))
		require.False(t, w.volume(n+2).Crypt.Discards, "a clone does not take it over")
		w.ready(n+4, withDiscards(encryptedVolume(createFrom(n+4, fromVolume(n)))))
		require.True(t, w.volume(n+4).Crypt.Discards, "it says so itself")
	}
}
