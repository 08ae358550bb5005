package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

const snapshotsDir = "snapshots"

// snapshotPhase is how far a cut went, on disk.
type snapshotPhase string

const (
	phaseNone snapshotPhase = ""
	// phaseBegun: frozen, or being cut. A file that is there may be torn: it appeared,
	// but nobody has checked yet that the freeze held until then (S19).
	phaseBegun snapshotPhase = "begun"
	// phaseTaken: the file is whole, under its freeze.
	phaseTaken snapshotPhase = "done"
	// phaseMissing: the log was told that the file is missing.
	phaseMissing snapshotPhase = "missing"
)

// snapshotRecord is what the host keeps of a snapshot that is being cut. It is
// synced before a freeze or a cut begins, and before either is reported: what another
// process of this host left is never taken for something that it is not.
type snapshotRecord struct {
	Snapshot fsm.SnapshotID `json:"snapshot"`
	Phase    snapshotPhase  `json:"phase"`
	Attempt  uint32         `json:"attempt"`
	TakenAt  time.Time      `json:"cut"` // when it was cut, once it is done
}

// isOfAttempt tells whether the record is of this attempt.
func (r *snapshotRecord) isOfAttempt(attempt uint32) bool {
	return (r.Phase == phaseBegun || r.Phase == phaseTaken) && r.Attempt == attempt
}

func snapshotRecordPath(dir string, id fsm.SnapshotID) string {
	return filepath.Join(dir, snapshotsDir, string(id)+recordSuffix)
}

// loadSnapshots finds what earlier processes recorded: what nobody wants any more is
// forgotten, once a session says so.
func (rc *recorder) loadSnapshots() error {
	ids, err := recordedSnapshots(rc.Host.Dir())
	for _, id := range ids {
		rc.snapshotEntry(id)
	}
	return err
}

// recordedSnapshots lists the snapshots that have a record, and makes their folder.
func recordedSnapshots(dir string) (ids []fsm.SnapshotID, err error) {
	dir = filepath.Join(dir, snapshotsDir)
	if err := os.MkdirAll(dir, privateMode); err != nil {
		return nil, fmt.Errorf("make the folder of the snapshots' records: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the snapshots' records: %w", err)
	}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), recordSuffix); ok && fsm.SnapshotID(name).Valid() {
			ids = append(ids, fsm.SnapshotID(name))
		}
	}
	return ids, nil
}

// openSnapshotRecord reads the snapshot's record, once.
func (rc *recorder) openSnapshotRecord(c *snapshotState) error {
	if c.file != nil {
		return nil
	}
	file, r, err := openSnapshotRecord(rc.Host.Dir(), c.id)
	if err != nil {
		return err
	}
	c.file = file
	if r != nil {
		c.record = *r
	}
	return nil
}

// openSnapshotRecord reads a snapshot's record, nil when there is none.
func openSnapshotRecord(dir string, id fsm.SnapshotID) (*slotFile, *snapshotRecord, error) {
	file, content, err := openSlotFile(snapshotRecordPath(dir, id))
	if err != nil || content == nil {
		return file, nil, err
	}
	r := &snapshotRecord{}
	if err := json.Unmarshal(content, r); err != nil {
		return nil, nil, fmt.Errorf("read the record of %s: %w", id, err)
	}
	return file, r, nil
}

// saveSnapshotRecord writes the snapshot's record, synced.
func (rc *recorder) saveSnapshotRecord(c *snapshotState, r snapshotRecord) error {
	r.Snapshot = c.id
	rc.hitFaultPoint("save-snapshot.before")
	err := r.save(c.file)
	rc.hitFaultPoint("save-snapshot.after")
	if err == nil {
		c.record = r
	}
	return err
}

// save writes the record, synced.
func (r *snapshotRecord) save(file *slotFile) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Snapshot, err)
	}
	return file.write(text, true)
}

// forgetSnapshotRecord removes the record, of what the log knows or does not want.
func (rc *recorder) forgetSnapshotRecord(c *snapshotState) error {
	if err := c.file.remove(); err != nil {
		return err
	}
	c.record = snapshotRecord{}
	return nil
}
