package records

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// sequenceReserve is how many sequence numbers one write of the record reserves.
const sequenceReserve = 64

// RecordFile is a volume's record in memory, and the file that it is saved to.
type RecordFile struct {
	VolumeRecord
	file     *SlotFile
	sequence uint64 // the last number that was issued
}

const recordSuffix = ".rec"

func recordPath(dir string, id fsm.VolumeID) string {
	return filepath.Join(dir, volumesDir, string(id)+recordSuffix)
}

// RecordedVolumes lists the volumes that have a record.
func RecordedVolumes(dir string) (ids []fsm.VolumeID, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, volumesDir))
	if err != nil {
		return nil, fmt.Errorf("read the host's records: %w", err)
	}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), recordSuffix); ok && fsm.VolumeID(name).Valid() {
			ids = append(ids, fsm.VolumeID(name))
		}
	}
	return ids, nil
}

// OpenRecordFile reads a volume's record. A file that is missing, or was never written
// completely, is an empty record: nothing was done that it would have announced.
func OpenRecordFile(dir string, id fsm.VolumeID) (*RecordFile, error) {
	file, content, err := openSlotFile(recordPath(dir, id))
	if err != nil {
		return nil, err
	}
	f := &RecordFile{file: file, VolumeRecord: VolumeRecord{Volume: id}}
	if content != nil {
		if err := json.Unmarshal(content, &f.VolumeRecord); err != nil {
			return nil, fmt.Errorf("read the record of %s: %w", id, err)
		}
	}
	f.sequence = f.SequenceLimit
	if plantedbug.Is(plantedbug.OutboxLost) {
		f.PendingTeardowns = nil
	}
	if plantedbug.Is(plantedbug.SequenceReused) {
		f.sequence = 0
	}
	return f, nil
}

// NextSequence issues a number above every number that this host issued and that the log
// applied. Numbers are reserved on disk with the next Save; see MustReserve.
func (f *RecordFile) NextSequence(applied uint64) uint64 {
	f.sequence = max(f.sequence, applied) + 1
	return f.sequence
}

// MustReserve reports whether numbers were issued that no Save has reserved yet.
func (f *RecordFile) MustReserve() bool { return f.sequence > f.SequenceLimit }

// OnDisk reports whether the record was ever written.
func (f *RecordFile) OnDisk() bool { return f.file.exists }

// Remove deletes the record's file.
func (f *RecordFile) Remove() error { return f.file.Remove() }

// Save writes the record. Without sync a crash of the host may undo it: only for changes
// whose loss means no more than a superfluous report.
func (f *RecordFile) Save(sync bool) error {
	if f.MustReserve() {
		f.SequenceLimit = f.sequence + sequenceReserve
	}
	text, err := json.Marshal(&f.VolumeRecord)
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", f.Volume, err)
	}
	return f.file.write(text, sync)
}
