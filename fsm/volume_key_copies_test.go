package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// encryptVolume1 gives volume 1 a header, whose key was replaced so many times.
func (w *world) encryptVolume1(generation uint64) {
	w.t.Helper()
	w.changeVolume(func(v *Volume) {
		v.Crypt = &Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, UUID: "luks-1", KeyGeneration: generation}
	})
}

// S65: a replica that was outdated before the key was replaced has a header of before. The copy that is kept of it is of
// that generation, in a dump too; what it has once it is up to date again is the volume's.
func TestS65_AKeptCopyHasTheKeyOfWhenItWasOutdated(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.encryptVolume1(3)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	publicationRevoked1(w)
	takeover1(w)
	w.setUnreachable("n1", false)
	w.reportCurrent(1, "n1", ReplicaObservation{Unconfigured: true})
	w.unstaged(1, "n1", epoch)
	require.True(t, w.replicaSync(1, "n1").Outdated)
	w.changeVolume(func(v *Volume) { *v = v.withRotation(&KeyRotation{Slot: 1, Epoch: epoch}, 4) })
	before := w.s.Hash()
	for range 2 {
		w.lostAgain(8) // said again, it does not become younger
	}
	require.NotEqual(t, before, w.s.Hash())
	n := w.keptCopy(1, "n1")
	require.EqualValues(t, 3, n.Crypt.KeyGeneration)
	require.Nil(t, n.Crypt.Rotation, "it began later")
	require.EqualValues(t, 4, w.volume(1).Crypt.KeyGeneration)
	require.Equal(t, w.contents(), (&world{s: restored(t, w.s)}).contents())
	require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
	w.resynchronised(8)
	require.Zero(t, w.replicaSync(1, "n1").KeyGeneration)
	w.lostAgain(9)
	require.EqualValues(t, 4, w.keptCopy(2, "n1").Crypt.KeyGeneration)
}

// S65: hosts are told how often the key was replaced.
func TestS65_AHostIsToldOfTheKeyGeneration(t *testing.T) {
	w := stagedEncrypted(t)
	generation := func() uint64 {
		d, ok := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
		require.True(t, ok)
		return d.KeyGeneration
	}
	require.Zero(t, generation())
	w.begin([]uint32{0}, nil)
	w.added(1)
	require.Zero(t, generation(), "not before it is done")
	w.dropped(1)
	require.EqualValues(t, 1, generation())
}

// S65: the key generation of an outdated replica is in the hash.
func TestS65_TheHashHasTheKeyOfAnOutdatedReplica(t *testing.T) {
	w := newLoser(t)
	before := w.s.Hash()
	w.changeVolume(func(v *Volume) {
		*v = v.withReplication()
		v.ActiveReplica("host-n1").KeyGeneration = 1
	})
	require.NotEqual(t, before, w.s.Hash())
}
