package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// gatedLog answers reports when a test says so, each with the index that the test gives.
type gatedLog struct {
	reports chan *fsmpb.Report
	answers chan uint64
}

func (l *gatedLog) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	select {
	case l.reports <- cmd.GetReport():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case index := <-l.answers:
		return &fsmpb.Outcome{Index: index}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newSlowHost(t *testing.T) (*testHost, *gatedLog) {
	w := newStoppedHost(t)
	w.resync = time.Hour
	log := &gatedLog{reports: make(chan *fsmpb.Report), answers: make(chan uint64)}
	w.build(nil, log)
	w.e.Start()
	return w, log
}

func removing(id fsm.VolumeID, index uint64, adopted bool) executor.Update {
	return executor.Update{
		At: fsm.Epoch{Incarnation: 1, Index: index}, Full: true, Adopted: adopted, IncarnationID: []byte("i"),
		Volumes: []fsm.DesiredVolume{{Volume: id, Pool: "hp-fake", Size: testSize, Goal: fsm.GoalRemove, ReplicaState: fsm.ReplicaPresent}},
	}
}

func (l *gatedLog) next(t *testing.T) *fsmpb.Report {
	t.Helper()
	select {
	case r := <-l.reports:
		return r
	case <-time.After(time.Minute):
		require.Fail(t, "nothing is reported")
		return nil
	}
}

// An update that came while a report was under way found nothing to report, and the report was
// superseded: so the fact is reported again without waiting for the next resync.
func TestASupersededFactIsReportedAgain(t *testing.T) {
	w, log := newSlowHost(t)
	id := backendtest.NewID()
	w.e.Update(removing(id, 3, true))
	require.NotNil(t, log.next(t).GetObservations()[0].GetDeviceGone())
	looks := w.pool.Effects("observe", id)
	w.e.Update(removing(id, 9, true))
	require.Eventually(t, func() bool { return w.pool.Effects("observe", id) > looks }, time.Minute, time.Millisecond)
	require.NoError(t, w.e.UnpublishTarget(t.Context(), id, "/nowhere")) // the worker is done
	log.answers <- 5
	require.NotNil(t, log.next(t).GetObservations()[0].GetDeviceGone())
	log.answers <- 10
}

// The same for a snapshot: an update that came while its report was under way found nothing to report.
func TestASupersededSnapshotFactIsReportedAgain(t *testing.T) {
	w, log := newSlowHost(t)
	id, source := backendtest.NewSnapshotID(), backendtest.NewID()
	want := func(index uint64) executor.Update {
		return executor.Update{
			At: fsm.Epoch{Incarnation: 1, Index: index}, Full: true, Adopted: true, IncarnationID: []byte("i"),
			Snapshots: []fsm.DesiredSnapshot{{Snapshot: id, Source: source, Pool: "hp-fake", Goal: fsm.SnapshotGoalRemove}},
		}
	}
	w.e.Update(want(3))
	require.NotNil(t, log.next(t).GetObservations()[0].GetSnapshotGone())
	for index := range uint64(2) { // when a worker begins the second time, the first is done
		looks := w.pool.Effects("observe-snapshot", fsm.VolumeID(id))
		w.e.Update(want(8 + index))
		require.Eventually(t, func() bool { return w.pool.Effects("observe-snapshot", fsm.VolumeID(id)) > looks }, time.Minute, time.Millisecond)
	}
	log.answers <- 5
	require.NotNil(t, log.next(t).GetObservations()[0].GetSnapshotGone())
	log.answers <- 10
}

// S1: what a host in adoption mode was told to do is done as soon as it is adopted.
func TestS1_AnAdoptedHostActsOnEarlierUpdates(t *testing.T) {
	w, log := newSlowHost(t)
	id := backendtest.NewID()
	w.e.Update(removing(id, 3, false))
	require.Eventually(t, func() bool { return w.pool.Effects("observe", id) > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, w.e.UnpublishTarget(t.Context(), id, "/nowhere"))
	w.e.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 4}, Adopted: true, IncarnationID: []byte("i")})
	require.NotNil(t, log.next(t).GetObservations()[0].GetDeviceGone())
	log.answers <- 5
}
