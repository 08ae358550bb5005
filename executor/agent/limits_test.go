package agent_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestLimitsAreInForceWhileAVolumeIsStaged(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			first, second := fsm.Limits{ReadIOPS: 100}, fsm.Limits{ReadIOPS: 200, WriteBPS: 1 << 20}
			id := backendtest.NewID()
			w.create(id, capability)
			w.modifyVolume(id, first)
			epoch := w.publishVolume(id, capability)
			require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, capability)))
			require.Equal(t, []fsm.Limits{first}, w.throttle.all())
			w.eventually(func() bool { v, _ := w.volume(id); return v.Replicas[0].Limits == first }, "told")
			w.modifyVolume(id, second)
			w.eventually(func() bool { return w.noOperation(id) }, "modified")
			require.Equal(t, []fsm.Limits{second}, w.throttle.all())
			w.restart()
			w.eventually(func() bool { w.throttle.mu.Lock(); defer w.throttle.mu.Unlock(); return w.throttle.applied == 3 }, "applied again: who knows what happened")
			w.modifyVolume(id, fsm.Limits{})
			w.eventually(func() bool { return w.noOperation(id) }, "lifted")
			require.Empty(t, w.throttle.all())
			w.modifyVolume(id, second)
			w.eventually(func() bool { return w.noOperation(id) }, "back")
			require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			require.Empty(t, w.throttle.all(), "the device's number is another volume's one day")
		})
	}
}

// The log forgets the limits with the staging, so those of the next staging are reported again:
// else a request for the limits that are already in force would wait for ever.
func TestLimitsOfALaterStagingAreReported(t *testing.T) {
	w := newTestHost(t)
	limits := fsm.Limits{ReadIOPS: 100}
	id := backendtest.NewID()
	w.create(id, mountCap)
	w.modifyVolume(id, limits)
	inForce := func() bool { v, _ := w.volume(id); return v.Replicas[0].Limits == limits }
	for range 3 {
		epoch := w.publishVolume(id, mountCap)
		for range 2 {
			require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
			w.eventually(inForce, "reported")
			require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			w.eventually(func() bool { return !inForce() }, "the log knows that it is unstaged")
		}
		require.NoError(t, w.unpublishVolume(id))
	}
}

// Limits that are wanted again before the report of others is answered are reported again: the
// host must not take the last answer for what the log has.
func TestLimitsThatAreWantedAgainAreReportedAgain(t *testing.T) {
	w := newTestHost(t)
	limits := fsm.Limits{ReadIOPS: 100}
	id := backendtest.NewID()
	w.create(id, mountCap)
	w.modifyVolume(id, limits)
	epoch := w.publishVolume(id, mountCap)
	require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
	w.eventually(func() bool { v, _ := w.volume(id); return v.Replicas[0].Limits == limits }, "told")
	var once sync.Once
	w.setBeforeAnswer(func(*fsmpb.Report) {
		if w.noOperation(id) {
			once.Do(func() { w.modifyVolume(id, limits) })
		}
	})
	w.modifyVolume(id, fsm.Limits{})
	w.eventually(func() bool { v, _ := w.volume(id); return v.Limits == limits && w.noOperation(id) }, "back")
}
