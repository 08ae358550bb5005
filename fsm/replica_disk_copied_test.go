package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S67: a primary's disk failed and was copied again, of which its own host knows first. What its peer still
// observes of the copying, connected and under the new generation, is no new failure.
func TestS67_TheEndOfACopyIsNoNewFailure(t *testing.T) {
	for name, late := range map[string]ReplicaObservation{
		"its peer still copies":             {Disk: upToDate, PeerDisk: inconsistent, Connection: syncSource, UUID: 9, PeerBehind: true},
		"its peer forgets its bitmap later": {Disk: upToDate, PeerDisk: upToDate, Connection: connected, UUID: 9, PeerBehind: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := copiedPrimary(t)
			w.reportCurrent(1, "n2", late)
			require.Zero(t, w.replicaSync(1, "n1").DiskFailed)
			require.True(t, w.replicaSync(1, "n1").UpToDate)
			w.reportCurrent(1, "n2", inSyncObservation(9))
			w.reportCurrent(1, "n1", primaryInSync(9))
			for _, node := range []string{"n1", "n2"} {
				require.True(t, w.replicaSync(1, node).UpToDate, node)
				require.Zero(t, w.replicaSync(1, node).DiskFailed, node)
			}
		})
	}
}

// S67: one that failed once more is recorded, although its own host said last that it was copied.
func TestS67_AFailureAfterTheCopyIsRecorded(t *testing.T) {
	for name, late := range map[string]ReplicaObservation{
		"while they are connected":   {Disk: upToDate, PeerDisk: diskless, Connection: connected, UUID: 11, PeerBehind: true},
		"and the connection is lost": {Disk: upToDate, Connection: connecting, UUID: 11, PeerBehind: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := copiedPrimary(t)
			w.reportCurrent(1, "n2", late)
			require.EqualValues(t, 2, w.replicaSync(1, "n1").DiskFailed)
		})
	}
}

func primaryInSync(uuid uint64) ReplicaObservation {
	observed := inSyncObservation(uuid)
	observed.Primary = true
	return observed
}

// copiedPrimary: n1 is primary, its disk failed in attachment 1, and n1 reports that attachment 2 was copied.
func copiedPrimary(t *testing.T) *world {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	failed := ReplicaObservation{Primary: true, Disk: diskless, PeerDisk: upToDate, Connection: connected, UUID: 9}
	w.reportCurrent(1, "n1", failed)
	require.EqualValues(t, 1, w.replicaSync(1, "n1").DiskFailed)
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: upToDate, PeerDisk: diskless, Connection: connected, UUID: 9, PeerBehind: true})
	w.ok("node/n1", attachBlank("n1", w.bootOf("n1"), 2))
	w.reportCurrent(1, "n1", ReplicaObservation{Primary: true, Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 9})
	w.reportCurrent(1, "n1", primaryInSync(9))
	require.Zero(t, w.replicaSync(1, "n1").DiskFailed)
	return w
}
