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
func (rc *recorder) openSnapshotRecord(c *snapshotState) error {
	if c.file != nil {
		return nil
	}
	file, r, err := records.OpenSnapshotRecord(rc.Host.Dir(), c.id)
	if err != nil {
		return err
	}
	c.file = file
	if r != nil {
		c.record = *r
	}
	return nil
}

// saveSnapshotRecord writes the snapshot's record, synced.
func (rc *recorder) saveSnapshotRecord(c *snapshotState, r records.SnapshotRecord) error {
	r.Snapshot = c.id
	rc.hitFaultPoint("save-snapshot.before")
	err := r.Save(c.file)
	rc.hitFaultPoint("save-snapshot.after")
	if err == nil {
		c.record = r
	}
	return err
}

// forgetSnapshotRecord removes the record, when the log has what it says or does not desire it.
func (rc *recorder) forgetSnapshotRecord(c *snapshotState) error {
	if err := c.file.Remove(); err != nil {
		return err
	}
	c.record = records.SnapshotRecord{}
	return nil
}
