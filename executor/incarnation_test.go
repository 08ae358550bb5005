package executor

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// answering is a Log whose answer is on its way while something else happens.
type answering struct{ meanwhile func() }

func (a answering) Propose(context.Context, *fsmpb.Command) (*fsmpb.Outcome, error) {
	a.meanwhile()
	return &fsmpb.Outcome{Index: 1000, Grant: &fsmpb.Grant{}}, nil
}

// restoring is an executor whose log is replaced by a restored one, with lower indexes,
// while an answer is on its way.
func restoring(t *testing.T) (*Executor, *volume) {
	e := bare(t)
	session := func(incarnation, index uint64) {
		e.Update(Update{At: fsm.Epoch{Incarnation: incarnation, Index: index}, Full: true, Adopted: true})
	}
	session(1, 1000)
	e.Log = answering{func() { session(2, 5) }}
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(v))
	require.NoError(t, e.open(v))
	return e, v
}

// S1: a grant that the log gave before it was restored is of no index of the restored one,
// which might be long in getting there: until then nothing of the volume would be done.
func TestS1_AGrantOfBeforeARestoreIsWaitedForNoMore(t *testing.T) {
	e, v := restoring(t)
	g, err := e.proposeStage(t.Context(), v, nil, &StageRequest{Volume: v.id})
	require.ErrorIs(t, err, errOtherSession)
	require.Nil(t, g)
	require.Zero(t, v.journal.Floor)
	e.Log = answering{func() { e.Update(Update{At: fsm.Epoch{Incarnation: 3, Index: 6}, Full: true, Adopted: true}) }}
	_, err = e.proposeTarget(t.Context(), v, nil, &PublishRequest{Volume: v.id})
	require.ErrorIs(t, err, errOtherSession)
	require.Zero(t, v.journal.Floor)
}

// S1: what was told to the log before it was restored is not known to the restored one, and
// nothing that a later call finds is to say so.
func TestS1_AFactToldBeforeARestoreIsNotKnownToTheRestoredLog(t *testing.T) {
	e, v := restoring(t)
	err := e.reportFact(t.Context(), v, nil, fact{name: factStaged}, &fsmpb.Observation{})
	require.Empty(t, v.known)
	require.Empty(t, v.told)
	require.ErrorIs(t, err, errOtherSession)
	v.wish = &fsm.DesiredVolume{} // nothing else runs
	before := fsm.Epoch{Incarnation: 1, Index: 1000}
	e.sent(v, fact{name: factHealth, path: "ill"}, before, nil)
	e.sent(v, fact{name: factLimited, path: fmt.Sprint(v.wish.Limits)}, before, nil)
	require.Nil(t, v.heardHealth)
	require.Nil(t, v.limits)
}

// S1: so it is with snapshots: that one is missing changes no wish, so that nothing else would
// have it said to the restored log.
func TestS1_ASnapshotThatIsMissingIsSaidToTheRestoredLogToo(t *testing.T) {
	e, _ := restoring(t)
	session := func(incarnation uint64) {
		e.Update(Update{At: fsm.Epoch{Incarnation: incarnation, Index: 7}, Full: true, Adopted: true, Snapshots: []fsm.DesiredSnapshot{
			{Snapshot: stuckSnapshot, Source: staleVolume, Goal: fsm.SnapshotGoalKeep},
		}})
	}
	session(1)
	c, missed := e.snapshots[stuckSnapshot], fact{name: factMissed}
	told := func(incarnation uint64) {
		e.sentSnapshot(c, missed, fsm.Epoch{Incarnation: incarnation, Index: 7}, nil)
	}
	told(1)
	require.Contains(t, c.told, missed)
	session(1)
	require.Contains(t, c.told, missed, "the same log knows it in each session")
	session(2)
	require.Empty(t, c.told)
	told(1)
	require.Empty(t, c.told, "the answer was on its way")
	told(2)
	require.Contains(t, c.told, missed)
}
