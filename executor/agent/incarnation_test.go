package agent

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// callbackLog is a Proposer; something else happens while its answer is on its way.
type callbackLog struct{ onPropose func() }

func (a callbackLog) Propose(context.Context, *fsmpb.Command) (*fsmpb.Outcome, error) {
	a.onPropose()
	return &fsmpb.Outcome{Index: 1000, Grant: &fsmpb.Grant{}}, nil
}

// newRestoringAgent is an Agent whose log is replaced by a restored one, with lower indexes,
// while an answer is on its way.
func newRestoringAgent(t *testing.T) (*Agent, *volume) {
	a := newBareAgent(t)
	session := func(incarnation, index uint64) {
		a.Update(executor.Update{At: fsm.Epoch{Incarnation: incarnation, Index: index}, Full: true, Adopted: true})
	}
	session(1, 1000)
	a.Proposer = callbackLog{func() { session(2, 5) }}
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	require.True(t, a.tryLock(v))
	require.NoError(t, a.records.openRecord(v))
	return a, v
}

// S1: a grant from before a restore has no index of the restored log, which may take long to get
// there. To wait for that would keep anything from being done to the volume.
func TestS1_AGrantFromBeforeARestoreIsNotAwaited(t *testing.T) {
	a, v := newRestoringAgent(t)
	g, err := a.stager.proposeStage(t.Context(), v, nil, &executor.StageRequest{Volume: v.id})
	require.ErrorIs(t, err, errSessionChanged)
	require.Nil(t, g)
	require.Zero(t, v.record.Floor)
	a.Proposer = callbackLog{func() { a.Update(executor.Update{At: fsm.Epoch{Incarnation: 3, Index: 6}, Full: true, Adopted: true}) }}
	_, err = a.binder.proposeTarget(t.Context(), v, nil, &executor.PublishTargetRequest{Volume: v.id})
	require.ErrorIs(t, err, errSessionChanged)
	require.Zero(t, v.record.Floor)
}

// S1: the restored log does not have what was reported before the restore, and the fact must be
// reported again even if no later call brings it about.
func TestS1_AFactReportedBeforeARestoreIsReportedAgain(t *testing.T) {
	a, v := newRestoringAgent(t)
	err := a.volumeReports.reportFactAndWait(t.Context(), v, nil, plan.Fact{Name: plan.FactStaged}, &fsmpb.Observation{})
	require.Empty(t, v.committed)
	require.Empty(t, v.acked)
	require.ErrorIs(t, err, errSessionChanged)
	v.desired = &fsm.DesiredVolume{} // nothing else runs
	before := fsm.Epoch{Incarnation: 1, Index: 1000}
	a.volumeReports.onFactAnswer(v, plan.Fact{Name: plan.FactCondition, Path: "ill"}, 0, before, nil)
	a.volumeReports.onFactAnswer(v, plan.Fact{Name: plan.FactLimitsApplied, Path: fmt.Sprint(v.desired.Limits)}, 0, before, nil)
	require.Nil(t, v.ackedHealth)
	require.Nil(t, v.ackedLimits)
}

// S1: the same for snapshots: a missing one changes no desired state, so nothing else would have
// it reported to the restored log.
func TestS1_AMissingSnapshotIsReportedToTheRestoredLogToo(t *testing.T) {
	a, _ := newRestoringAgent(t)
	session := func(incarnation uint64) {
		a.Update(executor.Update{At: fsm.Epoch{Incarnation: incarnation, Index: 7}, Full: true, Adopted: true, Snapshots: []fsm.DesiredSnapshot{
			{Snapshot: testSnapshot, Source: testVolume, Goal: fsm.SnapshotGoalKeep},
		}})
	}
	session(1)
	snap, missed := a.snapshots[testSnapshot], plan.Fact{Name: plan.FactSnapshotMissing}
	acked := func(incarnation uint64) {
		a.snapshotReports.onSnapshotFactAnswer(snap, missed, fsm.Epoch{Incarnation: incarnation, Index: 7}, nil)
	}
	acked(1)
	require.Contains(t, snap.acked, missed)
	session(1)
	require.Contains(t, snap.acked, missed, "the same log knows it in each session")
	session(2)
	require.Empty(t, snap.acked)
	acked(1)
	require.Empty(t, snap.acked, "the answer was on its way")
	acked(2)
	require.Contains(t, snap.acked, missed)
}
