package agent

import (
	"github.com/holdfast-storage/holdfast/executor/records"
)

// loadSnapshots finds what earlier processes recorded. Records without desired state are
// removed once a session has said so.
func (rc *recorder) loadSnapshots() error {
	ids, err := records.RecordedSnapshots(rc.Host.Dir())
	for _, id := range ids {
		rc.snapshotEntry(id)
	}
	return err
}

// openSnapshotRecord reads the snapshot's record, once.
func (rc *recorder) openSnapshotRecord(snap *snapshotState) error {
	if snap.file != nil {
		return nil
	}
	file, r, err := records.OpenSnapshotRecord(rc.Host.Dir(), snap.id)
	if err != nil {
		return err
	}
	snap.file = file
	if r != nil {
		snap.record = *r
	}
	return nil
}

// saveSnapshotRecord writes the snapshot's record, synced.
func (rc *recorder) saveSnapshotRecord(snap *snapshotState, r records.SnapshotRecord) error {
	r.Snapshot = snap.id
	rc.hitFaultPoint("save-snapshot.before")
	err := r.Save(snap.file)
	rc.hitFaultPoint("save-snapshot.after")
	if err == nil {
		snap.record = r
	}
	return err
}

// forgetSnapshotRecord removes the record, when the log has what it says or does not desire it.
func (rc *recorder) forgetSnapshotRecord(snap *snapshotState) error {
	if err := snap.file.Remove(); err != nil {
		return err
	}
	snap.record = records.SnapshotRecord{}
	return nil
}
