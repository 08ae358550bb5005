package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S5, S10: both hosts observed all of a clean demotion before the last teardown ended,
// and report nothing new after it. At level 1 the clean demotion is not recorded.
func TestS10_TheLastTeardownRecordsACleanDemotion(t *testing.T) {
	for level, uuid := range map[uint32]uint64{Level1: 0, Level2: 7} {
		w := newPairAt(t, level)
		w.readyReplicated(1, createReplicated(1, protocolC))
		w.primary(1, "n1", 7)
		epoch := w.volume(1).Publication("n1").Epoch
		w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		require.NotNil(t, w.volume(1).Teardown("host-n1"))
		w.reportCurrent(1, "n1", inSyncObservation(7))
		w.reportCurrent(1, "n2", inSyncObservation(7))
		for _, node := range []string{"n1", "n2"} {
			require.Zero(t, w.replicaSync(1, node).InSyncUUID, "its teardown is still pending")
		}
		w.unstaged(1, "n1", epoch)
		require.Empty(t, w.volume(1).Teardowns)
		for _, node := range []string{"n1", "n2"} {
			require.Equal(t, uuid, w.replicaSync(1, node).InSyncUUID.Value, "level %d", level)
		}
	}
}

// S5: a content that not both hosts observed under the generation that began when the
// grant ended is not recorded as InSyncUUID either.
func TestS5_TheEndOfATeardownRecordsNoInSyncUUIDThatWasNotObserved(t *testing.T) {
	for name, observed := range map[string]func(*world){
		"only one host looked": func(w *world) { w.reportCurrent(1, "n1", inSyncObservation(7)) },
		"their contents differ": func(w *world) {
			w.reportCurrent(1, "n1", inSyncObservation(7))
			w.reportCurrent(1, "n2", inSyncObservation(8))
		},
		"one of them is not whole": func(w *world) {
			w.reportCurrent(1, "n1", inSyncObservation(7))
			w.reportCurrent(1, "n2", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: connected, UUID: 7})
		},
		"one of them is not connected": func(w *world) {
			w.reportCurrent(1, "n1", inSyncObservation(7))
			w.reportCurrent(1, "n2", disconnectedObservation(7, connecting))
		},
		"one looked before the last end": func(w *world) {
			early := w.currentObservation(1, "n2", inSyncObservation(7))
			early.Generation--
			w.reportCurrent(1, "n1", inSyncObservation(7))
			w.reportObservation(1, "n2", early)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			epoch := w.volume(1).Publication("n1").Epoch
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
			observed(w)
			w.unstaged(1, "n1", epoch)
			require.Empty(t, w.volume(1).Teardowns)
			require.Zero(t, w.replicaSync(1, "n1").InSyncUUID)
			require.Zero(t, w.replicaSync(1, "n2").InSyncUUID)
		})
	}
}
