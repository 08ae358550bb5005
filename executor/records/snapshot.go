package records

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

// snapshotPhase is how far taking a snapshot got, on disk.
type snapshotPhase string

const (
	PhaseNone snapshotPhase = ""
	// PhaseBegun: frozen, or being taken. A file that exists may be torn: it was not checked yet
	// that the freeze held until it was complete (S19).
	PhaseBegun snapshotPhase = "begun"
	// PhaseTaken: the file is complete, and was taken under its freeze.
	PhaseTaken snapshotPhase = "done"
	// PhaseMissing: it was reported that the file is missing.
	PhaseMissing snapshotPhase = "missing"
)

// SnapshotRecord is what the host records of a snapshot that is being taken. It is synced
// before a freeze or the snapshot begins, and before either is reported: what an earlier
// process of this host left is never taken for something that it is not.
type SnapshotRecord struct {
	Snapshot fsm.SnapshotID `json:"snapshot"`
	Phase    snapshotPhase  `json:"phase"`
	Attempt  uint32         `json:"attempt"`
	TakenAt  time.Time      `json:"cut"` // when it was taken, once it is done
}

// IsOfAttempt reports whether the record is of this attempt.
func (r *SnapshotRecord) IsOfAttempt(attempt uint32) bool {
	return (r.Phase == PhaseBegun || r.Phase == PhaseTaken) && r.Attempt == attempt
}

func snapshotRecordPath(dir string, id fsm.SnapshotID) string {
	return filepath.Join(dir, snapshotsDir, string(id)+recordSuffix)
}

// RecordedSnapshots lists the snapshots that have a record, and makes their directory.
func RecordedSnapshots(dir string) (ids []fsm.SnapshotID, err error) {
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

// OpenSnapshotRecord reads a snapshot's record, nil when there is none.
func OpenSnapshotRecord(dir string, id fsm.SnapshotID) (*SlotFile, *SnapshotRecord, error) {
	file, content, err := openSlotFile(snapshotRecordPath(dir, id))
	if err != nil || content == nil {
		return file, nil, err
	}
	r := &SnapshotRecord{}
	if err := json.Unmarshal(content, r); err != nil {
		return nil, nil, fmt.Errorf("read the record of %s: %w", id, err)
	}
	return file, r, nil
}

// Save writes the record, synced.
func (r *SnapshotRecord) Save(file *SlotFile) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Snapshot, err)
	}
	return file.write(text, true)
}
