package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S65: the disk of the host that rotated the key failed before: its header is that of before, and an older key opens it.
func TestS65_AFailedDiskOfThePrimaryIsListed(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	v := *w.volume(1)
	v.Crypt = &Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, UUID: "luks-1", KeyGeneration: 1}
	require.Empty(t, w.s.keyRotated(&v).GetNodeIds())
	w.reportCurrent(1, "n1", ReplicaObservation{Primary: true, Disk: diskless, PeerDisk: upToDate, Connection: connected, UUID: 9})
	failed := *w.volume(1)
	failed.Crypt = v.Crypt
	require.NotZero(t, w.replicaSync(1, "n1").DiskFailed)
	require.Equal(t, []string{"n1"}, w.s.keyRotated(&failed).GetNodeIds())
}

// S65: which copies an answer lists is in its hash.
func TestS65_TheHashOfAnAnswerTellsCopiesFromNodes(t *testing.T) {
	sum := func(k *fsmpb.KeyRotated) sum256 {
		e := &encoder{}
		hashKeyRotated(e, []*fsmpb.KeyRotated{k})
		return e.sum()
	}
	require.NotEqual(t, sum(&fsmpb.KeyRotated{VolumeId: "v", SnapshotIds: []string{"x"}}), sum(&fsmpb.KeyRotated{VolumeId: "v", NodeIds: []string{"x"}}))
}
