package agent

import (
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// snapshotState is what the executor knows of one snapshot between two looks at the host.
type snapshotState struct {
	id fsm.SnapshotID

	// Guarded by table.mu.
	reportedFacts
	desired         *fsm.DesiredSnapshot
	desiredAt       fsm.Epoch
	busy            bool // a worker has it
	requeue         bool // it is to be looked at when he is done
	awaitingSession bool // it is to be looked at when the session got on

	// Of the worker that has it.
	file          *records.SlotFile
	record        records.SnapshotRecord
	freezeHold    *freezeHold
	parked        <-chan struct{} // a child that cannot be killed works on it; nil: none
	failures      int
	failedAttempt attempt              // which of the operator's attempts they belong to
	lastTried     *fsm.DesiredSnapshot // what was looked at last, for whoever says why that failed
}

// snapshot finds or makes the entry of a snapshot. The caller holds mu, or is alone.
func (t *table) snapshotEntry(id fsm.SnapshotID) *snapshotState {
	c, ok := t.snapshots[id]
	if !ok {
		c = &snapshotState{id: id, reportedFacts: newFacts()}
		t.snapshots[id] = c
	}
	return c
}
