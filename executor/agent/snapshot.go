package agent

import (
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// snapshotState is what the process knows of one snapshot between two observations.
type snapshotState struct {
	id fsm.SnapshotID

	// Guarded by table.mu.
	reportedFacts
	desired         *fsm.DesiredSnapshot
	desiredAt       fsm.Epoch
	busy            bool // a worker has it
	requeue         bool // to be reconciled again when the worker is done
	awaitingSession bool // to be reconciled when the session has caught up

	// Of the worker that has it.
	file          *records.SlotFile
	manifest      keptManifest
	record        records.SnapshotRecord
	freezeHold    *freezeHold
	parked        <-chan struct{} // closed when an unkillable child that works on it is gone; nil: none
	failures      int
	failedAttempt attempt              // the operator's attempt in which the failures were counted
	lastTried     *fsm.DesiredSnapshot // the desired state that was last worked on, for reporting its failure
}

// snapshotEntry finds or makes the entry of a snapshot. The caller holds table.mu, or is alone.
func (t *table) snapshotEntry(id fsm.SnapshotID) *snapshotState {
	snap, ok := t.snapshots[id]
	if !ok {
		snap = &snapshotState{id: id, reportedFacts: newFacts()}
		t.snapshots[id] = snap
	}
	return snap
}
