package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S9, S67: what waits beside a disk that failed waits in vain until that one is attached again; one that is only away comes back.
func TestS67_APeersDiskIsGoneUntilItIsAttachedAgain(t *testing.T) {
	w := newReplicated(t, protocolC)
	gone := func() bool {
		desired, ok := w.s.DesiredVolume("n2", w.volume(1).ID)
		require.True(t, ok)
		return desired.Replication.Peer.DiskGone
	}
	require.False(t, gone())
	w.setUnreachable("n1", true)
	require.False(t, gone())
	w.setUnreachable("n1", false)
	w.reportCurrent(1, "n1", ReplicaObservation{Disk: diskless, PeerDisk: upToDate, Connection: connected})
	require.True(t, gone())
	w.attach(1, "n1", 2)
	require.True(t, gone())
	w.reportCurrent(1, "n1", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: connected})
	require.False(t, gone(), "it is being copied")
}

// S67: the peer's disk counts as attached while its host is reachable and reported under
// the current generation that its kernel has it.
func TestS67_APeersDiskIsAttachedByItsCurrentObservationOnly(t *testing.T) {
	w := newReplicated(t, protocolC)
	peer := func() *ReplicaPeer {
		desired, ok := w.s.DesiredVolume("n1", w.volume(1).ID)
		require.True(t, ok)
		return desired.Replication.Peer
	}
	require.False(t, peer().DiskAttached, "what has its disk does not ask")
	w.reportCurrent(1, "n1", ReplicaObservation{Disk: diskless, PeerDisk: upToDate, Connection: connected})
	require.True(t, peer().DiskAttached)
	w.setUnreachable("n2", true)
	require.Equal(t, []bool{true, false}, []bool{peer().UpToDate, peer().DiskAttached}, "it may have burnt")
	w.setUnreachable("n2", false)
	w.reportCurrent(1, "n2", inSyncObservation(7))
	require.True(t, peer().DiskAttached)
	w.reboot("n2")
	require.False(t, peer().DiskAttached)
	w.attach(1, "n2", 2)
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: fsmpb.DiskState_DISK_STATE_CONSISTENT, Connection: connecting})
	require.True(t, peer().DiskAttached)
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: inconsistent, Connection: connecting})
	require.False(t, peer().DiskAttached)
}
